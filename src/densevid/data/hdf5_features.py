"""Features in one HDF5 file: a dataset per video, or a group per video with a dataset per stream.

The streams of a group stand side by side in the release's order (resnet, bn), others after them by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from densevid.data.array_features import ArrayFeatures, NamedArrays
from densevid.data.npy_features import RELEASED_STREAMS
from densevid.data.step_clocks import StepClocks
from densevid.errors import InputError, one_line

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
