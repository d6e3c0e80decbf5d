"""FeatureTrack: the features of one video per step, the clock that maps steps to seconds, and how they were made.

A step is one position of the track. Step `i` covers the time from `clock.seconds(i)` to `clock.seconds(i + 1)`;
a span of steps [a, b) is the time from `seconds(a)` to `seconds(b)`, and fractions of steps are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.errors import InputError
from densevid.io import hash_of

FloatArray = npt.NDArray[np.floating[Any]]
Streams = tuple[tuple[str, int], ...]  # (name, width) of each stream, in the order in which they stand side by side


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class Extent:
    """How far a track reaches: all about it that can be known without reading its features."""

    steps: int
    clock: Clock
    duration: float | None = None


@dataclass(frozen=True, eq=False)
class FeatureTrack:
    """Features of a video: `values` is steps x width, the streams side by side in the order of `streams`.

    `recipe` is the id of the FeatureRecipe they were made with, None where nobody knows; `duration` is the video's own.
    """

    values: FloatArray
    clock: Clock
    streams: Streams
    recipe: str | None = None
    duration: float | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or 0 in self.values.shape:
            raise InputError(f"a feature track must be steps x width, neither of them 0, got {self.values.shape}")
        if not np.issubdtype(self.values.dtype, np.floating):
            raise InputError(f"features must be floating-point numbers, got {self.values.dtype}")
        width = sum(self.widths)
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

    @property
    def extent(self) -> Extent:
        """The track without its features."""
        return Extent(len(self), self.clock, self.duration)

    def seconds(self, steps: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Time of (fractional) steps, by the track's own clock."""
        return self.clock.seconds(steps)

    def whole_steps(self, start: float, end: float) -> tuple[int, int]:
        """First and end of the steps nearest to a span of seconds, at least one of them."""
        first, last = np.rint(self.clock.steps([start, end])).astype(int).tolist()
        first = min(max(first, 0), len(self) - 1)
        return first, min(max(first + 1, last), len(self))

    def stream(self, name: str) -> FloatArray:
        """The features of one stream, steps x its width."""
        names = [stream for stream, _ in self.streams]
        if name not in names:
            raise InputError(f"there is no stream {name!r}; there are {', '.join(names)}")
        first = sum(self.widths[: names.index(name)])
        return self.values[:, first : first + self.widths[names.index(name)]]


@dataclass(frozen=True)
class FeatureRecipe:
    """How features were made, as plain TOML values: name, version, weights hash, sampling, preprocessing, ...

    `name` is the backbone, as `densevid extract --backbone NAME` knows it. Features are interchangeable if and only if
    their recipes are equal, so whatever changes the numbers belongs in here, and nothing else does.
    """

    table: Mapping[str, Any]

    def __post_init__(self) -> None:
        _require_plain("recipe", self.table)
        if not isinstance(self.table.get("name"), str) or not self.table["name"]:
            raise InputError('a feature recipe needs a name, as in name = "two-stream"')

    @property
    def name(self) -> str:
        """The backbone that made the features."""
        return str(self.table["name"])

    @property
    def id(self) -> str:
        """The name and a hash of all the rest: equal for equal recipes alone."""
        return f"{self.name}-{hash_of(self.table)[:12]}"

    def differences(self, other: FeatureRecipe) -> list[str]:
        """The keys, in order of name, that the two recipes do not agree on."""
        keys = sorted({*self.table, *other.table})
        return [key for key in keys if hash_of({key: self.table.get(key)}) != hash_of({key: other.table.get(key)})]


def _require_plain(key: str, value: Any) -> None:
    """Refuse what TOML or JSON could not carry unchanged."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            _require_plain(f"{key}.{name}", item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _require_plain(key, item)
    elif not isinstance(value, (str, int, float)):
        raise InputError(f"{key} must be text, a number, true or false, a list or a table, got {type(value).__name__}")
