"""Features in one HDF5 file: a dataset per video, or a group per video with a dataset per stream.

The streams of a group stand side by side in the release's order (resnet, bn), others after them by name.

`open_features`: whatever layout features are in, look at what is there and give a FeatureSource.

Files are found by listing folders, never by making a path from a video id, and arrays are read with pickling off.
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
    """Whether a file begins as HDF5 files do."""
    with path.open("rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


class HDF5Features(ArrayFeatures):
    """One file for all videos. It is opened for each access, so that workers never share a handle."""

    def __init__(self, path: Path, clocks: StepClocks) -> None:
        with _opened(path, str(path)) as file:
            ids = frozenset(str(name) for name in file)
        super().__init__(path, ids, clocks)

    @contextmanager
    def arrays(self, video: str) -> Iterator[NamedArrays]:
        """The datasets of a video, not yet read."""
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
    """A member that lies in this very file: links and arrays that lead to other files are not followed."""
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
    """Open features: our store, the release's pairs of .npy files, one .npy a video, or an HDF5 file.

    `durations` is a `*_duration_frame.csv` (without one it is looked for beside the features), or seconds by video, as
    annotations know them. `seconds_per_step` overrules it. A store has its own clocks: a number or a file for one is an
    error. A video without a duration has the usual seconds per step in the release's layout.
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
    """What annotations say of durations is known and not asked for, so it may be given with a store."""
    asked = {"--seconds-per-step": seconds_per_step is not None, "--durations": isinstance(durations, (str, Path))}
    if any(asked.values()):
        needless = " and ".join(flag for flag, given in asked.items() if given)
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
            raise InputError(f"{folder}: has several duration files ({names}); say which one")
        if files:
            return files[0]
    return None
