"""METEOR's paraphrase table: which phrases match which, found by the hash of a phrase's text.

The installed table is 62 MB of compressed text with 5.3 million rows. It is read once (seconds) into sorted arrays of
64-bit hashes and kept in the cache folder as one memory-mapped file, which opens in milliseconds. Rows keep their
number, because METEOR's search resolves ties by the order of the file.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from densevid.errors import InputError
from densevid.evaluation.meteor.resources import PARAPHRASES, package_file
from densevid.io import atomic_path, cache_folder

Hashes = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

LONGEST_PHRASE = 7  # words; no row has more
_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2**64
_BLOCK = 1 << 18  # fits a core's own cache with its sums
_FILTER_BITS = 26
_FORMAT = 1


def span_hashes(text: npt.NDArray[np.uint8], starts: Indices, ends: Indices) -> Hashes:
    """The hash of every span text[start:end], from running sums: the sum of (byte + 1) * multiplier ** place."""
    powers, inverses = _powers(1 << max(10, int(text.size).bit_length()))
    sums = np.zeros(text.size + 1, np.uint64)
    terms = text.astype(np.uint64)
    terms += np.uint64(1)
    terms *= powers[: text.size]
    np.cumsum(terms, out=sums[1:])
    return (sums[ends] - sums[starts]) * inverses[starts]


@cache
def _powers(count: int) -> tuple[Hashes, Hashes]:
    def of(base: int) -> Hashes:
        factors = np.full(count, base, np.uint64)
        factors[0] = 1
        return np.multiply.accumulate(factors)

    return of(_MULTIPLIER), of(pow(_MULTIPLIER, -1, 1 << 64))


@dataclass(frozen=True)
class ParaphraseTable:
    """Rows in file order, grouped by source phrase; sources sorted by hash."""

    source: Hashes
    first_row: Hashes  # where each source's rows begin
    row_count: Hashes
    target: Hashes  # of every row
    filter: Hashes  # a bit for each phrase of either side: most phrases of a text are in neither

    def known(self, phrases: Hashes) -> npt.NDArray[np.bool_]:
        """Whether each phrase may be in the table (never wrongly no, seldom wrongly yes)."""
        place = phrases >> np.uint64(64 - _FILTER_BITS)
        bit: Hashes = self.filter[place >> np.uint64(6)] >> (place & np.uint64(63)) & np.uint64(1)
        return bit.astype(bool)

    def rows_between(self, phrases: Hashes) -> tuple[Indices, Indices, Indices]:
        """All rows whose source and target are both among these sorted phrases: (source, target, row number)."""
        if not phrases.size:
            return (np.zeros(0, np.int64),) * 3
        place = np.minimum(np.searchsorted(self.source, phrases), self.source.size - 1)
        found = np.flatnonzero(self.source[place] == phrases)
        counts = self.row_count[place[found]].astype(np.int64)
        first = self.first_row[place[found]].astype(np.int64)
        before = np.cumsum(counts) - counts
        rows = np.arange(counts.sum()) + np.repeat(first - before, counts)
        target = self.target[rows]
        match = np.minimum(np.searchsorted(phrases, target), phrases.size - 1)
        hit = phrases[match] == target
        return np.repeat(found, counts)[hit], match[hit], rows[hit]


@cache
def paraphrase_table() -> ParaphraseTable:
    """The table, loaded once a process: from the cache folder, else built from the package and cached if possible."""
    installed = package_file(PARAPHRASES)
    path = cache_folder() / f"paraphrases-{_checksum(installed):08x}-v{_FORMAT}.npy"
    with suppress(OSError, ValueError, EOFError):  # absent, or damaged: then it is made again
        return _unpack(np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)))
    packed = _pack(_read(installed))
    with suppress(InputError, OSError), atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, packed, allow_pickle=False)
    return _unpack(packed)


def _checksum(path: Path) -> int:
    """The checksum at the end of a gzip file: it distinguishes tables without reading them."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        crc, _ = struct.unpack("<II", file.read(8))
    return int(crc)


def _blocks(path: Path) -> Iterator[npt.NDArray[np.uint8]]:
    """The text of the table in pieces that end with a whole row (three lines: probability, source, target)."""
    rest = b""
    with gzip.open(path, "rb") as file:
        while piece := file.read(_BLOCK):
            text = np.frombuffer(rest + piece, np.uint8)
            line_ends = np.flatnonzero(text == ord("\n"))
            whole = line_ends[line_ends.size // 3 * 3 - 1] + 1 if line_ends.size >= 3 else 0
            if whole:
                yield text[:whole]
            rest = text[whole:].tobytes()
    if rest.strip():
        raise InputError(f"{path}: ends within a row; install the package again")


def _read(path: Path) -> tuple[Hashes, Hashes]:
    """The hashes of the source and of the target of every row, in file order."""
    rows = []
    try:
        for text in _blocks(path):
            line_ends = np.flatnonzero(text == ord("\n"))
            starts = np.append(0, line_ends[:-1] + 1)
            phrases = np.arange(line_ends.size) % 3 != 0
            rows.append(span_hashes(text, starts[phrases], line_ends[phrases]).reshape(-1, 2))
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    sources, targets = np.concatenate(rows).T
    return np.ascontiguousarray(sources), np.ascontiguousarray(targets)


def _pack(rows: tuple[Hashes, Hashes]) -> Hashes:
    """One array: three sizes, then the parts of a `ParaphraseTable` one after another."""
    sources, target = rows
    first = np.flatnonzero(np.append(True, sources[1:] != sources[:-1]))
    count = np.diff(np.append(first, sources.size))
    order = np.argsort(sources[first])
    bits = np.zeros(1 << _FILTER_BITS, np.uint8)
    for phrases in rows:
        bits[phrases >> np.uint64(64 - _FILTER_BITS)] = 1
    packed_bits = np.packbits(bits, bitorder="little").view("<u8")
    sizes = [first.size, target.size, packed_bits.size]
    parts = [sizes, sources[first][order], first[order], count[order], target, packed_bits]
    return np.concatenate([np.asarray(part, np.uint64) for part in parts])


def _unpack(packed: Hashes) -> ParaphraseTable:
    if packed.dtype != np.uint64 or packed.ndim != 1 or packed.size < 3:
        raise ValueError("not a table of this format")
    sources, rows, words = map(int, packed[:3])
    ends = np.cumsum([3, sources, sources, sources, rows, words])
    if packed.size != ends[-1]:
        raise ValueError("not a table of this format")
    return ParaphraseTable(*(packed[start:end] for start, end in pairwise(ends)))
