"""How the bundled model is trained: five stages, each from where the one before ended.

1. `words`: encoder and captioner train on single clips and, with a small weight, on events in timelines. 2.
`words-again`: six copies train on, each in an order of its own; their mean goes on. 3. `events`: proposals and masks
train on timelines, and the caption loss reaches them; encoder and captioner are frozen. 4. `events-again`: four copies
of that, and their mean. 5. `negatives`: a short run like 3 with many more no-event videos.

At last the word prior and the actionness are fitted to the same clips. Training everything at once overfits so few
clips: docs/research/bundled-model.md has the figures. A stage that was stopped resumes; one that is done is not
repeated.
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
from research.paper_tables.train_models import Machine, Report, finished

PRESET = "bundled"


@dataclass(frozen=True)
class Stage:
    """Settings on top of the preset; with `copies` so many runs with seeds of their own, whose mean is the result."""

    name: str
    settings: tuple[str, ...]
    copies: int = 0


WORDS_ALONE = ('task="captions"', "channel_permuted=0", "batch_size=32")
EVENTS_ALONE = ("frozen_encoder=true", "frozen_captioner=true", "channel_permuted=0", "clips_per_batch=0")
NEGATIVES = (
    "negatives_every=3",
    "epochs=1",
    "batch_size=32",
    "timelines=6400",
    "learning_rate=2e-4",
    "warmup_steps=10",
)
STAGES = (
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
    Stage("negatives", (*EVENTS_ALONE, *NEGATIVES, "ema=0.9")),
)


@dataclass(frozen=True)
class StageInputs:
    """What all stages share: training data, output folder, preset and machine."""

    data: Path
    split: str
    out: Path
    preset: str = PRESET
    machine: Machine = field(default_factory=Machine)

    @property
    def files(self) -> ClipFiles:
        """The training clips."""
        return ClipFiles(self.data, self.split, self.data / "features")

    def train(self, name: str, settings: Sequence[str], start: Path | None, report: Report = print) -> Path:
        """Train one run to its end in OUT/NAME.

        Args:
            name: Of the run.
            settings: Training settings, `key=value`.
            start: A model folder to start from.
            report: Gets a line when the run starts.

        Returns:
            The folder of the trained model.
        """
        job = TrainingJob(
            config=load_config(self.preset, [f"training.{setting}" for setting in settings]),
            training=self.files,
            out=self.out / name,
            start_from=start,
            resume=True,
            device=self.machine.device,
            workers=self.machine.workers,
        )
        report(f"{job.out}: training")
        return train(job, report=report)


@dataclass(frozen=True)
class Copies:
    """The runs of a stage with copies; picklable, since each may train in a process of its own."""

    inputs: StageInputs
    stage: Stage
    start: Path | None

    def name(self, seed: int) -> str:
        """The name of the run with this seed."""
        return f"{self.stage.name}-{seed}"

    def train_one(self, seed: int) -> None:
        """Train the run with this seed."""
        self.inputs.train(self.name(seed), (*self.stage.settings, f"seed={seed}"), self.start)

    def train(self) -> list[Path]:
        """Train all of them, as many at a time as share the device; return their model folders."""
        seeds = range(1, self.stage.copies + 1)
        for seed, error in finished(self.train_one, seeds, self.inputs.machine.parallel):
            if error is not None:
                raise InputError(f"{self.inputs.out / self.name(seed)}: {error}")
        return [RunFolder(self.inputs.out / self.name(seed)).model for seed in seeds]


def train_bundled(inputs: StageInputs, report: Report = print) -> Path:
    """Run all stages, each in OUT/STAGE.

    Args:
        inputs: What the stages share.
        report: Gets a line for each step.

    Returns:
        The run folder of the last stage, whose `model` is the result.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(
            "the bundled model is trained by one process, which averages its copies; run it without torchrun"
        )
    before: Path | None = None
    for stage in STAGES:
        if not stage.copies:
            before = inputs.train(stage.name, stage.settings, before, report)
            continue
        models = Copies(inputs, stage, before).train()
        before = write_mean(models, RunFolder(inputs.out / stage.name).model)
        report(f"{before}: the mean of {stage.copies} models")
    last = RunFolder(inputs.out / STAGES[-1].name)
    fit_priors(last.model, inputs.files)
    report(f"{last.model}: word prior and actionness fitted")
    return last.path


def fit_priors(model: Path, files: ClipFiles) -> None:
    """Fit the word prior and the actionness of a model to its training clips, and add them to its folder."""
    clips = ClipFeatures(ClipCollection.read(files.clips, features=files.features), files.split)
    block = provenance(inputs=[model / WEIGHTS, files.clips / "clips.json"], command="bundled_model", split=files.split)
    write_priors(model, clips, clips.annotations(), block)


def _written(model: Path) -> float:
    return (model / WEIGHTS).stat().st_mtime


def write_mean(models: list[Path], out: Path) -> Path:
    """Write a model folder with the mean of others; one that is as new as they are stays: the next stage used it."""
    if out.exists() and all(_written(model) <= _written(out) for model in models):
        return out
    mean = mean_of_models([load_model(model) for model in models])
    inputs = [file for model in models for file in model_files(model)]
    save_model(out, mean, provenance(inputs=inputs, config_hash=mean.config.hash, command="mean of models"))
    return out
