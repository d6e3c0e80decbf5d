"""Features in folders of .npy files: the release's `<id>_resnet.npy` + `<id>_bn.npy`, or one `<id>.npy` a video."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.data.array_features import ArrayFeatures, NamedArrays
from densevid.data.splits import split_name
from densevid.data.step_clocks import StepClocks
from densevid.errors import InputError, one_line
from densevid.tracks import Clock

RELEASED_STREAMS = ("resnet", "bn")


class NpyFeatures(ArrayFeatures):
    """One `<id>.npy` a video, at any rate, or resampled to a fixed number of rows over the video."""

    def __init__(self, path: Path, files: Mapping[str, Path], clocks: StepClocks) -> None:
        self._files = files
        super().__init__(path, files, clocks)

    @contextmanager
    def arrays(self, video: str) -> Iterator[NamedArrays]:
        """The memory-mapped array of a video."""
        yield [("features", read_npy(video, self._files[video]))]


class ReleasedFeatures(ArrayFeatures):
    """The release's layout: two files a video, side by side in this order, and its rule for the length of a step."""

    def __init__(self, path: Path, files: Mapping[str, Mapping[str, Path]], clocks: StepClocks) -> None:
        self._files = files
        super().__init__(path, files, clocks)

    def clock(self, video: str, steps: int) -> Clock:
        """By the release's formula."""
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
    """Open a folder of .npy files, or folders of them, one for each split, under it."""
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
    """The array of a .npy file: its shape is known from the header at once, its values are mapped when asked for."""

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
    """Open an array; pickles and archives are no arrays."""
    try:
        return NpyArray(path)
    except (OSError, ValueError, EOFError, SyntaxError, OverflowError, TypeError) as error:
        raise InputError(f"{video}: {path} is not a whole .npy array ({one_line(error)})") from error


def _npy_files(path: Path, split: str | None) -> list[Path]:
    """The .npy files of a folder; if it has none, of the folders in it, or of that of one split."""
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
    """Note a file, unless the same id was found in another split."""
    if key in files:
        raise InputError(f"{video}: its features are in {files[key].parent} and in {file.parent}; choose a split")
    files[key] = file
