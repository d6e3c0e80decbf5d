"""Watching the losses without waiting for the device: values are read when they have arrived, a few steps later.

A loss or gradient that is not a number ends the run with the videos of its batch named, before a checkpoint is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.training.learner import PARTS
from densevid.training.ranks import gather

LAG = 8


@dataclass(frozen=True)
class _Pending:
    step: int
    videos: Sequence[str]
    values: Tensor
    arrived: torch.cuda.Event | None


@dataclass
class Sums:
    """Sums of the parts over steps, and their means."""

    values: dict[str, float] = field(default_factory=dict)
    count: int = 0

    def add(self, row: dict[str, float]) -> None:
        """Take in one step."""
        for name, value in row.items():
            self.values[name] = self.values.get(name, 0.0) + value
        self.count += 1

    def means(self) -> dict[str, float]:
        """Mean of each part."""
        return {name: value / self.count for name, value in self.values.items()}


class Watch:
    """Holds the values of the last steps until they are on this side."""

    def __init__(self) -> None:
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
            if not all(map(_is_finite, values)):
                raise _not_finite(pending, row, own_total)
            rows.append(row)
        return rows


def _is_finite(value: float) -> bool:
    return value - value == 0


def _not_finite(pending: _Pending, row: dict[str, float], own_total: float) -> InputError:
    """All ranks come here in the same step, for the values are those of all; each says what it had in its batch."""
    mine = list(pending.videos) if not _is_finite(own_total) or _is_finite(row["total"]) else []
    videos = list(dict.fromkeys(video for part in gather(mine) for video in part))  # one may be there for two segments
    named = ", ".join(videos[:8]) + (f" and {len(videos) - 8} more" if len(videos) > 8 else "")
    bad = ", ".join(f"{name} {value}" for name, value in row.items() if not _is_finite(value))
    return InputError(
        f"step {pending.step}: {bad} is not finite, with the videos {named};"
        " the last good checkpoint, if there was one, is kept: look at these features, or lower training.learning_rate"
    )
