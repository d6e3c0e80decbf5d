"""How the bundled model is trained: five sittings, each from where the one before ended.

The words first: encoder and captioner learn from clips as they are and, a little, from events in timelines; then six
copies learn on, each in an order of its own, and their mean goes on. Then where events are: proposals and masks learn,
and the words' loss moves them too, while encoder and captioner stay what they are; four copies again. Learnt all at
once, so few clips are learnt by heart: docs/research/bundled-model.md has the figures. At last shortly the same with many more videos
in which nothing happens; and what to expect of features is fitted to the same clips: which words, and whether there is
anything to tell. A sitting that was stopped goes on; one that is done is not repeated.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from densevid.checkpoint import WEIGHTS, load_model, model_files, save_model
from densevid.config import load_config
from densevid.errors import InputError
from densevid.inference.fitting.priors import write_priors
from densevid.io import provenance
from densevid.timelines.clips import ClipCollection
from densevid.timelines.sources import ClipFeatures
from densevid.training.data import ClipFiles
from densevid.training.optim import mean_of_models
from densevid.training.run import TrainingJob, train
from densevid.training.run_folder import RunFolder
from research.paper_tables.run_processes import finished
from research.paper_tables.train_models import Machine, Report

PRESET = "bundled"


@dataclass(frozen=True)
class Stage:
    """Settings beside the preset's; with `copies` so many runs with seeds of their own, and the mean of them."""

    name: str
    settings: tuple[str, ...]
    copies: int = 0


WORDS_ALONE = ('task="captions"', "disguised=0", "batch_size=32")
EVENTS_ALONE = ("frozen_encoder=true", "frozen_captioner=true", "disguised=0", "clips_per_batch=0")
QUIET = ("quiet_every=3", "epochs=1", "batch_size=32", "timelines=6400", "learning_rate=2e-4", "warmup_steps=10")
SITTINGS = (
    Stage("words", (*WORDS_ALONE, "timelines=3600", "warmup_steps=100")),
    Stage(
        "words-again", (*WORDS_ALONE, "timelines=2000", "learning_rate=4e-4", "warmup_steps=10", "ema=0.97"), copies=6
    ),
    Stage("events", (*EVENTS_ALONE, "warmup_steps=50")),
    Stage(
        "events-again",
        (*EVENTS_ALONE, "epochs=1", "timelines=19200", "learning_rate=3e-4", "warmup_steps=10", "ema=0.97"),
        copies=4,
    ),
    Stage("quiet", (*EVENTS_ALONE, *QUIET, "ema=0.9")),
)


@dataclass(frozen=True)
class StageInputs:
    """What is learnt from, where to and with what: all sittings have it in common."""

    data: Path
    split: str
    out: Path
    preset: str = PRESET
    machine: Machine = field(default_factory=Machine)

    @property
    def files(self) -> ClipFiles:
        """The clips."""
        return ClipFiles(self.data, self.split, self.data / "features")

    def learn(self, name: str, settings: Sequence[str], start: Path | None, say: Report = print) -> Path:
        """One run to its end, OUT/NAME; gives its model."""
        job = TrainingJob(
            config=load_config(self.preset, [f"training.{setting}" for setting in settings]),
            training=self.files,
            out=self.out / name,
            start_from=start,
            resume=True,
            device=self.machine.device,
            workers=self.machine.workers,
        )
        say(f"{job.out}: learning")
        return train(job, report=say)


@dataclass(frozen=True)
class Copies:
    """The runs of a sitting that has several, as they travel to processes of their own."""

    lessons: StageInputs
    sitting: Stage
    start: Path | None

    def name(self, seed: int) -> str:
        """Of the run with this seed."""
        return f"{self.sitting.name}-{seed}"

    def learn_one(self, seed: int) -> None:
        """The run with this seed."""
        self.lessons.learn(self.name(seed), (*self.sitting.settings, f"seed={seed}"), self.start)

    def learn(self) -> list[Path]:
        """All of them, as many at a time as share the device; gives their models."""
        seeds = range(1, self.sitting.copies + 1)
        for seed, error in finished(self.learn_one, seeds, self.lessons.machine.parallel):
            if error is not None:
                raise InputError(f"{self.lessons.out / self.name(seed)}: {error}")
        return [RunFolder(self.lessons.out / self.name(seed)).model for seed in seeds]


def train_bundled(lessons: StageInputs, say: Report = print) -> Path:
    """All sittings, OUT/SITTING each; gives the folder of the last, whose `model` is the end of it."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("the bundled model is trained by one process, which takes the mean of its copies: no torchrun")
    before: Path | None = None
    for sitting in SITTINGS:
        if not sitting.copies:
            before = lessons.learn(sitting.name, sitting.settings, before, say)
            continue
        models = Copies(lessons, sitting, before).learn()
        before = write_mean(models, RunFolder(lessons.out / sitting.name).model)
        say(f"{before}: the mean of {sitting.copies} models")
    last = RunFolder(lessons.out / SITTINGS[-1].name)
    write_expected(last.model, lessons.files)
    say(f"{last.model}: with what to expect of features")
    return last.path


def write_expected(model: Path, files: ClipFiles) -> None:
    """Add to a model folder what to expect of features, by the clips that it learnt from."""
    clips = ClipFeatures(ClipCollection.read(files.clips, features=files.features), files.split)
    block = provenance(inputs=[model / WEIGHTS, files.clips / "clips.json"], command="bundled_model", split=files.split)
    write_priors(model, clips, clips.annotations(), block)


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
