"""Small JSON files by which one step informs the next, checked as they are read."""

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
    """Read an object that has certain keys.

    Args:
        path: The file.
        remedy: What to do about a wrong file, for the message.
        kinds: The type of each key's value.

    Raises:
        InputError: It is no such object.
    """
    content = read_json(path)
    if wrong := _wrong(content, kinds):
        raise InputError(f"{path}: {wrong}" + (f"; {remedy}" if remedy else ""))
    return dict(content)


def known_facts(path: Path, **kinds: Kind) -> dict[str, Any] | None:
    """Read such an object; None where the file is missing or another, so that its step is done again."""
    if not path.exists():
        return None
    content = read_json(path)
    return None if _wrong(content, kinds) else dict(content)


def made_of(facts: dict[str, Any], files: Iterable[Path]) -> bool:
    """Whether something was made of these very files: its `provenance` has a hash of each."""
    block = facts.get("provenance")
    noted = block.get("inputs") if isinstance(block, dict) else None
    return isinstance(noted, dict) and sorted(map(str, noted.values())) == sorted(_hash_now(file) for file in files)


def _hash_now(file: Path) -> str:
    status = file.stat()
    return _hash(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _hash(file: Path, size: int, changed: int) -> str:
    """The hash of a file in this state; cached, since every number of a table needs it."""
    return fingerprint(file)


def _wrong(content: Any, kinds: dict[str, Kind]) -> str | None:
    if not isinstance(content, dict):
        return f"expected an object, got {type(content).__name__}"
    missing = [key for key, kind in kinds.items() if not isinstance(content.get(key), kind)]
    return f"{', '.join(missing)} missing or of a wrong type" if missing else None
