"""The loop of a run: it logs, validates, keeps the best, and writes checkpoints that a killed run goes on from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from densevid.artifacts import atomic_path, hash_of, provenance
from densevid.checkpoint import LoadedModel, save_model
from densevid.data.loading import Loader
from densevid.errors import InputError
from densevid.training import checkpointing
from densevid.training.learner import Learner
from densevid.training.loop import EpochReport, Loop
from densevid.training.metrics import MetricsFile
from densevid.training.prepare import Prepared, Report
from densevid.training.progress import Progress, described, open_progress
from densevid.training.ranks import Ranks, wait_for_all
from densevid.training.run_folder import RunFolder
from densevid.training.validation import validation_losses
from densevid.training.watch import Sums

LOG_EVERY = 10  # steps


class RecordedLoop(Loop):
    """A loop with a run folder. Every rank goes through the same motions; rank 0 writes."""

    def __init__(
        self,
        learner: Learner,
        loader: Loader,
        judged: Loader | None,
        data: Prepared,
        folder: RunFolder,
        ranks: Ranks,
        report: Report,
        limit_steps: int | None = None,
    ) -> None:
        super().__init__(learner, loader)
        self.judged, self.data, self.folder, self.ranks, self.report = judged, data, folder, ranks, report
        self.limit_steps, self.best = limit_steps, float("inf")
        self.settings = learner.config.training
        self._known = 0  # steps whose losses have been read
        self._recent, self._samples, self._since = Sums(), 0, time.perf_counter()
        self._progress = Progress(learner.schedule.total_steps, report)
        self._metrics: MetricsFile | None = None

    def resume(self) -> None:
        """Go on from the last checkpoint; without one, from the beginning."""
        if not self.folder.last.exists():
            self.report(f"{self.folder.path}: no checkpoint yet, starting from the beginning")
            return
        tensors, state = checkpointing.read(self.folder.last)
        if state["data"] != self._data_hash():
            raise InputError(f"{self.folder.path}: the run began with other training data")
        self.best = float("inf") if state["best"] is None else state["best"]
        seed = self.settings.seed
        self.position = checkpointing.restore(self.learner, tensors, state, rank=self.ranks.rank, seed=seed)
        self._known = self.learner.step
        self.report(f"resumed at step {self.learner.step:,}, epoch {self.position.epoch + 1}")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Metrics and progress, for the time of the run."""
        if self.ranks.leads:
            self._metrics = MetricsFile(self.folder.metrics, up_to_step=self.learner.step)
            self._progress = open_progress(self.learner.schedule.total_steps, self.report, self.learner.step)
        try:
            yield
        finally:
            self._progress.close()

    def stopped(self) -> bool:
        """At the step that `--limit-steps` names."""
        return self.limit_steps is not None and self.learner.step >= self.limit_steps

    def wants_all(self) -> bool:
        """Before a checkpoint is written every loss must be known to be a number."""
        return self._checkpoint_due()

    def after_values(self, row: dict[str, float]) -> None:
        """Log every few steps."""
        self._known += 1
        self._recent.add(row)
        if self._known % LOG_EVERY == 0:
            self._log_training()

    def after_step(self, samples: int) -> None:
        """Count, and write a checkpoint where one is due."""
        self._samples += samples * self.ranks.count
        if self._checkpoint_due():
            self._save()

    def judge(self, report: EpochReport) -> float:
        """Validate, compare with the best, and give the loss that decides about a plateau."""
        if self._recent.count:
            self._log_training()
        with self._averaged():
            losses = report if self.judged is None else self._validate(self.judged)
        self._new_best = losses["total"] < self.best
        self.best = min(self.best, losses["total"])
        return losses["total"]

    def after_epoch(self, report: EpochReport) -> None:
        """Checkpoint, and the best model if this is it."""
        self._save()
        if self._new_best and self.ranks.leads:
            with atomic_path(self.folder.best) as temporary:
                temporary.unlink()
                os.link(self.folder.last, temporary)
            self._export(self.folder.model)

    def finish(self) -> None:
        """The run is over, or was stopped: a checkpoint to go on from, and the newest model."""
        if self.position.batch:
            self._save()
        if self.ranks.leads:
            self._export(self.folder.last_model)
            if not self.folder.model.exists():
                self._export(self.folder.model)
        wait_for_all()

    def _validate(self, judged: Loader) -> dict[str, float]:
        losses = validation_losses(self.learner.model, judged, self.learner.config)
        self._log({"split": "validation", **losses})
        self._progress.line(f"epoch {self.position.epoch + 1}: validation {described(losses)}")
        return losses

    def _checkpoint_due(self) -> bool:
        """Every so many steps; the end of an epoch has its own."""
        every, batch = self.settings.checkpoint_every, self.position.batch
        return bool(every) and self.learner.step % every == 0 and batch < self.loader.steps(self.position.epoch)

    def _save(self) -> None:
        more = {"best": None if self.best == float("inf") else self.best, "data": self._data_hash()}
        tensors, state = checkpointing.snapshot(self.learner, self.position, more)
        if self.ranks.leads:
            checkpointing.write(self.folder.last, tensors, state)

    def _export(self, path: Any) -> None:
        config = self.learner.config
        recipe = self.data.training.source.recipe
        with self._averaged():
            block = provenance(config_hash=config.hash, step=self.learner.step)
            save_model(path, LoadedModel(self.learner.model, config, self.data.vocabulary, recipe), block)

    def _averaged(self) -> Any:
        """The model with the averaged weights, if there are any."""
        average = self.learner.average
        return nullcontext() if average is None else average.in_place_of(self.learner.model)

    def _log_training(self) -> None:
        seconds = time.perf_counter() - self._since
        speed = {"samples_per_second": self._samples / seconds}
        rate = {"learning_rate": self.learner.schedule.learning_rate(self._known - 1)}
        values = {**self._recent.means(), **rate, **speed}
        self._log({"split": "training", **values})
        self._progress.update(self._known, values)
        self._recent, self._samples, self._since = Sums(), 0, time.perf_counter()

    def _log(self, row: dict[str, Any]) -> None:
        if self._metrics is not None:
            self._metrics.add({"step": self._known, "epoch": self.position.epoch + 1, **row})

    def _data_hash(self) -> str:
        dataset = self.loader.dataset
        return hash_of({"videos": dataset.videos, "segments": len(dataset)})
