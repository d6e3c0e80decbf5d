"""StoreWriter: appends videos to a feature store; any number of writers work at once, independently of each other."""

from __future__ import annotations

import os
import threading
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.data.store.format import LONGEST_ID, Manifest, sealed_record
from densevid.errors import InputError
from densevid.io import to_disk
from densevid.tracks import FeatureTrack

ALIGNMENT = 64


class StoreWriter:
    """Appends videos to its own pair of shard files; use `FeatureStore.writer()` in a `with` block.

    Args:
        folder: The store.
        manifest: What the store holds.
        commit_every: Sync to disk and commit after this many videos; more is faster for many small ones. A video that
            is not committed is lost if the process is killed.
    """

    def __init__(self, folder: Path, manifest: Manifest, *, commit_every: int = 1) -> None:
        self.folder, self.manifest, self.commit_every = folder, manifest, commit_every
        self._files: tuple[FileIO, FileIO] | None = None
        self._process = os.getpid()
        self._pending: list[bytes] = []
        self._lock = threading.Lock()

    def add(self, video: str, track: FeatureTrack) -> None:
        """Append one video; features that are already stored under its id are replaced.

        Raises:
            InputError: The id is invalid, or the track has other streams, another recipe, NaN, or values that the
                store's precision cannot represent.
        """
        name = _checked_id(video)
        values = self._checked_values(video, track)
        edges = np.empty(0) if track.clock.edges is None else track.clock.edges
        arrays = (np.ascontiguousarray(array) for array in (edges.astype("<f8"), values) if array.size)
        payload = [array.data.cast("B") for array in arrays]
        with self._lock, self._shard() as (data, _):
            end = data.seek(0, os.SEEK_END)
            offset = -(-end // ALIGNMENT) * ALIGNMENT
            for part in (memoryview(bytes(offset - end)), *payload):
                _write(data, part)
            record = sealed_record(
                video=name,
                offset=offset,
                steps=len(values),
                edges=len(edges) | self.manifest.absent_bits(track.absent),
                seconds_per_step=track.clock.seconds_per_step,
                duration=np.nan if track.duration is None else track.duration,
                written=time.time_ns(),
                payload_crc=reduce(lambda crc, part: zlib.crc32(part, crc), payload, 0),
            )
            self._pending.append(record)
            if len(self._pending) >= self.commit_every:
                self._commit()

    def close(self) -> None:
        """Commit and close the files; a later `add` starts a new pair."""
        with self._lock:
            if self._files:
                with self._shard():
                    self._commit()
                self._drop_files()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _checked_values(self, video: str, track: FeatureTrack) -> npt.NDArray[np.generic]:
        """The features in the precision of the store, checked."""
        if track.streams != self.manifest.streams:
            raise InputError(f"{video}: has streams {track.streams}, store {self.folder} has {self.manifest.streams}")
        recipe = self.manifest.recipe.id if self.manifest.recipe else None
        if track.recipe not in (None, recipe):
            raise InputError(f"{video}: made with recipe {track.recipe}, store {self.folder} holds {recipe}")
        if not _all_finite(track.values):
            raise InputError(f"{video}: its features hold NaN or infinity")
        dtype = np.dtype(self.manifest.dtype).newbyteorder("<")
        with np.errstate(over="ignore"):
            values = track.values.astype(dtype, copy=False)
        if not _all_finite(values):
            largest = float(np.abs(track.values).max())
            raise InputError(f"{video}: its value {largest:g} is too large for {dtype.name}; store it as float32")
        return values

    def _commit(self) -> None:
        """Sync the data file, then write and sync the records."""
        assert self._files is not None
        data, index = self._files
        to_disk(Path(data.name))
        _write(index, b"".join(self._pending))
        to_disk(Path(index.name))
        self._pending.clear()

    @contextmanager
    def _shard(self) -> Iterator[tuple[FileIO, FileIO]]:
        """This process's pair of files, created on first use; a pair that failed (disk full) is not used again."""
        if self._files is None or self._process != os.getpid():
            stem = self.folder / f"shard-{uuid.uuid4().hex}"
            self._files = FileIO(f"{stem}.data", "x"), FileIO(f"{stem}.index", "x")
            self._process = os.getpid()
            self._pending = []
            to_disk(self.folder)
        try:
            yield self._files
        except BaseException:
            self._drop_files()
            raise

    def _drop_files(self) -> None:
        for file in self._files or ():
            file.close()
        self._files = None
        self._pending = []


def _checked_id(video: str) -> bytes:
    try:
        name = video.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{video!a}: not a usable video id, it is not Unicode text") from None
    if not name or b"\0" in name or len(name) > LONGEST_ID:
        raise InputError(f"{video[:40]!r}: a video id has 1 to {LONGEST_ID} bytes, none of them zero, not {len(name)}")
    return name


def _all_finite(values: npt.NDArray[Any]) -> bool:
    """Whether all values are finite, by their extremes: NaN propagates, and no mask as large as the track is needed."""
    return bool(np.isfinite([values.min(), values.max()]).all())


def _write(file: FileIO, content: bytes | memoryview) -> None:
    """Write all bytes; a single call may write fewer."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
