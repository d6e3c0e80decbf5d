"""What every long job shares to say how far it is: a bar of rich's where a person watches, stages, time in words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

Stage = Literal["files", "decode", "features", "events", "sentences"]
Watch = Callable[[Stage, float], None]  # told of a stage of a video's way and the share of it that is done, 0 to 1


def unwatched(stage: Stage, done: float) -> None:
    """A watch for when nobody does."""


def open_bar(*columns: str, transient: bool = False) -> Any | None:
    """A bar on stderr with text columns after it; None where nobody watches or rich is not installed."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
    except ModuleNotFoundError:
        return None
    texts = (TextColumn(column, markup=False) for column in columns)
    return Progress(BarColumn(24), *texts, console=Console(stderr=True), transient=transient)


def duration(seconds: float) -> str:
    """Seconds as `1 h 02 min`, `3 min 20 s` or `8 s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
