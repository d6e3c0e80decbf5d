"""A training run from the command line: opens the data and the run folder, and builds the `Trainer` that fills it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from densevid.checkpoint import WEIGHTS, load_model
from densevid.config import Config, TrainingConfig
from densevid.data.dataloader import BatchSampler, SegmentLoader, Shard
from densevid.data.dataset import SegmentDataset
from densevid.data.vocabulary import Vocabulary
from densevid.device import TRAINING, describe_device, resolve_device
from densevid.errors import InputError
from densevid.io import fingerprint
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.dataloader import TimelineLoader
from densevid.timelines.dataset import TimelineDataset
from densevid.training.data import ClipFiles, DataFiles, PreparedData, Report, initial_model, prepare
from densevid.training.distributed import Ranks, joined, local_rank, wait_for_all
from densevid.training.logging import RunLog
from densevid.training.rewards import reward_for
from densevid.training.run_folder import RunFolder
from densevid.training.tag_gate import fit_tag_gate, taught_labels
from densevid.training.train_state import TrainState, trained_in
from densevid.training.trainer import Trainer
from densevid.training.validation import require_scorer
from densevid.video.labels import class_texts

MOST_RESIDENT = 2**31  # bytes of clips that are kept on a GPU by default


@dataclass(frozen=True)
class TrainingJob:
    """What to train on, how, and where to; see `densevid train --help`."""

    config: Config
    training: DataFiles | ClipFiles
    out: Path
    validation: DataFiles | ClipFiles | None = None
    start_from: Path | None = None  # a model folder whose weights the run starts with
    resume: bool = False
    device: str | None = None
    workers: int = 0  # processes that load features
    limit_steps: int | None = None

    @property
    def inputs(self) -> list[Path]:
        """Every file and folder that is read."""
        more = [] if self.validation is None else self.validation.paths
        start = [] if self.start_from is None else [self.start_from]
        return list(dict.fromkeys([*self.training.paths, *more, *start]))


def train(job: TrainingJob, report: Report = lambda line: None) -> Path:
    """Train, alone or as one of the processes that `torchrun` started.

    Args:
        job: What to train on, how, and where to.
        report: Prints a line for the user; only rank 0 does.

    Returns:
        The folder of the best model.

    Raises:
        InputError: Settings or data cannot be used, memory is too small, or a loss is not finite.
    """
    device, begun = pick_device(job.device), time.perf_counter()
    with report_out_of_memory(device, job.config.training), joined(device) as ranks:
        report = report if ranks.leads else lambda line: None
        trainer = build_trainer(job, ranks, device, report)
        report(f"ready after {time.perf_counter() - begun:.1f} s")
        trainer.fit()
        report(trainer.summary())
    return RunFolder(job.out).model


def build_trainer(job: TrainingJob, ranks: Ranks, device: torch.device, report: Report) -> Trainer:
    """Open the data, make the state or restore it from a checkpoint, and begin the run folder if it is new."""
    config, folder = job.config, RunFolder(job.out)
    begun = folder.begun(resume=job.resume) if ranks.leads else folder.config.exists()
    if begun:
        folder.require_same(config)
    else:
        _require_frozen_weights(job)
    require_scorer(config.training.best_by, validated=job.validation is not None)
    data = prepare(config, job.training, job.validation, _vocabulary(folder, begun, job), report)
    loader = _training_loader(data.training, job, ranks, device)
    state = _new_state(job, data, loader.steps(0), ranks, device, report)
    parameters = sum(parameter.numel() for parameter in state.parameters)
    report(f"{parameters / 1e6:.1f} million parameters to train, on {_device_text(device, ranks, config)}")
    wait_for_all()  # every rank has seen whether the run has begun
    if ranks.leads and not begun:
        folder.begin(config, data.vocabulary, job.inputs, device=str(device), step=0)
    trainer = Trainer(
        state,
        loader,
        folder=folder,
        data=data,
        validation=None if data.validation is None else _loader(data.validation, job, ranks, device, shuffled=False),
        ranks=ranks,
        log=RunLog(folder if ranks.leads else None, state.schedule.total_steps, report),
        limit_steps=job.limit_steps,
        started_from=None if job.start_from is None else fingerprint(job.start_from / WEIGHTS),
    )
    if begun:
        trainer.resume()
    if ranks.leads and begun:
        folder.go_on(config, job.inputs, device=str(device), step=state.step)
    return trainer


def _require_frozen_weights(job: TrainingJob) -> None:
    """Raise if weights are to stay as they are, but there are none to start from."""
    for name in ("frozen_encoder", "frozen_captioner"):
        if getattr(job.config.training, name) and job.start_from is None:
            raise InputError(f"training.{name} keeps weights of another model as they are: give --from MODEL_DIR")


def _vocabulary(folder: RunFolder, begun: bool, job: TrainingJob) -> Vocabulary | None:
    """That of the run, or of the model it starts from; None if it is yet to be built."""
    if begun:
        return Vocabulary.load(folder.vocabulary)
    return None if job.start_from is None else load_model(job.start_from).vocabulary


def _training_loader(
    dataset: SegmentDataset | TimelineDataset, job: TrainingJob, ranks: Ranks, device: torch.device
) -> SegmentLoader | TimelineLoader:
    if isinstance(dataset, SegmentDataset):
        return _loader(dataset, job, ranks, device)
    settings, share = job.config.training, Shard(ranks.rank, ranks.count)
    if settings.batch_size < 2 and settings.task != "captions":
        raise InputError("training.batch_size must be at least 2: a batch norm learns nothing from one video")
    resident = footage_stays(dataset, settings, device)
    return TimelineLoader(dataset, settings.batch_size, share, workers=job.workers, device=device, resident=resident)


def footage_stays(dataset: TimelineDataset, settings: TrainingConfig, device: torch.device) -> bool:
    """Whether all clips are kept on the device: with `features_on_device`, and on a GPU if they take little of it.

    Loading processes then move row numbers in place of features. Channels are permuted on the host, so with
    `channel_permuted` features have to stay there.
    """
    if settings.channel_permuted:
        if settings.features_on_device:
            other = "set training.features_on_device = false or training.channel_permuted = 0"
            raise InputError(f"training.features_on_device does not go with training.channel_permuted; {other}")
        return False
    return settings.features_on_device or (device.type == "cuda" and dataset.footage.nbytes <= MOST_RESIDENT)


def _loader(
    dataset: SegmentDataset, job: TrainingJob, ranks: Ranks, device: torch.device, *, shuffled: bool = True
) -> SegmentLoader:
    settings = job.config.training
    plan = BatchSampler(settings.batch_size, settings.seed, settings.segments_per_video, shuffled)
    share = Shard(ranks.rank, ranks.count)
    return SegmentLoader(dataset, plan, share, workers=job.workers, device=device, resident=settings.features_on_device)


def _new_state(
    job: TrainingJob, data: PreparedData, steps: int, ranks: Ranks, device: torch.device, report: Report
) -> TrainState:
    """The same weights on every rank; after that every rank has random numbers of its own."""
    config = job.config
    model = initial_model(config, data.vocabulary, job.start_from).to(device)
    if model.tagger is not None and isinstance(data.training, TimelineDataset):
        _prepare_tags(model, data.training, config, job.start_from is None, report)
    reward = reward_for(config, data.training, data.vocabulary)
    state = TrainState(model, config, config.training.epochs * steps, ranks=ranks, reward=reward)
    torch.manual_seed(hash((config.training.seed, 0, ranks.rank)) % 2**63)
    return state


def _prepare_tags(
    model: MaskedTransformer, dataset: TimelineDataset, config: Config, fresh: bool, report: Report
) -> None:
    """Fit the gate of a fresh model, and have the dataset draw tags for clips that lack a stream."""
    assert model.tagger is not None
    texts = [class_texts(name) if model.tagger.classes[n] else () for n, name in enumerate(config.features.streams)]
    for line in fit_tag_gate(model, dataset.mixture, texts) if fresh else ():
        report(line)
    if dataset.mixture.collections and config.training.taught_tags:
        dataset.taught = taught_labels(model, dataset.mixture, texts, config.training.taught_tags)


def pick_device(name: str | None) -> torch.device:
    """The device to train on.

    Args:
        name: cpu, cuda or cuda:N; by default a GPU where there is one. Under `torchrun` each process has its own GPU.
    """
    device = resolve_device(name, TRAINING)
    if device.type == "cuda":
        device = resolve_device(f"cuda:{local_rank() if device.index is None else device.index}", TRAINING)
        torch.cuda.set_device(device)
    return device


@contextmanager
def report_out_of_memory(device: torch.device, settings: TrainingConfig) -> Iterator[None]:
    """Turn out-of-memory errors into one line that names the settings to change; checkpoints are not touched."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        resident = ", or training.features_on_device = false" if settings.features_on_device else ""
        raise InputError(
            f"{device} is out of memory with training.batch_size = {settings.batch_size}; set it lower{resident}"
            " and begin in another --out; what this run has written, its last checkpoint too, is kept"
        ) from error


def _device_text(device: torch.device, ranks: Ranks, config: Config) -> str:
    name = describe_device(device)
    precision = trained_in(config, device)
    return f"{ranks.count} x {name}, {precision}" if ranks.count > 1 else f"{name}, {precision}"
