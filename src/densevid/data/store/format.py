"""The files of a feature store: `features.toml`, which says what it holds, and the records of its index files.

Every writer has its own pair of files, `shard-<random>.data` and `shard-<random>.index`, and no file is ever written
by two. A video's bytes go to the data file and to the disk; only then is its record appended to the index. Whatever a
kill leaves behind is therefore either invisible (bytes without a record) or a torn record at the end, which the
seal of a record gives away. Names of files never come from video ids.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
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

# edges: 0 for a uniform clock; duration: NaN if unknown; written: nanoseconds, the newest record of a video counts
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
WORDS = RECORD.itemsize // 8
# One odd number per word of a record; together with the salt they make its seal (see `_seals`).
MULTIPLIERS = (np.arange(1, WORDS, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)
SALT = np.uint64(0x64656E7365766964)
Records = npt.NDArray[np.void]


@dataclass(frozen=True)
class Manifest:
    """What a store holds, for all its videos alike."""

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
        """Width of all streams together."""
        return sum(width for _, width in self.streams)

    @property
    def row_bytes(self) -> int:
        """Bytes of one step."""
        return self.width * np.dtype(self.dtype).itemsize

    def payload_bytes(self, records: Any) -> Any:
        """Bytes that records point at: the edges of the clock, then the features."""
        return records["edges"] * 8 + records["steps"] * self.row_bytes

    def write(self, folder: Path, provenance: Mapping[str, Any] | None) -> None:
        """Write `features.toml`, which makes the folder a store."""
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
        """Read `features.toml`; what is wrong with it becomes one line."""
        path = folder / MANIFEST
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{folder}: not a feature store, it has no {MANIFEST}") from None
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a readable TOML file ({error})") from error
        if content.get("format") != FORMAT:
            raise InputError(f'{path}: not a feature store, it does not say format = "{FORMAT}"')
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


def sealed_record(**values: Any) -> bytes:
    """One record with its seal."""
    record = np.zeros(1, RECORD)
    for name, value in values.items():
        record[name] = value
    record["seal"] = _seals(record)
    return record.tobytes()


def read_records(index: Path) -> tuple[Records, int]:
    """The good records of an index file, and how many whole ones are damaged; a torn last one does not count."""
    content = index.read_bytes()
    count = len(content) // RECORD.itemsize
    if not count:
        return np.empty(0, RECORD), 0
    records: Records = np.frombuffer(content, RECORD, count)
    good = _seals(records) == records["seal"]
    return records[good], count - int(good.sum())


def _seals(records: Records) -> npt.NDArray[np.uint64]:
    """A checksum of each record, for all of them at once: salt + sum of word x multiplier, modulo 2^64.

    A multiplier is odd, so a change within one word always shows; the salt keeps a record of zeros from passing.
    """
    words = records.view("<u8").reshape(len(records), WORDS)[:, :-1]
    return np.asarray((words * MULTIPLIERS).sum(axis=1, dtype=np.uint64) + SALT)
