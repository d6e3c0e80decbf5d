"""FeatureTrack: the features of one video per step, and the clock that maps steps to seconds.

A step is one position of the track. Step `i` covers the time from `clock.seconds(i)` to `clock.seconds(i + 1)`;
a span of steps [a, b) is the time from `seconds(a)` to `seconds(b)`, and fractions of steps are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.errors import InputError

FloatArray = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Clock:
    """Maps steps to seconds. `edges` holds the start of every step and the end of the last; None means uniform."""

    seconds_per_step: float
    edges: npt.NDArray[np.float64] | None = None

    @classmethod
    def uniform(cls, seconds_per_step: float) -> Clock:
        """Step i starts at i x seconds_per_step."""
        if not (np.isfinite(seconds_per_step) and seconds_per_step > 0):
            raise InputError(f"seconds per step must be positive, got {seconds_per_step}")
        return cls(float(seconds_per_step))

    @classmethod
    def from_edges(cls, edges: npt.ArrayLike) -> Clock:
        """Any clock: n steps are given by n + 1 strictly increasing times in seconds."""
        times = np.asarray(edges, dtype=np.float64)
        if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or (np.diff(times) <= 0).any():
            raise InputError("a clock needs at least two finite, strictly increasing times")
        return cls(float((times[-1] - times[0]) / (len(times) - 1)), times)

    def seconds(self, steps: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Time of (fractional) steps; beyond the ends the clock runs on at the rate of the nearest step."""
        positions = np.asarray(steps, dtype=np.float64)
        if self.edges is None:
            return np.asarray(positions * self.seconds_per_step)
        step = np.clip(np.floor(positions).astype(np.int64), 0, len(self.edges) - 2)
        start, end = self.edges[step], self.edges[step + 1]
        return np.asarray(start + (positions - step) * (end - start))

    def steps(self, seconds: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The (fractional) step at a time: the inverse of `seconds`."""
        times = np.asarray(seconds, dtype=np.float64)
        if self.edges is None:
            return np.asarray(times / self.seconds_per_step)
        step = np.clip(np.searchsorted(self.edges, times, side="right") - 1, 0, len(self.edges) - 2)
        start, end = self.edges[step], self.edges[step + 1]
        return np.asarray(step + (times - start) / (end - start))


@dataclass(frozen=True)
class FeatureTrack:
    """Features of a video: `values` is steps x width, the streams side by side in the order of `streams`."""

    values: FloatArray
    clock: Clock
    streams: tuple[tuple[str, int], ...]
    recipe: str | None = None
    duration: float | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or len(self.values) == 0:
            raise InputError(f"a feature track must be steps x width with at least one step, got {self.values.shape}")
        width = sum(width for _, width in self.streams)
        if width != self.values.shape[1]:
            raise InputError(f"features are {self.values.shape[1]} wide, their streams {self.streams} say {width}")
        if self.clock.edges is not None and len(self.clock.edges) != len(self.values) + 1:
            raise InputError(f"{len(self.values)} steps need a clock of {len(self.values) + 1} edges")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of every stream."""
        return tuple(width for _, width in self.streams)
