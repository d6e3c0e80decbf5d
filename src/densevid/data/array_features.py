"""Features kept as one or more arrays per video, in files that others made: what all such layouts have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from densevid.data.feature_source import streams_text, unknown_video
from densevid.data.step_clocks import StepClocks
from densevid.errors import InputError
from densevid.tracks import Clock, Extent, FeatureRecipe, FeatureTrack, Streams

NamedArrays = list[tuple[str, Any]]  # stream name, and something that has a shape and a dtype and becomes an array


class ArrayFeatures(ABC):
    """A FeatureSource whose videos are arrays of steps x width, one per stream. Every complaint names the video."""

    recipe: FeatureRecipe | None = None

    def __init__(self, path: Path, ids: Collection[str], clocks: StepClocks) -> None:
        self.path, self.clocks, self._ids = path, clocks, ids
        if not ids:
            raise InputError(f"{path}: holds no features, neither a store nor .npy files nor arrays in an HDF5 file")

    @abstractmethod
    def arrays(self, video: str) -> AbstractContextManager[NamedArrays]:
        """The arrays of a video that is there, open as long as the block lasts."""

    def clock(self, video: str, steps: int) -> Clock:
        """The clock of a video."""
        return self.clocks.over_duration(video, steps)

    @property
    def streams(self) -> Streams:
        """Name and width of each stream."""
        return self._pattern[1]

    @cached_property
    def _pattern(self) -> tuple[str, Streams]:
        """The first video that can be read and its streams, which all others must have too."""
        for video in self.videos():
            with suppress(InputError), self._opened(video) as arrays:
                return video, _streams(arrays)
        with self._opened(self.videos()[0]) as arrays:  # says what is wrong with the first
            return self.videos()[0], _streams(arrays)

    def videos(self) -> list[str]:
        """All ids, sorted."""
        return sorted(self._ids)

    def __contains__(self, video: object) -> bool:
        return video in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __str__(self) -> str:
        return str(self.path)

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration of one video, from the headers of its arrays."""
        with self._opened(video) as arrays:
            return self._extent(video, arrays)

    def track(self, video: str) -> FeatureTrack:
        """One video, its streams side by side, at the precision of its arrays."""
        with self._opened(video) as arrays:
            streams, extent = _streams(arrays), self._extent(video, arrays)
            values = np.concatenate([_native(values) for _, values in arrays], axis=1)
        pattern, wanted = self._pattern
        if streams != wanted:
            raise InputError(f"{video}: it has {streams_text(streams)}, {pattern} has {streams_text(wanted)}")
        if not np.isfinite(values).all():
            step = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise InputError(f"{video}: its features hold NaN or infinity, first at row {step}")
        return FeatureTrack(values, extent.clock, streams, None, extent.duration)

    @contextmanager
    def _opened(self, video: str) -> Iterator[NamedArrays]:
        """The arrays of a video, if each is steps x width and all have the same number of steps."""
        if video not in self._ids:
            raise unknown_video(video, self.path, self.videos())
        with self.arrays(video) as arrays:
            for name, values in arrays:
                _require_matrix(f"{video}: its {name} array", values)
            if len({len(values) for _, values in arrays}) > 1:
                rows = ", ".join(f"{name} has {len(values)}" for name, values in arrays)
                raise InputError(f"{video}: its streams differ in rows: {rows}")
            yield arrays

    def _extent(self, video: str, arrays: NamedArrays) -> Extent:
        steps = len(arrays[0][1])
        return Extent(steps, self.clock(video, steps), self.clocks.durations.get(video))


def _require_matrix(what: str, values: Any) -> None:
    if len(values.shape) != 2 or 0 in values.shape:
        raise InputError(f"{what} has shape {tuple(values.shape)}; it must be steps x width, neither of them 0")
    if values.dtype.kind != "f" or values.dtype.itemsize > 8:
        raise InputError(f"{what} holds {values.dtype}; it must be float16, float32 or float64")


def _native(values: Any) -> Any:
    """All of an array in memory, in this machine's byte order."""
    return np.asarray(values, dtype=values.dtype.newbyteorder("="))


def _streams(arrays: NamedArrays) -> Streams:
    return tuple((name, int(values.shape[1])) for name, values in arrays)
