"""FeatureStore: a folder of features that any number of processes can read and write at once.

Opening a store reads its manifest and index (a few hundred bytes per video, see `store.format`); the features of a
video are memory-mapped when they are used.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.data.sources import FeatureSource, unknown_video
from densevid.data.store.format import MANIFEST, RECORD, Manifest, Records, edges_of, read_records
from densevid.data.store.writer import StoreWriter
from densevid.errors import InputError
from densevid.tracks import Clock, Extent, FeatureRecipe, FeatureTrack, Streams
from densevid.video.reduction import FILE as REDUCTION
from densevid.video.reduction import Reduction

Bytes = npt.NDArray[np.uint8]


class FeatureStore:
    """The tracks of many videos in one folder: a FeatureSource that can also be written.

    Raises:
        InputError: The folder is not a store.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.manifest = Manifest.read(self.path)
        self._writer = StoreWriter(self.path, self.manifest)
        self.refresh()

    @classmethod
    def open(cls, path: Path | str) -> FeatureStore:
        """Open a store to read it or to add to it.

        Raises:
            InputError: The folder is not a store.
        """
        return cls(path)

    @classmethod
    def create(
        cls,
        path: Path | str,
        streams: Iterable[tuple[str, int]],
        *,
        dtype: str = "float16",
        recipe: FeatureRecipe | None = None,
        provenance: Mapping[str, Any] | None = None,
        resume: bool = False,
    ) -> FeatureStore:
        """Create a store, or open an existing one to continue it.

        Args:
            path: The folder; new, empty, or a store if `resume`.
            streams: Name and width of each stream.
            dtype: Precision of the features: float16, float32 or float64.
            recipe: How the features are made, None if unknown.
            provenance: Information for the manifest.
            resume: Open the store if it is there already.

        Returns:
            The store.

        Raises:
            InputError: The folder holds something else, or a store of other streams, precision or recipe.
        """
        folder, wanted = Path(path), Manifest(tuple(streams), dtype, recipe)
        if (folder / MANIFEST).exists():
            if not resume:
                raise InputError(f"{folder}: there is a feature store already; resume it or choose another folder")
            _require_same(folder, Manifest.read(folder), wanted)
        elif folder.exists() and not _is_free(folder):
            raise InputError(f"{folder}: exists and is not a feature store; choose another folder")
        else:
            wanted.write(folder, provenance)
        return cls(folder)

    def refresh(self) -> None:
        """Read the index again, to see videos committed since the store was opened."""
        found = list(self._readable_records())
        self._data_files = [data for data, _ in found]
        self._maps: dict[int, Bytes] = {}
        shard = [np.full(len(records), number) for number, (_, records) in enumerate(found)]
        self._records = np.concatenate([np.empty(0, RECORD), *(records for _, records in found)])
        self._shard = np.concatenate([np.empty(0, np.int64), *shard])
        oldest_first = np.argsort(self._records["written"], kind="stable")
        names = [name.decode("utf-8", "replace") for name in self._records["video"][oldest_first].tolist()]
        self._row: dict[str, int] = dict(zip(names, oldest_first.tolist(), strict=True))

    @property
    def streams(self) -> Streams:
        """Name and width of each stream."""
        return self.manifest.streams

    @property
    def recipe(self) -> FeatureRecipe | None:
        """How the features were made."""
        return self.manifest.recipe

    @property
    def reduction(self) -> Reduction | None:
        """The PCA that reduced the features, if any; a model trained on them keeps a copy."""
        has_one = self.recipe is not None and "reduction" in self.recipe.table and (self.path / REDUCTION).is_file()
        return Reduction.load(self.path) if has_one else None

    def videos(self) -> list[str]:
        """All ids, sorted."""
        return sorted(self._row)

    def __contains__(self, video: object) -> bool:
        return video in self._row

    def __len__(self) -> int:
        return len(self._row)

    def __str__(self) -> str:
        return str(self.path)

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration of one video."""
        row = self._row_of(video)
        record = self._records[row]
        duration = float(record["duration"])
        return Extent(int(record["steps"]), self._clock(row), None if np.isnan(duration) else duration)

    def track(self, video: str) -> FeatureTrack:
        """The features of one video, a read-only view of the memory-mapped file."""
        extent, row = self.extent(video), self._row_of(video)
        values = self._payload(row)[int(edges_of(self._records[row])) * 8 :].view(self.manifest.dtype)
        values = values.reshape(extent.steps, -1)
        recipe = self.recipe.id if self.recipe else None
        return FeatureTrack(values, extent.clock, self.streams, recipe, extent.duration, self.absent(video))

    def absent(self, video: str) -> tuple[str, ...]:
        """Names of the streams that a video does not have; their features are zeros."""
        return self.manifest.absent_of(self._records[self._row_of(video)])

    def writer(self, *, commit_every: int = 1) -> StoreWriter:
        """A new writer; its videos are visible after `refresh`. See `StoreWriter` for `commit_every`."""
        return StoreWriter(self.path, self.manifest, commit_every=commit_every)

    def add(self, video: str, track: FeatureTrack) -> None:
        """Write one video through a writer of this process; safe for a store object shared with workers."""
        self._writer.add(video, track)

    def verify(self) -> list[str]:
        """Read all features and compare checksums.

        Returns:
            One line per problem, none if the store is intact.
        """
        self.refresh()
        problems = []
        for index in self._index_files():
            records, damaged = read_records(index)
            missing = len(records) - int(self._within_data(index, records).sum())
            if damaged:
                problems.append(f"{index.name}: {damaged} records are damaged and are not used")
            if missing:
                problems.append(f"{index.name}: {missing} records point beyond their data file and are not used")
        for video, row in sorted(self._row.items()):
            if zlib.crc32(self._payload(row).data) != self._records[row]["payload_crc"]:
                problems.append(f"{video}: its features in {self._data_files[self._shard[row]].name} are damaged")
        return problems

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureStore, (self.path,)  # pickled by path: a worker opens the store itself

    def _index_files(self) -> list[Path]:
        return sorted(self.path.glob("shard-*.index"))

    def _readable_records(self) -> Iterator[tuple[Path, Records]]:
        """Each shard's data file, and its records that point inside it."""
        for index in self._index_files():
            records, _ = read_records(index)
            yield index.with_suffix(".data"), records[self._within_data(index, records)]

    def _within_data(self, index: Path, records: Records) -> npt.NDArray[np.bool_]:
        """Which records point inside the data file and have a valid clock."""
        data = index.with_suffix(".data")
        size = data.stat().st_size if data.exists() else 0
        steps, edges, offset = records["steps"], edges_of(records), records["offset"]
        sane = (steps > 0) & (steps < 1 << 31) & ((edges == 0) | (edges == steps + 1)) & (offset >= 0)
        return np.asarray(sane & (offset <= size - self.manifest.payload_bytes(records)))

    def _row_of(self, video: str) -> int:
        row = self._row.get(video)
        if row is None:
            raise unknown_video(video, self.path, self.videos())
        return row

    def _payload(self, row: int) -> Bytes:
        shard, record = int(self._shard[row]), self._records[row]
        if shard not in self._maps:
            self._maps[shard] = np.asarray(np.memmap(self._data_files[shard], np.uint8, mode="r"))
        offset = int(record["offset"])
        return self._maps[shard][offset : offset + int(self.manifest.payload_bytes(record))]

    def _clock(self, row: int) -> Clock:
        record = self._records[row]
        edges = int(edges_of(record))
        if not edges:
            return Clock.uniform(float(record["seconds_per_step"]))
        return Clock.from_edges(self._payload(row)[: edges * 8].view("<f8"))


