"""How fast a model learns, by itself: the time of a step, with nothing else on the device and nothing to wait for.

Runs that were packed on one device slowed each other down, and timelines have to be composed; here a few batches that
lie on the device are learnt from again and again. It is what the paper's claim that attention trains faster than
recurrence is judged by.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import cycle, islice

from densevid.data.batches import Batch
from densevid.data.vocabulary import Vocabulary
from densevid.device import describe_device
from densevid.io import provenance, write_json
from densevid.training.data import initial_model, prepare
from densevid.training.rewards import reward_for
from densevid.training.run import pick_device
from densevid.training.run_folder import RunFolder
from densevid.training.train_state import TrainState
from research.paper_tables.caption_gradient import few_batches
from research.paper_tables.model_runs import ModelRun
from research.paper_tables.prepared_data import Files

BATCHES = 4


def write_speed(run: ModelRun, files: Files, device_name: str | None, *, steps: int = 40) -> float:
    """Measure a run's model and note it in the run's folder; videos a second."""
    device, vocabulary = pick_device(device_name), Vocabulary.load(RunFolder(run.folder).vocabulary)
    data = prepare(run.config, files, None, vocabulary)
    batches = list(few_batches(data, run.config, device, BATCHES))
    model = initial_model(run.config, vocabulary, None).to(device)
    reward = reward_for(run.config, data.training, vocabulary)
    learner = TrainState(model, run.config, 3 * steps, reward=reward)
    model.train()
    _learn(learner, batches, steps // 4 + BATCHES)  # kernels are chosen and compiled
    begun = time.perf_counter()
    videos = _learn(learner, batches, steps)
    seconds = time.perf_counter() - begun
    times = {"steps": steps, "videos_per_second": videos / seconds, "seconds_per_step": seconds / steps}
    about = provenance(config_hash=run.config.hash, model=run.hash, device=str(device))
    write_json(run.speed, {**times, "device_name": describe_device(device), "provenance": about})
    return videos / seconds


def _learn(learner: TrainState, batches: Sequence[Batch], steps: int) -> int:
    """Learn so many steps and wait for the last; how many videos that were."""
    videos = 0
    for batch in islice(cycle(batches), steps):
        values = learner.train_step(batch)
        videos += len(batch.features_BTF)
    float(values[0])
    return videos
