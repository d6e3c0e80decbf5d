"""How the bundled model is trained: five sittings, each from where the one before ended.

The words first: encoder and captioner learn from clips as they are and, a little, from events in timelines; then six
copies learn on, each in an order of its own, and their mean goes on. Then where events are: proposals and masks learn,
and the words' loss moves them too, while encoder and captioner stay what they are; four copies again. Learnt all at
once, so few clips are learnt by heart: docs/bundled.md has the figures. At last shortly the same with many more videos
in which nothing happens; and what to expect of features is fitted to the same clips: which words, and whether there is
anything to tell. A sitting that was stopped goes on; one that is done is not repeated.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from densevid.artifacts import provenance
from densevid.checkpoint import WEIGHTS, load_model, model_files, save_model
from densevid.config import load_config
from densevid.data.clip_collection import ClipCollection
from densevid.data.timeline_sources import ClipFeatures
from densevid.errors import InputError
from densevid.inference.expectations import write_expectations
from densevid.training.model_mean import mean_of_models
from densevid.training.prepare import ClipFiles
from densevid.training.run import TrainingJob, train
from densevid.training.run_folder import RunFolder

PRESET = "bundled"


@dataclass(frozen=True)
class Sitting:
    """Settings beside the preset's; with `copies` so many runs with seeds of their own, and the mean of them."""

    name: str
    settings: tuple[str, ...]
    copies: int = 0


WORDS_ALONE = ('task="captions"', "disguised=0", "batch_size=32")
EVENTS_ALONE = ("frozen_encoder=true", "frozen_captioner=true", "disguised=0", "clips_per_batch=0")
QUIET = ("quiet_every=3", "epochs=1", "batch_size=32", "timelines=6400", "learning_rate=2e-4", "warmup_steps=10")
SITTINGS = (
    Sitting("words", (*WORDS_ALONE, "timelines=3600", "warmup_steps=100")),
    Sitting(
        "words-again", (*WORDS_ALONE, "timelines=2000", "learning_rate=4e-4", "warmup_steps=10", "ema=0.97"), copies=6
    ),
    Sitting("events", (*EVENTS_ALONE, "warmup_steps=50")),
    Sitting(
        "events-again",
        (*EVENTS_ALONE, "epochs=1", "timelines=19200", "learning_rate=3e-4", "warmup_steps=10", "ema=0.97"),
        copies=4,
    ),
    Sitting("quiet", (*EVENTS_ALONE, *QUIET, "ema=0.9")),
)


def train_bundled(
    data: Path,
    split: str,
    out: Path,
    preset: str = PRESET,
    *,
    device: str | None = None,
    workers: int = 0,
    say: Callable[[str], None] = print,
) -> Path:
    """All sittings, OUT/SITTING each; gives the folder of the last, whose `model` is the end of it."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("the bundled model is trained by one process, which takes the mean of its copies: no torchrun")

    def learn(folder: RunFolder, settings: tuple[str, ...], start: Path | None) -> Path:
        job = TrainingJob(
            config=load_config(preset, [f"training.{setting}" for setting in settings]),
            training=ClipFiles(data, split, data / "features"),
            out=folder.path,
            start_from=start,
            resume=True,
            device=device,
            workers=workers,
        )
        say(f"{folder.path}: learning")
        train(job, report=say)
        return folder.model

    before: Path | None = None
    for sitting in SITTINGS:
        folder = RunFolder(out / sitting.name)
        if not sitting.copies:
            before = learn(folder, sitting.settings, before)
            continue
        copies = [
            learn(RunFolder(out / f"{sitting.name}-{seed}"), (*sitting.settings, f"seed={seed}"), before)
            for seed in range(1, sitting.copies + 1)
        ]
        before = write_mean(copies, folder.model)
        say(f"{before}: the mean of {sitting.copies} models")
    last = RunFolder(out / SITTINGS[-1].name)
    write_expected(last.model, ClipFiles(data, split, data / "features"))
    say(f"{last.model}: with what to expect of features")
    return last.path


def write_expected(model: Path, files: ClipFiles) -> None:
    """Add to a model folder what to expect of features, by the clips that it learnt from."""
    clips = ClipFeatures(ClipCollection.read(files.clips, features=files.features), files.split)
    block = provenance(inputs=[model / WEIGHTS, files.clips / "clips.json"], command="bundled_model", split=files.split)
    write_expectations(model, clips, clips.annotations(), block)


def _written(model: Path) -> float:
    return (model / WEIGHTS).stat().st_mtime


def write_mean(models: list[Path], out: Path) -> Path:
    """A model folder with the mean of others; one that is as new as they are stays: the next sitting began with it."""
    if out.exists() and all(_written(model) <= _written(out) for model in models):
        return out
    mean = mean_of_models([load_model(model) for model in models])
    inputs = [file for model in models for file in model_files(model)]
    save_model(out, mean, provenance(inputs=inputs, config_hash=mean.config.hash, command="mean of models"))
    return out
