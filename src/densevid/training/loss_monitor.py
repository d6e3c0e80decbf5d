"""Watches the losses of a run without waiting for the device: values are read when they have arrived, steps later.

A loss that is not finite ends the run before a checkpoint is written, and the error names the videos of its batch. A
gradient that is not finite though every loss is does not: the step changed nothing (`optim.step_if_finite`), and is
counted as skipped. In bfloat16 a backward kernel gives a NaN now and then; many of them end the run, too.
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
ONE_IN = 50  # of all steps so far, once there are ENOUGH_STEPS
ENOUGH_STEPS = 200

PARTS = ("total", "score", "offsets", "mask", "words", "gradient")
LAG = 8  # steps that may be under way on a GPU before their losses are read
NAMED = 8  # videos in an error
KEPT = "the last good checkpoint, if there was one, is kept: look at these features"


@dataclass
class SkippedSteps:
    """How many steps of a run were skipped, and how many in a row up to the latest; a checkpoint keeps both."""

    count: int = 0
    in_a_row: int = 0

    def add(self, *, skipped: bool) -> None:
        """Count one step."""
        self.count += skipped
        self.in_a_row = self.in_a_row + 1 if skipped else 0

    def too_many(self, steps: int) -> bool:
        """Whether a run of so many steps should end."""
        return self.in_a_row > MOST_IN_A_ROW or (steps >= ENOUGH_STEPS and self.count * ONE_IN > steps)

    def summary(self, steps: int) -> str:
        """One line."""
        were = "step was" if self.count == 1 else "steps were"
        return f"{self.count:,} of {steps:,} {were} skipped: a gradient was not finite, though every loss was"


@dataclass(frozen=True)
class _Pending:
    step: int
    videos: Sequence[str]
    values: Tensor
    arrived: torch.cuda.Event | None


@dataclass
class LossSums:
    """Sums of the `PARTS` over steps; a step that was skipped has no gradient."""

    values: dict[str, float] = field(default_factory=dict)
    count: int = 0
    skipped: int = 0

    def add(self, row: dict[str, float]) -> None:
        """Add the losses of one step."""
        for name, value in row.items():
            self.values[name] = self.values.get(name, 0.0) + value
        self.count += 1
        self.skipped += "gradient" not in row

    def means(self) -> dict[str, float]:
        """The mean of each part over the steps that have it."""
        steps = {"gradient": self.count - self.skipped}
        return {name: value / steps.get(name, self.count) for name, value in self.values.items()}


class LossMonitor:
    """Holds the losses of the latest steps until they have arrived from the device.

    Args:
        skips: Counts the skipped steps of the whole run.
        warn: Gets a line at the first skipped step.
    """

    def __init__(self, skips: SkippedSteps, warn: Callable[[str], None]) -> None:
        self.skips, self.warn = skips, warn
        self._pending: deque[_Pending] = deque()

    def add(self, step: int, videos: Sequence[str], values: Tensor) -> list[dict[str, float]]:
        """Add the losses of a step; returns those, by name, of the steps that have arrived by now."""
        arrived = None
        if values.is_cuda:
            host = torch.empty(values.shape, pin_memory=True).copy_(values, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
            values = host
        self._pending.append(_Pending(step, videos, values, arrived))
        return self._read(down_to=LAG if arrived is not None else 0)

    def drain(self) -> list[dict[str, float]]:
        """The losses of all steps that are left."""
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
                self._report_skip(pending, row.pop("gradient"))
            rows.append(row)
        return rows

    def _report_skip(self, pending: _Pending, gradient: float) -> None:
        """Warn of the first skipped step, raise at one too many. All ranks come here: their gradients are the same."""
        too_many = self.skips.too_many(pending.step)
        if not too_many and self.skips.count > 1:
            return
        what = f"step {pending.step}: gradient {gradient} is not finite, with the videos {_named(pending.videos)}"
        if too_many:
            summary = f"{self.skips.summary(pending.step)}, {self.skips.in_a_row} in a row, which is too many"
            raise InputError(
                f"{what}; {summary}; {KEPT}, lower training.learning_rate or try training.precision float32"
            )
        self.warn(f"{what}, though every loss is: this step is skipped, and others like it will be counted")


def _not_finite(pending: _Pending, row: dict[str, float], own_total: float) -> InputError:
    """The error. All ranks come here in the same step, for the values are those of all; each names its own batch."""
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
