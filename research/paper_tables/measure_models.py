"""What is measured of trained models: the gradient of the captions in the proposal decoder, and the speed of a step.

The gradient is the paper's central claim by itself: how much of what moves the proposals comes from the captions? For a
trained model, and for the same model before its first step, the gradient of each weighted loss is taken with respect to
the proposal decoder, on a few batches of training data. The figures are their norms and the share of the caption loss
in the sum of the norms; it is zero where `model.word_gradient` or `model.mask_gradient` is off, and where the mask is
discrete.

The speed is that of training steps alone on the device, on a few batches that lie there: runs that shared a device
slowed each other down, and composing timelines takes time of its own. It tests the paper's claim that attention trains
faster than recurrence.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import torch
from torch import Tensor

from densevid.checkpoint import load_model
from densevid.config import Config
from densevid.data.batches import Batch
from densevid.data.dataloader import BatchSampler, SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.data.vocabulary import Vocabulary
from densevid.device import describe_device
from densevid.io import provenance, write_json
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.dataloader import TimelineLoader
from densevid.training.data import PreparedData, initial_model, prepare
from densevid.training.objective import total_loss
from densevid.training.rewards import reward_for
from densevid.training.run import pick_device
from densevid.training.run_folder import RunFolder
from densevid.training.train_state import TrainState
from research.paper_tables.model_runs import GRADIENT_FORMAT, ModelRun
from research.paper_tables.prepared_data import Files

GRADIENT_BATCHES, SPEED_BATCHES = 8, 4
WEIGHTS = {"score": "score_weight", "offsets": "offset_weight", "mask": "mask_weight", "words": "word_weight"}


def write_gradient(run: ModelRun, files: Files, device_name: str | None) -> None:
    """Measure the gradients of a run before and after training, and write gradient.json into its folder."""
    device, loaded = pick_device(device_name), load_model(run.model)
    data = prepare(run.config, files, None, loaded.vocabulary)
    torch.manual_seed(run.seed)
    fresh = MaskedTransformer(run.config, len(loaded.vocabulary))
    measured = {
        when: gradient_norms(model.to(device), few_batches(data, run.config, device, GRADIENT_BATCHES), run.config)
        for when, model in (("before", fresh), ("after", loaded.model))
    }
    content = {
        **measured,
        "caption_share": measured["after"]["caption_share"],
        "batches": GRADIENT_BATCHES,
        "format": GRADIENT_FORMAT,
    }
    write_json(run.gradient, {**content, "provenance": provenance(config_hash=run.config.hash, model=run.hash)})


def gradient_norms(model: MaskedTransformer, batches: Iterator[Batch], config: Config) -> dict[str, float]:
    """The mean norm of each weighted loss's gradient in the proposal decoder.

    Args:
        model: The model; it is put into training mode.
        batches: Training batches on its device.
        config: The settings it is trained with.

    Returns:
        The norm of each loss, and `caption_share`, the share of the caption loss in their sum.
    """
    parameters: list[Tensor] = list(model.proposal_decoder.parameters())
    weights = {part: getattr(config.training, weight) for part, weight in WEIGHTS.items()}
    sums = dict.fromkeys(WEIGHTS, 0.0)
    count = 0
    model.train()
    for batch in batches:
        _, losses = total_loss(model, batch, config)  # the caption loss includes the clips beside the batch
        for name in WEIGHTS:
            sums[name] += _norm(weights[name] * getattr(losses, name), parameters)
        count += 1
    norms = {name: value / max(count, 1) for name, value in sums.items()}
    return {**norms, "caption_share": norms["words"] / max(sum(norms.values()), 1e-30)}


def _norm(loss: Tensor, parameters: list[Tensor]) -> float:
    """0 where the loss does not depend on any of them."""
    if not loss.requires_grad:
        return 0.0
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    squares = [gradient.double().pow(2).sum() for gradient in found if gradient is not None]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def few_batches(data: PreparedData, config: Config, device: torch.device, count: int) -> Iterator[Batch]:
    """The first batches of a run's training data, on the device."""
    size = config.training.batch_size
    if isinstance(data.training, SegmentDataset):
        loaded = SegmentLoader(data.training, BatchSampler(size, config.training.seed), device=device).batches(0)
    else:
        loaded = TimelineLoader(data.training, size, device=device).batches(0)
    return islice(loaded, count)


def write_speed(run: ModelRun, files: Files, device_name: str | None, *, steps: int = 40) -> float:
    """Time training steps of a run's model and write speed.json into its folder; return the videos per second."""
    device, vocabulary = pick_device(device_name), Vocabulary.load(RunFolder(run.folder).vocabulary)
    data = prepare(run.config, files, None, vocabulary)
    batches = list(few_batches(data, run.config, device, SPEED_BATCHES))
    model = initial_model(run.config, vocabulary, None).to(device)
    reward = reward_for(run.config, data.training, vocabulary)
    state = TrainState(model, run.config, 3 * steps, reward=reward)
    model.train()
    _train(state, batches, steps // 4 + SPEED_BATCHES)  # kernels are chosen and compiled
    begun = time.perf_counter()
    videos = _train(state, batches, steps)
    seconds = time.perf_counter() - begun
    times = {"steps": steps, "videos_per_second": videos / seconds, "seconds_per_step": seconds / steps}
    about = provenance(config_hash=run.config.hash, model=run.hash, device=str(device))
    write_json(run.speed, {**times, "device_name": describe_device(device), "provenance": about})
    return videos / seconds


def _train(state: TrainState, batches: Sequence[Batch], steps: int) -> int:
    """Train so many steps and wait for the last; return the number of videos."""
    videos = 0
    for batch in islice(cycle(batches), steps):
        values = state.train_step(batch)
        videos += len(batch.features_BTF)
    float(values[0])
    return videos
