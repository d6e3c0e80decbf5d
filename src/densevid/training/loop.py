"""Epochs: batches go to the learner, the learning rate follows what comes out. `run` adds files, ranks and resuming."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from densevid.config import Config
from densevid.data.loading import Loader
from densevid.data.timeline_loading import TimelineLoader
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.learner import Learner
from densevid.training.skips import Skips
from densevid.training.watch import Sums, Watch

EpochReport = dict[str, float]


@dataclass
class Position:
    """Where in the run we are: the epoch, how many of its batches are done, and the sums of their losses."""

    epoch: int = 0
    batch: int = 0
    sums: Sums = field(default_factory=Sums)


class Loop:
    """The epochs of a run from a position on. What else happens is for `after_step`, `judge` and `after_epoch`."""

    def __init__(self, learner: Learner, loader: Loader | TimelineLoader, position: Position | None = None) -> None:
        self.learner, self.loader, self.position = learner, loader, position or Position()
        self.skips = Skips()

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
        position, watch = self.position, Watch(self.skips, self.warn)
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

    def __init__(self, learner: Learner, loader: Loader, on_epoch: Callable[[int, EpochReport], None]) -> None:
        super().__init__(learner, loader)
        self.on_epoch = on_epoch

    def after_epoch(self, report: EpochReport) -> None:
        """Tell."""
        self.on_epoch(self.position.epoch - 1, {**report, "learning_rate": self.learner.learning_rate})


def fit(
    model: MaskedTransformer,
    loader: Loader,
    config: Config,
    on_epoch: Callable[[int, EpochReport], None] = lambda epoch, report: None,
) -> MaskedTransformer:
    """Train a model in memory, without a run folder."""
    learner = Learner(model, config, config.training.epochs * loader.steps(0))
    _ReportingLoop(learner, loader, on_epoch).run()
    if learner.average is not None:
        model.load_state_dict(learner.average.tensors)
    return model.eval()
