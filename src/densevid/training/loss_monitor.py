"""Steps that were skipped: every loss was finite, the gradient was not, so nothing was learnt. A few are borne.

In bfloat16 a backward kernel gives a NaN now and then; a run that has diverged gives nothing else.

Watching the losses without waiting for the device: values are read when they have arrived, a few steps later.

A loss that is not a number ends the run with the videos of its batch named, before a checkpoint is written. So do many
gradients that are not; a few are only told, for the learner has skipped their steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.training.distributed import gather

MOST_IN_A_ROW = 5
ONE_IN = 50  # steps so far, where there are enough of them to tell
ENOUGH_STEPS = 200

PARTS = ("total", "score", "offsets", "mask", "words", "gradient")


@dataclass
class SkippedSteps:
    """How many steps of a run were skipped, and how many of them are the latest; a checkpoint keeps both."""

    count: int = 0
    in_a_row: int = 0

    def add(self, *, skipped: bool) -> None:
        """Take in one step."""
        self.count += skipped
        self.in_a_row = self.in_a_row + 1 if skipped else 0

    def too_many(self, steps: int) -> bool:
        """Whether a run of so many steps should end."""
        return self.in_a_row > MOST_IN_A_ROW or (steps >= ENOUGH_STEPS and self.count * ONE_IN > steps)

    def told(self, steps: int) -> str:
        """In words."""
        were = "step was" if self.count == 1 else "steps were"
        return f"{self.count:,} of {steps:,} {were} skipped: a gradient was not finite, though every loss was"


LAG = 8
NAMED = 8  # videos
KEPT = "the last good checkpoint, if there was one, is kept: look at these features"


@dataclass(frozen=True)
class _Pending:
    step: int
    videos: Sequence[str]
    values: Tensor
    arrived: torch.cuda.Event | None


@dataclass
class Sums:
    """Sums of the parts over steps, and their means; a step that was skipped has no gradient."""

    values: dict[str, float] = field(default_factory=dict)
    count: int = 0
    skipped: int = 0

    def add(self, row: dict[str, float]) -> None:
        """Take in one step."""
        for name, value in row.items():
            self.values[name] = self.values.get(name, 0.0) + value
        self.count += 1
        self.skipped += "gradient" not in row

    def means(self) -> dict[str, float]:
        """Mean of each part that there was."""
        steps = {"gradient": self.count - self.skipped}
        return {name: value / steps.get(name, self.count) for name, value in self.values.items()}


class LossMonitor:
    """Holds the values of the last steps until they are on this side. `warn` is told of the first skipped step."""

    def __init__(self, skips: SkippedSteps, warn: Callable[[str], None]) -> None:
        self.skips, self.warn = skips, warn
        self._pending: deque[_Pending] = deque()

    def add(self, step: int, videos: Sequence[str], values: Tensor) -> list[dict[str, float]]:
        """Note a step; gives the steps that can be read by now."""
        arrived = None
        if values.is_cuda:
            host = torch.empty(values.shape, pin_memory=True).copy_(values, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
            values = host
        self._pending.append(_Pending(step, videos, values, arrived))
        return self._read(down_to=LAG if arrived is not None else 0)

    def drain(self) -> list[dict[str, float]]:
        """All steps that are left."""
        return self._read(down_to=0)

    def _read(self, down_to: int) -> list[dict[str, float]]:
        rows = []
        while len(self._pending) > down_to:
            pending = self._pending.popleft()
            if pending.arrived is not None:
                pending.arrived.synchronize()
            *values, own_total = pending.values.tolist()
            row = dict(zip(PARTS, values, strict=True))
            if not all(map(math.isfinite, values[:-1])):
                raise _not_finite(pending, row, own_total)
            skipped = not math.isfinite(row["gradient"])
            self.skips.add(skipped=skipped)
            if skipped:
                self._tell(pending, row.pop("gradient"))
            rows.append(row)
        return rows

    def _tell(self, pending: _Pending, gradient: float) -> None:
        """The first skipped step, and the one too many, in which all ranks come here: their gradients are the same."""
        too_many = self.skips.too_many(pending.step)
        if not too_many and self.skips.count > 1:
            return
        what = f"step {pending.step}: gradient {gradient} is not finite, with the videos {_named(pending.videos)}"
        if too_many:
            told = f"{self.skips.told(pending.step)}, {self.skips.in_a_row} in a row, which is too many"
            raise InputError(f"{what}; {told}; {KEPT}, lower training.learning_rate or try training.precision float32")
        self.warn(f"{what}, though every loss is: this step is skipped, and others like it will be counted")


def _not_finite(pending: _Pending, row: dict[str, float], own_total: float) -> InputError:
    """All ranks come here in the same step, for the values are those of all; each says what it had in its batch."""
    mine = pending.videos if not math.isfinite(own_total) or math.isfinite(row["total"]) else []
    bad = ", ".join(f"{name} {value}" for name, value in row.items() if not math.isfinite(value))
    return InputError(
        f"step {pending.step}: {bad} is not finite, with the videos {_named(mine)};"
        f" {KEPT}, or lower training.learning_rate"
    )


def _named(mine: Sequence[str]) -> str:
    """The first few videos of all ranks."""
    videos = list(dict.fromkeys(video for part in gather(list(mine)) for video in part))  # one may have two segments
    return ", ".join(videos[:NAMED]) + (f" and {len(videos) - NAMED} more" if len(videos) > NAMED else "")
