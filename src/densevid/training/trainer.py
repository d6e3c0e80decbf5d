"""Epochs: batches go to the learner, the learning rate follows what comes out. `run` adds files, ranks and resuming.

The loop of a run: it logs, validates, keeps the best, and writes checkpoints that a killed run goes on from.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from densevid.checkpoint import LoadedModel, save_model
from densevid.config import Config
from densevid.data.dataloader import SegmentLoader
from densevid.events import write_events
from densevid.io import provenance
from densevid.model.masked_transformer import MaskedTransformer
from densevid.progress import duration
from densevid.timelines.dataloader import TimelineLoader
from densevid.training import checkpointing
from densevid.training.data import Prepared, Report
from densevid.training.distributed import Ranks, wait_for_all
from densevid.training.logging import Progress, Records, described, open_progress
from densevid.training.loss_monitor import LossMonitor, SkippedSteps, Sums
from densevid.training.run_folder import RunFolder
from densevid.training.train_state import Position, TrainState
from densevid.training.validation import Scored, validation_losses, validation_scores

EpochReport = dict[str, float]


class Loop:
    """The epochs of a run from a position on. What else happens is for `after_step`, `judge` and `after_epoch`."""

    def __init__(
        self, learner: TrainState, loader: SegmentLoader | TimelineLoader, position: Position | None = None
    ) -> None:
        self.learner, self.loader, self.position = learner, loader, position or Position()
        self.skips = SkippedSteps()

    def run(self) -> None:
        """Learn until the last epoch is done, or until `stopped`."""
        try:
            self._run()
        finally:
            self.loader.close()
        if self.skips.count:
            self.warn(self.skips.told(self.learner.step))

    def _run(self) -> None:
        while self.position.epoch < self.learner.config.training.epochs and not self.stopped():
            if not self._finish_epoch():
                return
            report = self.position.sums.means()
            self.learner.schedule.after_epoch(self.judge(report))
            self.position = Position(self.position.epoch + 1)
            self.after_epoch(report)

    def _finish_epoch(self) -> bool:
        """The rest of the epoch; False if the run was stopped in it."""
        position, watch = self.position, LossMonitor(self.skips, self.warn)
        self.learner.model.train()
        for batch in self.loader.batches(position.epoch, position.batch):
            values = self.learner.learn(batch, position.epoch)
            position.batch += 1
            self.learnt(len(batch))
            for row in watch.add(self.learner.step, batch.videos, values):
                self._count(row)
            if self.wants_all():
                for row in watch.drain():
                    self._count(row)
            self.after_step()
            if self.stopped():
                break
        for row in watch.drain():
            self._count(row)
        return position.batch == self.loader.steps(position.epoch)

    def _count(self, row: dict[str, float]) -> None:
        self.position.sums.add(row)
        self.after_values(row)

    def stopped(self) -> bool:
        """Whether to end here."""
        return False

    def warn(self, text: str) -> None:
        """Tell what a user should know, though the run goes on."""
        warnings.warn(text, stacklevel=2)

    def wants_all(self) -> bool:
        """Whether the values of this very step are needed after it, which means to wait for the device."""
        return False

    def after_values(self, row: dict[str, float]) -> None:
        """The losses of a step are known; on a GPU that is some steps later."""

    def learnt(self, samples: int) -> None:
        """A batch of so many has gone to the learner."""

    def after_step(self) -> None:
        """All is done for this batch."""

    def judge(self, report: EpochReport) -> float:
        """The loss that decides about a plateau: the validation's, where there is one."""
        return report["total"]

    def after_epoch(self, report: EpochReport) -> None:
        """An epoch is done and `position` is at the start of the next."""


class _ReportingLoop(Loop):
    """Tells somebody about every epoch."""

    def __init__(
        self, learner: TrainState, loader: SegmentLoader, on_epoch: Callable[[int, EpochReport], None]
    ) -> None:
        super().__init__(learner, loader)
        self.on_epoch = on_epoch

    def after_epoch(self, report: EpochReport) -> None:
        """Tell."""
        self.on_epoch(self.position.epoch - 1, {**report, "learning_rate": self.learner.learning_rate})


def fit(
    model: MaskedTransformer,
    loader: SegmentLoader,
    config: Config,
    on_epoch: Callable[[int, EpochReport], None] = lambda epoch, report: None,
) -> MaskedTransformer:
    """Train a model in memory, without a run folder."""
    learner = TrainState(model, config, config.training.epochs * loader.steps(0))
    _ReportingLoop(learner, loader, on_epoch).run()
    if learner.average is not None:
        model.load_state_dict(learner.average.tensors)
    return model.eval()


LOG_EVERY = 10  # steps


