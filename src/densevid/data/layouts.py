"""`open_features`: open features in any layout as a FeatureSource. HDF5 files are read here.

An HDF5 file has a dataset per video, or a group per video with a dataset per stream; the streams of a group are
concatenated in the release's order (resnet, bn), others after them by name. Files are found by listing folders, never
by building a path from a video id, and arrays are read without pickle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from densevid.data.clocks import RELEASED_SAMPLING, Formula, StepClocks, read_duration_file
from densevid.data.npy_features import RELEASED_STREAMS, ArrayFeatures, NamedArrays, open_npy_folder
from densevid.data.sources import FeatureSource
from densevid.data.store.format import MANIFEST
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError, one_line
from densevid.tracks import Clock

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: Path) -> bool:
    """Whether a file has the HDF5 signature."""
    with path.open("rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


class HDF5Features(ArrayFeatures):
    """One HDF5 file for all videos, opened for each access so that processes never share a handle."""

    def __init__(self, path: Path, clocks: StepClocks) -> None:
        with _opened(path, str(path)) as file:
            ids = frozenset(str(name) for name in file)
        super().__init__(path, ids, clocks)

    @contextmanager
    def arrays(self, video: str) -> Iterator[NamedArrays]:
        """The datasets of a video."""
        where = f"{video} in {self.path}"
        with _opened(self.path, where) as file:
            item = _inside(where, file, video)
            if hasattr(item, "shape"):
                yield [("features", item)]
            elif len(item):
                yield [(name, _inside(where, item, name)) for name in sorted(item, key=_stream_order)]
            else:
                raise InputError(f"{where}: an empty group")


def _stream_order(name: str) -> tuple[int, str]:
    known = RELEASED_STREAMS.index(name) if name in RELEASED_STREAMS else len(RELEASED_STREAMS)
    return known, name


@contextmanager
def _opened(path: Path, where: str) -> Iterator[Any]:
    try:
        import h5py
    except ModuleNotFoundError:
        raise InputError(f"{path}: HDF5 needs h5py; install it with `pip install densevid[hdf5]`") from None
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError) as error:
        raise InputError(f"{where}: cannot be read as HDF5 ({one_line(error)})") from error


def _inside(where: str, group: Any, name: str) -> Any:
    """A member of a group; links and datasets that refer to other files are refused."""
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise InputError(f"{where}: {name!r} is a link, not data of this file")
    item = group[name]
    if not isinstance(item, (h5py.Dataset, h5py.Group)):
        raise InputError(f"{where}: {name!r} is neither an array nor a group of arrays")
    if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
        raise InputError(f"{where}: {name!r} keeps its data in another file")
    return item


Durations = Path | str | Mapping[str, float | None]


def open_features(
    path: Path | str,
    *,
    durations: Durations | None = None,
    seconds_per_step: float | None = None,
    duration_formula: Formula = "activitynet",
    split: str | None = None,
    default_seconds_per_step: float = RELEASED_SAMPLING,
) -> FeatureSource:
    """Open features in any layout: a feature store, .npy files, or an HDF5 file.

    Args:
        path: A store, a folder of .npy files (one per video, or the release's pairs), or an HDF5 file.
        durations: A `*_duration_frame.csv`, or seconds by video as annotations have them. By default such a file is
            searched in the folder and beside it.
        seconds_per_step: Length of a step of every video, instead of durations.
        duration_formula: The release's formula for the length of a step: "activitynet" or "youcook2".
        split: Read only the folder of this split.
        default_seconds_per_step: Length of a step in the release's layout for videos without a duration.

    Returns:
        The features by video id.

    Raises:
        InputError: There are no features, or clocks were given for a store, which has its own.
    """
    if seconds_per_step is not None:
        Clock.uniform(seconds_per_step)  # an error if there is no such clock
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if (path / MANIFEST).exists():
        _require_no_clock(path, durations, seconds_per_step)
        return FeatureStore.open(path)
    clocks = _clocks(path, durations, seconds_per_step, duration_formula)
    clocks = replace(clocks, otherwise=default_seconds_per_step)
    if path.is_dir():
        return open_npy_folder(path, clocks, split)
    if is_hdf5(path):
        return HDF5Features(path, clocks)
    raise InputError(f"{path}: neither a folder of features nor an HDF5 file")


def _require_no_clock(store: Path, durations: Durations | None, seconds_per_step: float | None) -> None:
    """Refuse clocks for a store; durations by video come from annotations, not from a flag, and are ignored."""
    flags = {"--seconds-per-step": seconds_per_step is not None, "--durations": isinstance(durations, (str, Path))}
    if any(flags.values()):
        needless = " and ".join(flag for flag, given in flags.items() if given)
        raise InputError(f"{store}: a store has its own clock; leave {needless} out")


def _clocks(path: Path, durations: Durations | None, seconds_per_step: float | None, formula: Formula) -> StepClocks:
    if isinstance(durations, Mapping):
        known = {video: seconds for video, seconds in durations.items() if seconds is not None}
        return StepClocks(seconds_per_step, formula, known)
    file = durations or (None if seconds_per_step else _duration_file_of(path))
    return StepClocks(seconds_per_step, formula, *(read_duration_file(Path(file)) if file else ()))


def _duration_file_of(path: Path) -> Path | None:
    """The one `*_duration_frame.csv` in the folder of features or beside it."""
    for folder in (path, path.parent):
        files = sorted(folder.glob("*_duration_frame.csv"))
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise InputError(f"{folder}: has several duration files ({names}); give one with --durations")
        if files:
            return files[0]
    return None