def copy_features(source: FeatureSource, store: FeatureStore, videos: Iterable[str] | None = None) -> int:
    """Copy tracks of any source into a store, in the store's precision; videos it already has are skipped.

    This converts other layouts to a store, changes the precision, or packs the shards of many writers into one.

    Args:
        source: Where to read.
        store: Where to write.
        videos: Which videos; all by default.

    Returns:
        Number of videos copied.
    """
    missing = [video for video in (source.videos() if videos is None else videos) if video not in store]
    with store.writer(commit_every=64) as writer:
        for video in missing:
            writer.add(video, source.track(video))
    store.refresh()
    return len(missing)


def _is_free(folder: Path) -> bool:
    """Whether a store can be created here; an unfinished temporary manifest is no obstacle."""
    return folder.is_dir() and all(file.name.startswith(f".{MANIFEST}") for file in folder.iterdir())


def _require_same(folder: Path, found: Manifest, wanted: Manifest) -> None:
    """Refuse to mix features of different streams, precision or recipe in one store."""
    if (found.streams, found.dtype) != (wanted.streams, wanted.dtype):
        raise InputError(
            f"{folder}: holds {found.dtype} {found.streams}, not {wanted.dtype} {wanted.streams}; choose another folder"
        )
    ids = [manifest.recipe.id if manifest.recipe else None for manifest in (found, wanted)]
    if ids[0] != ids[1]:
        raise InputError(f"{folder}: holds features of recipe {ids[0]}, not {ids[1]}; choose another folder")
