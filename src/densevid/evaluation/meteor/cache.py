"""METEOR's statistics kept on disk between runs, keyed by version, options and pair.

The cache is optional: a folder that cannot be written, or a damaged or busy file, costs a warning and the time to
compute again, never a wrong number. Each row carries a checksum of its own.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import numpy as np

from densevid.evaluation.meteor.statistics import STATISTICS, Pair, Statistics
from densevid.io import cache_folder

KEYS_A_QUERY = 500
ROW_BYTES = 4 * STATISTICS
Result = TypeVar("Result")


class StatisticsCache:
    """A table from pair to statistics; several processes may use it at once."""

    def __init__(self, identity: str, folder: Path | None = None) -> None:
        self._identity = identity.encode()
        self.path = (folder or cache_folder()) / "meteor.sqlite"
        self._usable = True

    def read(self, pairs: Sequence[Pair]) -> dict[Pair, Statistics]:
        """The pairs that are known, with their statistics."""
        if not self.path.exists():
            return {}
        keys = {self._key(pair): pair for pair in pairs}
        nothing: list[tuple[bytes, bytes]] = []
        rows = self._guarded(lambda database: _select(database, list(keys)), nothing)
        found = ((keys[key], _unpack(key, value)) for key, value in rows if key in keys)
        return {pair: numbers for pair, numbers in found if numbers is not None}

    def write(self, pairs: Sequence[Pair], stats_N23: Statistics) -> None:
        """Keep these statistics."""
        packed = stats_N23.astype("<i4")
        if not np.array_equal(packed, stats_N23):
            return  # METEOR counts; anything but whole numbers is not ours to keep
        keys = [self._key(pair) for pair in pairs]
        rows = [(key, _pack(key, row.tobytes())) for key, row in zip(keys, packed, strict=True)]
        self._guarded(lambda database: _insert(database, rows), None)

    def _key(self, pair: Pair) -> bytes:
        text = "\0".join((pair[0], *pair[1])).encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=16, key=blake2b(self._identity, digest_size=32).digest()).digest()

    def _guarded(self, action: Callable[[sqlite3.Connection], Result], otherwise: Result) -> Result:
        if not self._usable:
            return otherwise
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=10)) as database, database:
                return action(database)
        except (sqlite3.OperationalError, OSError) as error:
            self._give_up(str(error))
        except sqlite3.DatabaseError as error:
            self._give_up(f"{error}; it is put aside as {self._put_aside()}")
        return otherwise

    def _give_up(self, reason: str) -> None:
        self._usable = False
        warnings.warn(f"the METEOR cache {self.path} is not used: {reason}", stacklevel=4)

    def _put_aside(self) -> str:
        aside = self.path.with_suffix(".damaged")
        try:
            self.path.replace(aside)
        except OSError:
            return str(self.path)
        return str(aside)


def _select(database: sqlite3.Connection, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
    _create(database)
    rows: list[tuple[bytes, bytes]] = []
    for first in range(0, len(keys), KEYS_A_QUERY):
        part = keys[first : first + KEYS_A_QUERY]
        marks = ",".join("?" * len(part))
        rows += database.execute(f"SELECT key, value FROM statistics WHERE key IN ({marks})", part)
    return rows


def _insert(database: sqlite3.Connection, rows: list[tuple[bytes, bytes]]) -> None:
    _create(database)
    database.executemany("INSERT OR REPLACE INTO statistics VALUES (?, ?)", sorted(rows))


def _create(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA synchronous = OFF")  # a lost cache is only computed again
    database.execute("CREATE TABLE IF NOT EXISTS statistics (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")


def _pack(key: bytes, numbers: bytes) -> bytes:
    return numbers + crc32(key + numbers).to_bytes(4, "little")


def _unpack(key: bytes, value: object) -> Statistics | None:
    if not isinstance(value, bytes) or len(value) != ROW_BYTES + 4:
        return None
    numbers, check = value[:ROW_BYTES], int.from_bytes(value[ROW_BYTES:], "little")
    return np.frombuffer(numbers, dtype="<i4").astype(np.float64) if crc32(key + numbers) == check else None
