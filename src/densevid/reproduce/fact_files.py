"""The small files by which one step tells the next what it did, read with a look at whether they say what they must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from densevid.artifacts import read_json
from densevid.errors import InputError

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


def _wrong(content: Any, kinds: dict[str, Kind]) -> str | None:
    if not isinstance(content, dict):
        return f"expected an object, got {type(content).__name__}"
    missing = [key for key, kind in kinds.items() if not isinstance(content.get(key), kind)]
    return f"it does not say {', '.join(missing)} as it should" if missing else None
