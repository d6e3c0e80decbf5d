"""The small files by which one step tells the next what it did, read with a look at whether they say what they must."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from densevid.errors import InputError
from densevid.io import fingerprint, read_json

NUMBER = (int, float)
Kind = type | tuple[type, ...]


def read_facts(path: Path, remedy: str = "", /, **kinds: Kind) -> dict[str, Any]:
    """An object that has these keys, with values of these types; anything else is one line that names the file."""
    content = read_json(path)
    if wrong := _wrong(content, kinds):
        raise InputError(f"{path}: {wrong}" + (f"; {remedy}" if remedy else ""))
    return dict(content)


def known_facts(path: Path, **kinds: Kind) -> dict[str, Any] | None:
    """The same; None where the file is not there or says something else, so that what it tells of is done again."""
    if not path.exists():
        return None
    content = read_json(path)
    return None if _wrong(content, kinds) else dict(content)


def made_of(facts: dict[str, Any], files: Iterable[Path]) -> bool:
    """Whether what the facts tell of was made of these very files (their `provenance` has a hash of each)."""
    told = facts.get("provenance")
    noted = told.get("inputs") if isinstance(told, dict) else None
    return isinstance(noted, dict) and sorted(map(str, noted.values())) == sorted(_hash_now(file) for file in files)


def _hash_now(file: Path) -> str:
    status = file.stat()
    return _hash(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _hash(file: Path, size: int, changed: int) -> str:
    """Of a file in this state: every number of a table asks for it."""
    return fingerprint(file)


def _wrong(content: Any, kinds: dict[str, Kind]) -> str | None:
    if not isinstance(content, dict):
        return f"expected an object, got {type(content).__name__}"
    missing = [key for key, kind in kinds.items() if not isinstance(content.get(key), kind)]
    return f"it does not say {', '.join(missing)} as it should" if missing else None
