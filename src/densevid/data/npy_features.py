"""Features in folders of .npy files: one `<id>.npy` per video, or the release's `<id>_resnet.npy` + `<id>_bn.npy`.

`ArrayFeatures` is what these layouts share with HDF5 (`data.layouts`): a video is one array per stream, steps x width,
and the clock comes from outside (`data.clocks`).
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.data.annotations import split_name
from densevid.data.clocks import StepClocks
from densevid.data.sources import unknown_video
from densevid.errors import InputError, one_line
from densevid.tracks import Clock, Extent, FeatureRecipe, FeatureTrack, Streams, streams_text

NamedArrays = list[tuple[str, Any]]  # name of the stream, and an array or what numpy converts to one


class ArrayFeatures(ABC):
    """A FeatureSource whose videos are arrays of steps x width, one per stream.

    Args:
        path: The file or folder.
        ids: Ids of the videos in it.
        clocks: Gives each video its clock.

    Raises:
        InputError: There are no videos. Later errors name the video they are about.
    """

    recipe: FeatureRecipe | None = None

    def __init__(self, path: Path, ids: Collection[str], clocks: StepClocks) -> None:
        self.path, self.clocks, self._ids = path, clocks, ids
        if not ids:
            raise InputError(f"{path}: holds no features, neither a store nor .npy files nor arrays in an HDF5 file")

    @abstractmethod
    def arrays(self, video: str) -> AbstractContextManager[NamedArrays]:
        """Context manager: the arrays of a video, open inside the block."""

    def clock(self, video: str, steps: int) -> Clock:
        """The clock of a video."""
        return self.clocks.over_duration(video, steps)

    @property
    def streams(self) -> Streams:
        """Name and width of each stream."""
        return self._pattern[1]

    @cached_property
    def _pattern(self) -> tuple[str, Streams]:
        """The first readable video and its streams, which all other videos must have."""
        for video in self.videos():
            with suppress(InputError), self._opened(video) as arrays:
                return video, _streams(arrays)
        with self._opened(self.videos()[0]) as arrays:  # raises the error of the first
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
        """Steps, clock and duration of one video, from the shapes of its arrays."""
        with self._opened(video) as arrays:
            return self._extent(video, arrays)

    def track(self, video: str) -> FeatureTrack:
        """The features of one video, streams concatenated, in the precision of its arrays."""
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
        """The arrays of a video, checked: each steps x width, all with the same number of steps."""
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
    """Read an array into memory, in native byte order."""
    return np.asarray(values, dtype=values.dtype.newbyteorder("="))


def _streams(arrays: NamedArrays) -> Streams:
    return tuple((name, int(values.shape[1])) for name, values in arrays)


RELEASED_STREAMS = ("resnet", "bn")


class NpyFeatures(ArrayFeatures):
    """One `<id>.npy` per video, at any rate or with a fixed number of rows per video."""

    def __init__(self, path: Path, files: Mapping[str, Path], clocks: StepClocks) -> None:
        self._files = files
        super().__init__(path, files, clocks)

    @contextmanager
    def arrays(self, video: str) -> Iterator[NamedArrays]:
        """The memory-mapped array of a video."""
        yield [("features", read_npy(video, self._files[video]))]


class ReleasedFeatures(ArrayFeatures):
    """The release's layout: two files per video, concatenated in this order, with its formula for the step length."""

    def __init__(self, path: Path, files: Mapping[str, Mapping[str, Path]], clocks: StepClocks) -> None:
        self._files = files
        super().__init__(path, files, clocks)

    def clock(self, video: str, steps: int) -> Clock:
        """The clock by the release's formula."""
        return self.clocks.released(video)

    @contextmanager
    def arrays(self, video: str) -> Iterator[NamedArrays]:
        """The two memory-mapped arrays of a video."""
        files = self._files[video]
        for stream in RELEASED_STREAMS:
            if stream not in files:
                (there,) = files.values()
                raise InputError(f"{video}: its {stream} features are missing beside {there}")
        yield [(stream, read_npy(video, files[stream])) for stream in RELEASED_STREAMS]


def open_npy_folder(path: Path, clocks: StepClocks, split: str | None = None) -> NpyFeatures | ReleasedFeatures:
    """Open a folder of .npy files, or one that has such a folder per split.

    Args:
        path: The folder.
        clocks: Gives each video its clock.
        split: Read only the folder of this split.

    Raises:
        InputError: Both layouts are mixed, a video is in two folders, or there are no features.
    """
    files = _npy_files(path, split)
    plain: dict[str, Path] = {}
    released: dict[str, dict[str, Path]] = {}
    for file in files:
        video, _, stream = file.stem.rpartition("_")
        if stream in RELEASED_STREAMS:
            _claim(released.setdefault(video, {}), stream, video, file)
        else:
            _claim(plain, file.stem, file.stem, file)
    if released and plain:
        raise InputError(f"{path}: holds {next(iter(plain.values())).name} among pairs of _resnet.npy and _bn.npy")
    return ReleasedFeatures(path, released, clocks) if released else NpyFeatures(path, plain, clocks)


class NpyArray:
    """A .npy file whose header is read at once and whose values are memory-mapped on access."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, _, self.dtype = read(file)
            if self.dtype.hasobject:
                raise ValueError("it holds pickled objects")
            size = math.prod(self.shape) * self.dtype.itemsize
            if os.fstat(file.fileno()).st_size < file.tell() + size:
                raise ValueError(f"it is shorter than its {self.shape} values of {self.dtype}")

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(np.lib.format.open_memmap(self.path, mode="r"), dtype=dtype)


def read_npy(video: str, path: Path) -> NpyArray:
    """Open a .npy file of a video; pickled objects and archives are refused."""
    try:
        return NpyArray(path)
    except (OSError, ValueError, EOFError, SyntaxError, OverflowError, TypeError) as error:
        raise InputError(f"{video}: {path} is not a whole .npy array ({one_line(error)})") from error


def _npy_files(path: Path, split: str | None) -> list[Path]:
    """The .npy files of a folder; if it has none, those of its subfolders, or of the subfolder of one split."""
    if files := sorted(path.glob("*.npy")):
        return files
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir())
    if split is not None:
        wanted = [folder for folder in folders if split_name(folder.name) == split_name(split)]
        if folders and not wanted:
            names = ", ".join(folder.name for folder in folders)
            raise InputError(f"{path}: has no folder for the split {split!r}, only {names}")
        folders = wanted
    return [file for folder in folders for file in sorted(folder.glob("*.npy"))]


def _claim(files: dict[str, Path], key: str, video: str, file: Path) -> None:
    """Add a file; an id that was found in another folder is an error."""
    if key in files:
        raise InputError(f"{video}: its features are in {files[key].parent} and in {file.parent}; choose a split")
    files[key] = file
