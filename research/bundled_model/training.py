"""How the bundled model is trained: five stages, each from where the one before ended.

1. `words`: encoder and captioner train on captioned pictures, storyboards and clips. 2. `clips`: they train on with a
lower rate, mostly on the clips, and on events in timelines composed of them. 3. `reward`: the CIDEr of sampled
sentences takes the place of the true words. 4. `events`: proposals and masks train on timelines, and the caption loss
reaches them; encoder and captioner are frozen. 5. `negatives`: a short run like 4 with many more no-event videos.

At last the word prior and the actionness are fitted to the same clips. Training everything at once overfits so few
clips: docs/research/bundled-model.md has the figures. A stage that was stopped resumes; one that is done is not
repeated. Every stage takes less than 90 minutes on two CPU cores, and ends in weights in half precision, at most 16 MB,
that the next starts from.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from safetensors import safe_open

from densevid.checkpoint import WEIGHTS, load_model, model_files, save_model
from densevid.config import load_config
from densevid.errors import InputError
from densevid.inference.fitting.priors import write_priors
from densevid.io import provenance
from densevid.timelines.captions import CaptionFolder
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
    """Settings on top of the preset; whether further collections of captions are learned from.

    With `copies` so many runs with seeds of their own are trained, whose mean is the result.
    """

    name: str
    settings: tuple[str, ...]
    captions: bool = True
    copies: int = 0


WORDS = ('task="captions"', "batch_size=2", "clips_per_batch=128", "sentences_per_clip=5", "clip_share=1")
EVENTS_ALONE = (
    "frozen_encoder=true",
    "frozen_captioner=true",
    "clips_per_batch=0",
    "epochs=1",
    "video_dropout=0",
    "batch_size=32",
)
STAGES = (
    Stage(
        "words",
        (*WORDS, "own_captions=0.3", "epochs=4", "timelines=800", "warmup_steps=300", "learning_rate=1e-3"),
    ),
    Stage(
        "clips",
        (
            'task="captions"',
            "batch_size=8",
            "clips_per_batch=64",
            "sentences_per_clip=5",
            "clip_share=0.9",
            "own_captions=2",
            "epochs=1",
            "timelines=3200",
            "warmup_steps=20",
            "learning_rate=2e-4",
        ),
    ),
    Stage(
        "reward",
        (
            *WORDS,
            "clips_per_batch=64",
            'reward="cider"',
            "own_captions=0.5",
            "video_dropout=0",
            "epochs=1",
            "timelines=1000",
            "warmup_steps=20",
            "learning_rate=1e-4",
        ),
    ),
    Stage("events", (*EVENTS_ALONE, "timelines=19200", "warmup_steps=50"), captions=False),
    Stage(
        "negatives",
        (
            *EVENTS_ALONE,
            "negatives_every=3",
            "timelines=2240",
            "learning_rate=2e-4",
            "warmup_steps=10",
            "ema=0.9",
        ),
        captions=False,
    ),
)
WEIGHTS_OF_COLLECTIONS = {"coco": 1.0, "flickr8k": 0.3, "msrvtt_frames": 1.0, "youcook2_frames": 0.05}


@dataclass(frozen=True)
class StageInputs:
    """What all stages share: training data, output folder, preset with changed settings, and machine."""

    data: Path
    split: str
    out: Path
    preset: str = PRESET
    captions: tuple[CaptionFolder, ...] = ()
    changes: tuple[str, ...] = ()
    machine: Machine = field(default_factory=Machine)

    @property
    def files(self) -> ClipFiles:
        """The training clips."""
        stored = self.data / "features"
        return ClipFiles(self.data, self.split, stored if stored.is_dir() else None)

    def train(self, stage: Stage, name: str, seed: int, start: Path | None, report: Report = print) -> Path:
        """Train one run to its end in OUT/NAME.

        Args:
            stage: Its settings.
            name: Of the run.
            seed: Of the run.
            start: A model folder to start from.
            report: Gets a line when the run starts.

        Returns:
            The folder of the trained model.
        """
        settings = [*(f"training.{setting}" for setting in stage.settings), f"training.seed={seed}", *self.changes]
        job = TrainingJob(
            config=load_config(self.preset, settings),
            training=replace(self.files, captions=self.captions if stage.captions else ()),
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
        self.inputs.train(self.stage, self.name(seed), seed, self.start)

    def train(self) -> list[Path]:
        """Train all of them, as many at a time as share the device; return their model folders."""
        seeds = range(1, self.stage.copies + 1)
        for seed, error in finished(self.train_one, seeds, self.inputs.machine.parallel):
            if error is not None:
                raise InputError(f"{self.inputs.out / self.name(seed)}: {error}")
        return [RunFolder(self.inputs.out / self.name(seed)).model for seed in seeds]


def train_bundled(
    inputs: StageInputs, report: Report = print, *, until: str | None = None, start_from: Path | None = None
) -> Path:
    """Run all stages, each in OUT/STAGE.

    Args:
        inputs: What the stages share.
        report: Gets a line for each step.
        until: The last stage; by default all are run.
        start_from: A model of the first stage, which is then left out.

    Returns:
        The run folder of the last stage, whose `model` is the result.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(
            "the bundled model is trained by one process, which averages its copies; run it without torchrun"
        )
    before = start_from
    names = [stage.name for stage in STAGES]
    stages = STAGES[0 if start_from is None else 1 : names.index(until) + 1 if until else None]
    if not stages:
        raise InputError(f"--until {until} and --from a model of that stage: nothing is left to train")
    for stage in stages:
        if not stage.copies:
            before = halved(inputs.train(stage, stage.name, 0, before, report))
            continue
        models = Copies(inputs, stage, before).train()
        before = write_mean(models, RunFolder(inputs.out / stage.name).model)
        report(f"{before}: the mean of {stage.copies} models")
    last = RunFolder(inputs.out / stages[-1].name)
    fit_priors(last.model, inputs.files)
    report(f"{last.model}: word prior and actionness fitted")
    return last.path


def fit_priors(model: Path, files: ClipFiles) -> None:
    """Fit the word prior and the actionness of a model to its training clips, and add them to its folder."""
    clips = ClipFeatures(ClipCollection.read(files.clips, features=files.features), files.split)
    block = provenance(inputs=[model / WEIGHTS, files.clips / "clips.json"], command="bundled_model", split=files.split)
    write_priors(model, clips, clips.annotations(), block)


def halved(model: Path) -> Path:
    """Write a model folder anew in half precision, as it is packed, unless it is: the next stage starts from that."""
    with safe_open(model / WEIGHTS, framework="pt") as weights:
        halves = {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
    if "F32" in halves:
        loaded = load_model(model)
        block = provenance(inputs=model_files(model), config_hash=loaded.config.hash, command="bundled_model train")
        save_model(model, loaded, block, half_precision=True)
    return model


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
