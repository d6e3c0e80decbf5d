"""The names people give to the parts of a dataset: `train` and `training` are one split."""

from __future__ import annotations

_ALIASES = {"train": "training", "val": "validation", "valid": "validation", "test": "testing"}


def split_name(name: str) -> str:
    """One name for all spellings of a split."""
    name = name.strip().lower()
    return _ALIASES.get(name, name)
