"""The file format of a feature store: `features.toml` (the manifest), and pairs of data and index files.

Every writer has its own pair of files, `shard-<random>.data` and `shard-<random>.index`; no file has two writers. The
bytes of a video are written and synced to the data file before its record is appended to the index. A killed writer
therefore leaves bytes without a record, which are ignored, or a torn last record, which its checksum reveals. File
names never contain video ids.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.errors import InputError
from densevid.io import toml_text, write_text
from densevid.tracks import FeatureRecipe, Streams

FORMAT, VERSION = "densevid-features", 1
MANIFEST = "features.toml"
DTYPES = ("float16", "float32", "float64")
LONGEST_ID = 232  # bytes of UTF-8

# edges: 0 for a uniform clock; from bit ABSENT_SHIFT on, a bit for each stream that the video does not have
# duration: NaN if unknown; written: nanoseconds, the newest record of a video is valid
RECORD = np.dtype(
    [
        ("video", f"S{LONGEST_ID}"),
        ("offset", "<i8"),
        ("steps", "<i8"),
        ("edges", "<i8"),
        ("seconds_per_step", "<f8"),
        ("duration", "<f8"),
        ("written", "<i8"),
        ("payload_crc", "<u8"),
        ("seal", "<u8"),
    ]
)
ABSENT_SHIFT = 32
MOST_ABSENT = 31  # streams, from the first on, that have such a bit
WORDS = RECORD.itemsize // 8
# One odd multiplier per 8-byte word of a record, and a salt, for its checksum (see `_seals`).
MULTIPLIERS = (np.arange(1, WORDS, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)
SALT = np.uint64(0x64656E7365766964)
Records = npt.NDArray[np.void]


@dataclass(frozen=True)
class Manifest:
    """What all videos of a store share.

    Attributes:
        streams: Names and widths of the streams.
        dtype: Precision of the features.
        recipe: How they were made, None if unknown.

    Raises:
        InputError: The dtype or the streams are invalid.
    """

    streams: Streams
    dtype: str
    recipe: FeatureRecipe | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InputError(f"features can be stored as {', '.join(DTYPES)}, not {self.dtype!r}")
        names = [name for name, _ in self.streams]
        if not names or len(set(names)) != len(names) or not all(0 < width < 1 << 24 for _, width in self.streams):
            raise InputError(f"a store needs named streams with positive widths, each name once, got {self.streams}")

    @property
    def width(self) -> int:
        """Total width of the streams."""
        return sum(width for _, width in self.streams)

    @property
    def row_bytes(self) -> int:
        """Bytes of one step."""
        return self.width * np.dtype(self.dtype).itemsize

    def payload_bytes(self, records: Any) -> Any:
        """Size of the payload of records: the edges of the clock, then the features."""
        return edges_of(records) * 8 + records["steps"] * self.row_bytes

    def absent_bits(self, absent: Collection[str]) -> int:
        """Absent streams as the upper bits of `edges`.

        Raises:
            InputError: A stream is too far behind to have a bit.
        """
        bits = [number for number, (name, _) in enumerate(self.streams) if name in absent]
        if bits and bits[-1] >= MOST_ABSENT:
            raise InputError(f"only the first {MOST_ABSENT} streams of a store can be absent, not {', '.join(absent)}")
        return sum(1 << bit for bit in bits) << ABSENT_SHIFT

    def absent_of(self, record: Any) -> tuple[str, ...]:
        """The streams that a video does not have, from its record."""
        bits = int(record["edges"]) >> ABSENT_SHIFT
        return tuple(name for number, (name, _) in enumerate(self.streams) if bits >> number & 1)

    def write(self, folder: Path, provenance: Mapping[str, Any] | None) -> None:
        """Write `features.toml`, which makes a folder a store."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "dtype": self.dtype,
            "streams": [name for name, _ in self.streams],
            "widths": [width for _, width in self.streams],
            "recipe": self.recipe.table if self.recipe else None,
            "provenance": provenance,
        }
        write_text(folder / MANIFEST, toml_text(content))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read `features.toml`.

        Raises:
            InputError: The folder is not a store, or its manifest is invalid or of another version.
        """
        path = folder / MANIFEST
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{folder}: not a feature store, it has no {MANIFEST}") from None
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a readable TOML file ({error})") from error
        if content.get("format") != FORMAT:
            raise InputError(f'{path}: not a feature store, it has no line format = "{FORMAT}"')
        if content.get("version") != VERSION:
            found = content.get("version")
            raise InputError(f"{path}: store format {found!r}, this densevid reads {VERSION}; another version wrote it")
        try:
            streams = tuple(
                (str(name), int(width)) for name, width in zip(content["streams"], content["widths"], strict=True)
            )
            return cls(streams, content["dtype"], FeatureRecipe(content["recipe"]) if "recipe" in content else None)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}: {error}") from error


def edges_of(records: Any) -> Any:
    """How many edges the clocks of records have."""
    return records["edges"] & ((1 << ABSENT_SHIFT) - 1)


def sealed_record(**values: Any) -> bytes:
    """The bytes of one record with its checksum."""
    record = np.zeros(1, RECORD)
    for name, value in values.items():
        record[name] = value
    record["seal"] = _seals(record)
    return record.tobytes()


def read_records(index: Path) -> tuple[Records, int]:
    """Read an index file.

    Returns:
        The valid records, and the number of damaged ones; a torn last record is not counted.
    """
    content = index.read_bytes()
    count = len(content) // RECORD.itemsize
    if not count:
        return np.empty(0, RECORD), 0
    records: Records = np.frombuffer(content, RECORD, count)
    good = _seals(records) == records["seal"]
    return records[good], count - int(good.sum())


def _seals(records: Records) -> npt.NDArray[np.uint64]:
    """Checksums of records: salt + sum of word x multiplier, modulo 2^64, for all records at once.

    As multipliers are odd, a change of a single word always changes the checksum; the salt makes that of a record of
    zeros differ from zero.
    """
    words = records.view("<u8").reshape(len(records), WORDS)[:, :-1]
    return np.asarray((words * MULTIPLIERS).sum(axis=1, dtype=np.uint64) + SALT)
