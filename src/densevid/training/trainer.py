"""`Trainer`: epochs of batches; it logs, validates, keeps the best model, and writes checkpoints to resume from.

`run.train` opens the data and the run folder around it; `fit` trains in memory.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
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
from densevid.training.data import PreparedData
from densevid.training.distributed import Ranks, wait_for_all
from densevid.training.logging import RunLog, loss_text
from densevid.training.loss_monitor import LossMonitor, LossSums
from densevid.training.run_folder import RunFolder
from densevid.training.train_state import TrainState
from densevid.training.validation import ValidationScores, validation_losses, validation_scores

LOG_EVERY = 10  # steps


class Trainer:
    """Trains a model for the epochs of a run, from wherever its state is. All ranks do the same; rank 0 writes.

    Args:
        state: The model and all that changes with it; `resume` restores it.
        loader: Batches of training data.
        folder: Where checkpoints, models and logs are written; by default nothing is.
        data: The vocabulary, and the validation annotations.
        validation: Batches of held-out data; without them the training loss decides what is best.
        ranks: The processes that train together.
        log: Rows of metrics.csv, curves and progress.
        limit_steps: Stop after this step.
        started_from: A hash of the weights that the run began with.
        on_epoch: Called with the number of an epoch and its mean losses when it is over.
    """

    def __init__(
        self,
        state: TrainState,
        loader: SegmentLoader | TimelineLoader,
        *,
        folder: RunFolder | None = None,
        data: PreparedData | None = None,
        validation: SegmentLoader | None = None,
        ranks: Ranks | None = None,
        log: RunLog | None = None,
        limit_steps: int | None = None,
        started_from: str | None = None,
        on_epoch: Callable[[int, dict[str, float]], None] | None = None,
    ) -> None:
        self.state, self.loader, self.folder, self.data, self.validation = state, loader, folder, data, validation
        self.settings, self.ranks, self.log = state.config.training, ranks or Ranks(), log or RunLog()
        self.limit_steps, self.started_from, self.on_epoch = limit_steps, started_from, on_epoch
        self.first_step = 0  # of this start of the run
        self._losses_read = 0  # steps whose losses have arrived from the device

    def fit(self) -> None:
        """Train until the last epoch is over or `limit_steps` is reached, then write what the run leaves behind."""
        state = self.state
        with self.log.opened(state.step, pending=state.recent_losses.count):
            try:
                while state.epoch < self.settings.epochs and not self._at_limit():
                    if not self._train_epoch():
                        break
                    self._end_epoch()
            finally:
                self.loader.close()
            if state.skipped.count:
                self._warn(state.skipped.summary(state.step))
            self._finish()

    def _train_epoch(self) -> bool:
        """The rest of an epoch; False if the run was stopped in it."""
        state, monitor = self.state, LossMonitor(self.state.skipped, self._warn)
        state.model.train()
        for batch in self.loader.batches(state.epoch, state.batch):
            losses = state.train_step(batch)
            state.batch += 1
            self.log.count_samples(len(batch) * self.ranks.count)
            self._log_losses(monitor.add(state.step, batch.videos, losses))
            if self._checkpoint_due():
                self._log_losses(monitor.drain())  # a checkpoint is written only if every loss is finite
                self._save_checkpoint("last")
            if self._at_limit():
                break
        self._log_losses(monitor.drain())
        return state.batch == self.loader.steps(state.epoch)

    def _end_epoch(self) -> None:
        """Validate, lower the learning rate on a plateau, and write a checkpoint, and the model if it is the best."""
        state, losses = self.state, self.state.epoch_losses.means()
        if state.recent_losses.count:
            self._log_training()
        results = self._validate() or losses
        cost = self._cost(results)
        is_best = cost is not None and cost < state.best
        state.best = state.best if cost is None else min(cost, state.best)
        state.schedule.after_epoch(results["total"])
        state.next_epoch()
        self._save_epoch(is_best)
        if self.on_epoch is not None:
            self.on_epoch(state.epoch - 1, {**losses, "learning_rate": state.learning_rate})
        self.log.draw_curves()
        self.log.restart_clock()  # the pace is that of training steps alone

    def _validate(self) -> dict[str, float] | None:
        """Losses on held-out data, and scores in the epochs that have them."""
        if self.validation is None:
            return None
        epoch, every = self.state.epoch + 1, self.settings.evaluate_every
        with self._averaged_weights():
            results = validation_losses(self.state.model, self.validation, self.state.config)
            if every and (epoch % every == 0 or epoch == self.settings.epochs):
                assert self.data is not None and self.data.validation_annotations is not None
                annotations = self.data.validation_annotations
                scored = validation_scores(self._loaded_model(), self.validation, annotations, self.ranks)
                results |= scored.scores
                self._write_predictions(scored, epoch)
        self.log.add_row("validation", self._losses_read, self.state.epoch, results)
        self.log.line(f"epoch {epoch}: validation {loss_text(results)}")
        return results

    def _cost(self, results: dict[str, float]) -> float | None:
        """What the best model has the least of, as `training.best_by` wants it; None if this epoch was not scored."""
        by = self.settings.best_by
        if by == "last":
            return -float(self.state.epoch)
        score = results.get("total" if by == "loss" else by)
        return score if score is None or by == "loss" else -score

    def _log_losses(self, rows: list[dict[str, float]]) -> None:
        """Add up the losses of steps, on a GPU some steps late; every few steps are a row of metrics.csv."""
        for row in rows:
            self.state.epoch_losses.add(row)
            self.state.recent_losses.add(row)
            self._losses_read += 1
            if self._losses_read % LOG_EVERY == 0:
                self._log_training()

    def _log_training(self, *, stopped: bool = False) -> None:
        state = self.state
        rate = state.schedule.learning_rate(self._losses_read - 1)
        values = {**state.recent_losses.means(), "learning_rate": rate}
        self.log.add_training_row(self._losses_read, state.epoch, values, now=stopped)
        state.recent_losses = LossSums()

    def _warn(self, text: str) -> None:
        if self.folder is None:
            warnings.warn(text, stacklevel=2)
        else:
            self.log.line(f"warning: {text}")

    def _at_limit(self) -> bool:
        return self.limit_steps is not None and self.state.step >= self.limit_steps

    # Checkpoints, models and predictions.

    def resume(self) -> None:
        """Go on from the last checkpoint; without one, from the beginning."""
        assert self.folder is not None
        if not self.folder.last.exists():
            self.log.line(f"{self.folder.path}: no checkpoint yet, starting from the beginning")
            return
        tensors, saved = checkpointing.read(self.folder.last)
        where = str(self.folder.path)
        checkpointing.require_same_data(saved, self.loader.dataset, where=where)
        checkpointing.require_same_start(saved, self.started_from, where=where)
        if self.settings.schedule == "plateau" or self.settings.best_by != "last":
            checkpointing.require_same_validation(saved, self._validation_content, where=where)
        self.started_from = saved.get("started_from", self.started_from)
        checkpointing.restore(self.state, tensors, saved, rank=self.ranks.rank, seed=self.settings.seed)
        self._losses_read = self.first_step = self.state.step
        epoch, epochs = self.state.epoch, self.settings.epochs
        reached = f"epoch {epoch + 1} of {epochs}" if epoch < epochs else "the end: all epochs are done"
        self.log.line(f"resumed at step {self.state.step:,}, {reached}")

    def _checkpoint_due(self) -> bool:
        """Every so many steps; the end of an epoch has its own."""
        every, state = self.settings.checkpoint_every, self.state
        if self.folder is None or not every:
            return False
        return state.step % every == 0 and state.batch < self.loader.steps(state.epoch)

    def _save_checkpoint(self, name: str) -> None:
        """Every rank takes part, for each has random numbers of its own."""
        if self.folder is None:
            return
        origins = {"started_from": self.started_from, "validation_content": self._validation_content}
        data = checkpointing.data_hashes(self.loader.dataset)
        tensors, saved = checkpointing.snapshot(self.state, {**data, **origins})
        if self.ranks.leads:
            checkpointing.write(self.folder.last if name == "last" else self.folder.best, tensors, saved)

    def _save_epoch(self, is_best: bool) -> None:
        """`last` is written after all else: a kill before it repeats the epoch, and writes the rest again."""
        if not is_best:
            self._save_checkpoint("last")
            return
        self._save_checkpoint("best")
        if self.folder is not None and self.ranks.leads:
            self._save_model(self.folder.model)
            checkpointing.duplicate(self.folder.best, self.folder.last)

    def _finish(self) -> None:
        """A checkpoint to go on from, the newest model, and the curves."""
        if self.folder is None:
            return
        if self.state.batch:
            self._save_checkpoint("last")
        if self.state.recent_losses.count:
            self._log_training(stopped=True)
        if self.ranks.leads:
            self._save_model(self.folder.last_model)
            if not self.folder.model.exists():
                self._save_model(self.folder.model)
        self.log.draw_curves(now=True)
        wait_for_all()

    def _save_model(self, path: Path) -> None:
        block = provenance(config_hash=self.state.config.hash, step=self.state.step)
        with self._averaged_weights():
            save_model(path, self._loaded_model(), block)

    def _loaded_model(self) -> LoadedModel:
        assert self.data is not None
        dataset, vocabulary = self.loader.dataset, self.data.vocabulary
        return LoadedModel(self.state.model, self.state.config, vocabulary, dataset.recipe, reduction=dataset.reduction)

    def _write_predictions(self, scored: ValidationScores, epoch: int) -> None:
        if self.folder is None or not self.ranks.leads:
            return
        if scored.missing:
            self.log.line(scored.missing)
        block = provenance(config_hash=self.state.config.hash, step=self.state.step)
        for kind, events in scored.predictions.items():
            write_events(self.folder.path / "validation" / f"epoch-{epoch:04d}-{kind}.json", events, provenance=block)

    def _averaged_weights(self) -> AbstractContextManager[None]:
        """The model with the averaged weights, if there are any."""
        average = self.state.average
        return nullcontext() if average is None else average.in_place_of(self.state.model)

    @property
    def _validation_content(self) -> str | None:
        """A hash of the held-out data."""
        return None if self.data is None or self.data.validation is None else self.data.validation.content

    def summary(self) -> str:
        """One line for the end: how far the run came, in which time, and where the model is."""
        assert self.folder is not None
        step, steps, model = self.state.step, self.state.schedule.total_steps, f"model in {self.folder.model}"
        here, time_taken = step - self.first_step, duration(time.perf_counter() - self.log.begun)
        if self.state.epoch < self.settings.epochs:
            on = "the same command with --resume and without --limit-steps goes on"
            return f"stopped at step {step:,} of {steps:,} after {time_taken}; {on}; {model}"
        if not here:
            return f"all {steps:,} steps were done before; {model}"
        return f"finished {steps:,} steps{f', the last {here:,}' if self.first_step else ''} in {time_taken}; {model}"


def fit(
    model: MaskedTransformer,
    loader: SegmentLoader,
    config: Config,
    on_epoch: Callable[[int, dict[str, float]], None] | None = None,
) -> MaskedTransformer:
    """Train a model in memory, without a run folder.

    Args:
        model: The model to train; its weights change.
        loader: Batches of training data.
        config: The settings, `config.training` above all.
        on_epoch: Called with the number of an epoch and its mean losses when it is over.

    Returns:
        The same model, with averaged weights where `training.ema` is set, in evaluation mode.
    """
    state = TrainState(model, config, config.training.epochs * loader.steps(0))
    Trainer(state, loader, on_epoch=on_epoch).fit()
    if state.average is not None:
        model.load_state_dict(state.average.tensors)
    return model.eval()
