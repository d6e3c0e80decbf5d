"""Spans that somebody wants captioned: from an annotation file, or from lines of text."""

from __future__ import annotations

import re
from pathlib import Path

from densevid.artifacts import read_json
from densevid.captioning.chosen_events import Span
from densevid.errors import InputError


def read_spans(path: Path, videos: list[str]) -> dict[str, list[Span]]:
    """Spans by video: from an annotation file, or for a single video from lines of `start end` (seconds or m:ss)."""
    if path.suffix.lower() == ".json":
        from densevid.inference.predict import read_segments

        read_json(path)  # so that what is wrong with the file is said first
        return read_segments(path, lambda line: None)
    if len(videos) != 1:
        raise InputError(f"{path}: lines of start and end are for one video, here are {len(videos)}; use a .json file")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise InputError(f"{path}: not a readable list of segments ({reason})") from error
    spans = [_span(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not spans:
        raise InputError(f"{path}: holds no segments; write start and end, one pair a line")
    return {videos[0]: spans}


def _span(path: Path, number: int, line: str) -> Span:
    words = re.split(r"[\s,;]+|-+>?", line.strip())
    times = [_seconds(word) for word in words if word][:2]
    if len(times) < 2 or None in times or not times[0] < times[1] < float("inf"):  # type: ignore[operator]
        raise InputError(f"{path}: line {number}: expected a start and a later end, got {line.strip()!r:.60}")
    return times[0], times[1]  # type: ignore[return-value]


def _seconds(word: str) -> float | None:
    """`75`, `75.5`, `1:15` or `0:01:15` in seconds."""
    if not re.fullmatch(r"(\d+:){0,2}\d+(\.\d*)?", word):
        return None
    total = 0.0
    for part in word.split(":"):
        total = total * 60 + float(part)
    return total