@dataclass(frozen=True)
class RunContext:
    """What a run has around its loop: data, a loader of held-out data, a folder, the other ranks, somebody to tell."""

    data: Prepared
    judged: SegmentLoader | None
    folder: RunFolder
    ranks: Ranks
    report: Report
    limit_steps: int | None = None
    started_from: str | None = None  # a hash of the weights

    @property
    def judged_by(self) -> str | None:
        """A hash of the held-out data."""
        return None if self.data.validation is None else self.data.validation.content


class RecordedTrainer(Loop):
    """A loop with a run folder. Every rank goes through the same motions; rank 0 writes."""

    def __init__(self, learner: TrainState, loader: SegmentLoader | TimelineLoader, around: RunContext) -> None:
        super().__init__(learner, loader)
        self.around, self.folder, self.ranks, self.report = around, around.folder, around.ranks, around.report
        self.settings = learner.config.training
        self.best, self._is_best = math.inf, False  # the less the better
        self._known = 0  # steps whose losses have been read
        self._first = 0  # step of this sitting
        self._started_from = around.started_from
        self._recent, self._samples, self._since, self._begun = Sums(), 0, time.perf_counter(), time.perf_counter()
        self._progress = Progress(learner.schedule.total_steps, self.report)
        self._records: Records | None = None

    def resume(self) -> None:
        """Go on from the last checkpoint; without one, from the beginning."""
        if not self.folder.last.exists():
            self.report(f"{self.folder.path}: no checkpoint yet, starting from the beginning")
            return
        tensors, state = checkpointing.read(self.folder.last)
        where = str(self.folder.path)
        checkpointing.require_same_data(state, self.loader.dataset, where=where)
        checkpointing.require_same_start(state, self.around.started_from, where=where)
        if self.settings.schedule == "plateau" or self.settings.best_by != "last":
            checkpointing.require_same_judge(state, self.around.judged_by, where=where)
        self._started_from = state.get("started_from", self._started_from)
        self.best = math.inf if state["best"] is None else state["best"]
        seed = self.settings.seed
        self.position = checkpointing.restore(self.learner, tensors, state, rank=self.ranks.rank, seed=seed)
        self._known = self._first = self.learner.step
        self._recent = Sums(**state["recent"])
        self.skips = SkippedSteps(**state.get("skips", {}))  # older checkpoints know of none
        epoch, epochs = self.position.epoch, self.settings.epochs
        reached = f"epoch {epoch + 1} of {epochs}" if epoch < epochs else "the end: all epochs are done"
        self.report(f"resumed at step {self.learner.step:,}, {reached}")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Records and progress, for the time of the run."""
        if self.ranks.leads:
            logged = self.learner.step - self._recent.count  # the row of steps that were pending will be written anew
            self._records = Records(self.folder, logged)
            self._progress = open_progress(self.learner.schedule.total_steps, self.report, self.learner.step)
        try:
            yield
        finally:
            self._progress.close()
            if self._records is not None:
                self._records.close()

    def stopped(self) -> bool:
        """At the step that `--limit-steps` names."""
        return self.around.limit_steps is not None and self.learner.step >= self.around.limit_steps

    def warn(self, text: str) -> None:
        """Above the bar, where there is one."""
        self._progress.line(f"warning: {text}")

    def wants_all(self) -> bool:
        """Before a checkpoint is written every loss must be known to be a number."""
        return self._checkpoint_due()

    def after_values(self, row: dict[str, float]) -> None:
        """Log every few steps."""
        self._known += 1
        self._recent.add(row)
        if self._known % LOG_EVERY == 0:
            self._log_training()

    def learnt(self, samples: int) -> None:
        """Count."""
        self._samples += samples * self.ranks.count

    def after_step(self) -> None:
        """Write a checkpoint where one is due."""
        if self._checkpoint_due():
            self._save(self.folder.last)

    def judge(self, report: EpochReport) -> float:
        """Validate, compare with the best, and give the loss that decides about a plateau."""
        if self._recent.count:
            self._log_training()
        with self._averaged():
            found = dict(report) if self.around.judged is None else self._validate(self.around.judged)
        value = self._cost(found)
        if value is not None:
            self._is_best, self.best = value < self.best, min(value, self.best)
        return found["total"]

    def _cost(self, found: EpochReport) -> float | None:
        """What the best model has the least of, if this epoch knows it; the last model is the best where so agreed."""
        by = self.settings.best_by
        if by == "last":
            return -float(self.position.epoch)
        score = found.get("total" if by == "loss" else by)
        return score if score is None or by == "loss" else -score

    def after_epoch(self, report: EpochReport) -> None:
        """Checkpoint, and the best model if this is it.

        The last checkpoint comes last: a kill before it repeats the epoch, and with it whatever had not been written.
        """
        if self._is_best:
            self._save(self.folder.best)
        if self._is_best and self.ranks.leads:
            self._export(self.folder.model)
            checkpointing.duplicate(self.folder.best, self.folder.last)
        if not self._is_best:
            self._save(self.folder.last)
        self._is_best = False
        if self._records is not None:
            self._records.draw()
        self._samples, self._since = 0, time.perf_counter()  # the pace is that of learning alone

    def finish(self) -> None:
        """The run is over, or was stopped: a checkpoint to go on from, the newest model, and the curves."""
        if self.position.batch:
            self._save(self.folder.last)
        if self._recent.count:
            self._log_training(stopped=True)
        if self.ranks.leads:
            self._export(self.folder.last_model)
            if not self.folder.model.exists():
                self._export(self.folder.model)
        if self._records is not None:
            self._records.draw(now=True)
        wait_for_all()

    def outcome(self) -> str:
        """One line for the end: how far the run came, in which time, and where the model is."""
        step, steps, model = self.learner.step, self.learner.schedule.total_steps, f"model in {self.folder.model}"
        here, time_taken = step - self._first, duration(time.perf_counter() - self._begun)
        if self.position.epoch < self.settings.epochs:
            on = "the same command with --resume and without --limit-steps goes on"
            return f"stopped at step {step:,} of {steps:,} after {time_taken}; {on}; {model}"
        if not here:
            return f"all {steps:,} steps were done before; {model}"
        return f"finished {steps:,} steps{f', the last {here:,}' if self._first else ''} in {time_taken}; {model}"

    def _validate(self, judged: SegmentLoader) -> dict[str, float]:
        """Losses, and scores in the epochs that have them."""
        epoch, every = self.position.epoch + 1, self.settings.evaluate_every
        found = validation_losses(self.learner.model, judged, self.learner.config)
        if every and (epoch % every == 0 or epoch == self.settings.epochs):
            assert self.around.data.told is not None
            scored = validation_scores(self._loaded(), judged, self.around.data.told, self.ranks)
            found |= scored.scores
            self._write_predictions(scored, epoch)
        self._log("validation", found)
        self._progress.line(f"epoch {epoch}: validation {described(found)}")
        return found

    def _write_predictions(self, scored: Scored, epoch: int) -> None:
        if not self.ranks.leads:
            return
        if scored.missing:
            self._progress.line(scored.missing)
        block = provenance(config_hash=self.learner.config.hash, step=self.learner.step)
        for kind, events in scored.predictions.items():
            write_events(self.folder.path / "validation" / f"epoch-{epoch:04d}-{kind}.json", events, provenance=block)

    def _checkpoint_due(self) -> bool:
        """Every so many steps; the end of an epoch has its own."""
        every, batch = self.settings.checkpoint_every, self.position.batch
        return bool(every) and self.learner.step % every == 0 and batch < self.loader.steps(self.position.epoch)

    def _save(self, path: Path) -> None:
        best = None if self.best == math.inf else self.best
        sums = {"recent": asdict(self._recent), "skips": asdict(self.skips)}
        origins = {"started_from": self._started_from, "judged_by": self.around.judged_by}
        more = {"best": best, **checkpointing.data_hashes(self.loader.dataset), **origins, **sums}
        tensors, state = checkpointing.snapshot(self.learner, self.position, more)
        if self.ranks.leads:
            checkpointing.write(path, tensors, state)

    def _export(self, path: Path) -> None:
        with self._averaged():
            save_model(path, self._loaded(), provenance(config_hash=self.learner.config.hash, step=self.learner.step))

    def _loaded(self) -> LoadedModel:
        dataset, words = self.loader.dataset, self.around.data.vocabulary
        reduction = dataset.reduction
        return LoadedModel(self.learner.model, self.learner.config, words, dataset.recipe, reduction=reduction)

    def _averaged(self) -> AbstractContextManager[None]:
        """The model with the averaged weights, if there are any."""
        average = self.learner.average
        return nullcontext() if average is None else average.in_place_of(self.learner.model)

    def _log_training(self, *, stopped: bool = False) -> None:
        now = time.perf_counter()
        rate = self.learner.schedule.learning_rate(self._known - 1)
        values = {**self._recent.means(), "learning_rate": rate}
        values["samples_per_second"] = self._samples / (now - self._since)
        self._log("training", values)
        self._progress.update(self._known, values, now=stopped)
        self._recent, self._samples, self._since = Sums(), 0, now

    def _log(self, split: str, values: dict[str, float]) -> None:
        if self._records is not None:
            where = {"step": self._known, "epoch": self.position.epoch + 1}
            self._records.add({**where, "split": split, **values, "seconds": time.perf_counter() - self._begun})
