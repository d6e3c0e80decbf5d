"""FeatureTrack: the features of one video, the clock that maps its steps to seconds, and how they were made.

A step is one row of the track. Step `i` covers the time from `clock.seconds(i)` to `clock.seconds(i + 1)`; the span of
steps [a, b) is the time from `seconds(a)` to `seconds(b)`, and fractional steps are allowed. Everything that needs
features (training, captioning, calibration) reads them as a `FeatureTrack`; `FeatureRecipe` decides whether two tracks
are interchangeable.
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
Streams = tuple[tuple[str, int], ...]  # (name, width) of each stream, in the order in which they are concatenated


def streams_text(streams: Streams) -> str:
    """Streams in readable form: `resnet 2048 + bn 1024`."""
    return " + ".join(f"{name} {width}" for name, width in streams)


@dataclass(frozen=True, eq=False)
class Clock:
    """Maps steps to seconds and back. Make one with `Clock.uniform` or `Clock.from_edges`.

    Attributes:
        seconds_per_step: Length of a step; the mean length if steps differ.
        edges: The start of every step and the end of the last; None for steps of equal length that start at 0.
    """

    seconds_per_step: float
    edges: npt.NDArray[np.float64] | None = None

    @classmethod
    def uniform(cls, seconds_per_step: float) -> Clock:
        """A clock whose step i starts at i x seconds_per_step.

        Raises:
            InputError: The length is not positive and finite.
        """
        if not (np.isfinite(seconds_per_step) and seconds_per_step > 0):
            raise InputError(f"seconds per step must be positive, got {seconds_per_step}")
        return cls(float(seconds_per_step))

    @classmethod
    def from_edges(cls, edges: npt.ArrayLike) -> Clock:
        """A clock of n steps with n + 1 edges.

        Args:
            edges: Strictly increasing times in seconds.

        Raises:
            InputError: There are fewer than two times, or they do not increase.
        """
        times = np.asarray(edges, dtype=np.float64)
        if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or (np.diff(times) <= 0).any():
            raise InputError("a clock needs at least two finite, strictly increasing times")
        return cls(float((times[-1] - times[0]) / (len(times) - 1)), times)

    def seconds(self, steps: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Convert (fractional) steps to seconds; beyond the ends, steps are as long as the first or the last."""
        positions = np.asarray(steps, dtype=np.float64)
        if self.edges is None:
            return np.asarray(positions * self.seconds_per_step)
        step = np.clip(np.floor(positions).astype(np.int64), 0, len(self.edges) - 2)
        start, end = self.edges[step], self.edges[step + 1]
        return np.asarray(start + (positions - step) * (end - start))

    def steps(self, seconds: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Convert seconds to (fractional) steps: the inverse of `seconds`."""
        times = np.asarray(seconds, dtype=np.float64)
        if self.edges is None:
            return np.asarray(times / self.seconds_per_step)
        step = np.clip(np.searchsorted(self.edges, times, side="right") - 1, 0, len(self.edges) - 2)
        start, end = self.edges[step], self.edges[step + 1]
        return np.asarray(step + (times - start) / (end - start))


@dataclass(frozen=True, eq=False)
class Extent:
    """The size of a track, known without reading its features.

    Attributes:
        steps: Number of steps.
        clock: Maps steps to seconds.
        duration: Duration of the video in seconds, None if unknown.
    """

    steps: int
    clock: Clock
    duration: float | None = None


@dataclass(frozen=True, eq=False)
class FeatureTrack:
    """The features of one video, a vector per step.

    `densevid.extract` makes one from a video file; make your own from any array:

        >>> import numpy as np
        >>> from densevid.tracks import Clock, FeatureTrack
        >>> track = FeatureTrack(np.zeros((120, 64), np.float16), Clock.uniform(0.5), (("mine", 64),))
        >>> track
        FeatureTrack(mine 64; 120 steps x 64 float16, 60.0 s, recipe unknown)
        >>> len(track), track.stream("mine").shape, float(track.seconds(10))
        (120, (120, 64), 5.0)

    Attributes:
        values: The features, steps x width; the streams are concatenated along the width.
        clock: Maps steps to seconds.
        streams: Name and width of each stream.
        recipe: Id of the `FeatureRecipe` the features were made with, None if unknown.
        duration: Duration of the video in seconds, None if unknown.
        absent: Names of streams that could not be made or were left out; their values are zeros.

    Raises:
        InputError: The array is empty, not floating-point, or does not fit its streams or its clock.
    """

    values: FloatArray
    clock: Clock
    streams: Streams
    recipe: str | None = None
    duration: float | None = None
    absent: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or 0 in self.values.shape:
            raise InputError(f"a feature track must be steps x width, neither of them 0, got {self.values.shape}")
        if not np.issubdtype(self.values.dtype, np.floating):
            raise InputError(f"features must be floating-point numbers, got {self.values.dtype}")
        width = sum(self.widths)
        if width != self.values.shape[1]:
            raise InputError(f"features are {self.values.shape[1]} wide, their streams {self.streams} {width}")
        if self.clock.edges is not None and len(self.clock.edges) != len(self.values) + 1:
            raise InputError(f"{len(self.values)} steps need a clock of {len(self.values) + 1} edges")
        unknown = set(self.absent) - {name for name, _ in self.streams}
        if unknown:
            raise InputError(f"{', '.join(sorted(unknown))} cannot be absent, the streams are {self.streams}")

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        steps, width = self.values.shape
        seconds = float(self.seconds(steps)) if self.duration is None else self.duration
        size = f"{steps} steps x {width} {self.values.dtype}, {seconds:.1f} s"
        absent = f", without {', '.join(self.absent)}" if self.absent else ""
        return f"FeatureTrack({streams_text(self.streams)}; {size}, recipe {self.recipe or 'unknown'}{absent})"

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of each stream."""
        return tuple(width for _, width in self.streams)

    @property
    def extent(self) -> Extent:
        """The size of the track, without its features."""
        return Extent(len(self), self.clock, self.duration)

    def seconds(self, steps: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Convert (fractional) steps to seconds."""
        return self.clock.seconds(steps)

    def whole_steps(self, start: float, end: float) -> tuple[int, int]:
        """The whole steps nearest to a span of seconds.

        Args:
            start: Start of the span in seconds.
            end: End of the span in seconds.

        Returns:
            First step and end (exclusive), at least one step apart and inside the track.
        """
        first, last = np.rint(self.clock.steps([start, end])).astype(int).tolist()
        first = min(max(first, 0), len(self) - 1)
        return first, min(max(first + 1, last), len(self))

    def stream(self, name: str) -> FloatArray:
        """The features of one stream, steps x its width, as a view; zeros where the stream is absent.

        Raises:
            InputError: There is no stream of that name.
        """
        names = [stream for stream, _ in self.streams]
        if name not in names:
            raise InputError(f"there is no stream {name!r}; there are {', '.join(names)}")
        first = sum(self.widths[: names.index(name)])
        return self.values[:, first : first + self.widths[names.index(name)]]


@dataclass(frozen=True)
class FeatureRecipe:
    """How features were made: backbone, version, hash of the weights, sampling, preprocessing.

    Features are interchangeable if and only if their recipes are equal, so a recipe contains whatever changes the
    values, and nothing else.

    Attributes:
        table: Plain TOML values; `name` is the backbone, as in `densevid extract --backbone NAME`.

    Raises:
        InputError: There is no name, or a value cannot be written as TOML.
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
        """The name and a hash of the table; equal if and only if the recipes are."""
        return f"{self.name}-{hash_of(self.table)[:12]}"

    def differences(self, other: FeatureRecipe) -> list[str]:
        """The keys, sorted, in which two recipes differ."""
        keys = sorted({*self.table, *other.table})
        return [key for key in keys if hash_of({key: self.table.get(key)}) != hash_of({key: other.table.get(key)})]


def _require_plain(key: str, value: Any) -> None:
    """Refuse values that TOML or JSON would not preserve."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            _require_plain(f"{key}.{name}", item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _require_plain(key, item)
    elif not isinstance(value, (str, int, float)):
        raise InputError(f"{key} must be text, a number, true or false, a list or a table, got {type(value).__name__}")
