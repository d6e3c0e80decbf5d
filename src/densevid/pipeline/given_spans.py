"""Spans that somebody wants captioned: from annotations, from lines of text, or from the files that a run wrote.

So what was captioned can be edited and captioned again. What is no span is refused: a line that is misread in silence
would be a sentence about something else.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from densevid.errors import InputError
from densevid.events import read_events
from densevid.io import read_json
from densevid.pipeline.selection import Span

SUBTITLES = {".srt", ".vtt"}
ARROW = "-->"
TIME = r"(?:\d+:){0,2}\d+(?:\.\d*)?"
LINE = re.compile(rf"\s*({TIME})(?:\s*[,;]\s*|\s*[-–—]+>?\s*|\s+)({TIME})(?P<rest>[\s,;].*)?\s*")
ONE_MORE = re.compile(rf"[\s,;]+{TIME}(?:[\s,;]|$)")

Row = tuple[int, str, Span | None]  # number and text of a line, and what it says if it can be read


def read_spans(path: Path, videos: list[str]) -> dict[str, list[Span]]:
    """Spans by video: from an annotation or event file, or for a single video from lines, subtitles or a table."""
    if path.suffix.lower() == ".json":
        return _of_json(path, videos)
    if len(videos) != 1:
        raise InputError(f"{path}: lines of start and end are for one video, here are {len(videos)}; use a .json file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise InputError(f"{path}: not a readable list of segments ({reason})") from error
    spans = [_checked(f"{path}: line {number}", line, span) for number, line, span in _rows(path, text)]
    if not spans:
        raise InputError(f"{path}: holds no segments; write start and end, one pair a line")
    return {videos[0]: spans}


def _of_json(path: Path, videos: list[str]) -> dict[str, list[Span]]:
    """Those of an annotation file, or of events that were found before; only what is asked for must be right."""
    content = read_json(path)
    if isinstance(content, dict) and "results" in content:
        events = read_events(path)
        if len(events) == len(videos) == 1:  # the file of this video, though it may have been given a title
            events = dict(zip(videos, events.values(), strict=True))
        return {video: [(event.start, event.end) for event in found] for video, found in events.items()}
    from densevid.data.annotations import read_annotation_file

    asked = (entry for entry in read_annotation_file(path, sentences=False) if entry.video in videos)
    return {
        entry.video: [
            _checked(f"{path}: {entry.video}: event {number}", f"{span[0]:g} {span[1]:g}", span)
            for number, span in enumerate(entry.segments)
        ]
        for entry in asked
    }


def _checked(where: str, text: str, span: Span | None) -> Span:
    if span is None or not 0 <= span[0] < span[1] < float("inf"):
        raise InputError(f"{where}: expected a start and a later end, got {text.strip()!r:.60}")
    return span


def _rows(path: Path, text: str) -> Iterator[Row]:
    lines = list(enumerate(text.splitlines(), start=1))
    if path.suffix.lower() in SUBTITLES:
        return ((number, line, _of_cue(line)) for number, line in lines if ARROW in line)
    if path.suffix.lower() == ".csv" and {"start", "end"} <= set(_columns(text.partition("\n")[0])):
        return _of_table(text)
    return _of_lines(lines)


def _columns(header: str) -> list[str]:
    """What the first line of a table calls its columns."""
    names = next(csv.reader([header], delimiter=_mark(header), skipinitialspace=True), [])
    return [name.strip().lower() for name in names]


def _mark(header: str) -> str:
    """What stands between columns."""
    return ";" if ";" in header else ","


def _of_lines(lines: Iterable[tuple[int, str]]) -> Iterator[Row]:
    """Every line that is neither empty nor a comment."""
    for number, line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line, _of_cue(line) if ARROW in line else _of_line(line)


def _of_table(text: str) -> Iterator[Row]:
    """Columns `start` and `end`, as our own table has them and a spreadsheet may have saved them."""
    header = text.partition("\n")[0]
    first, second = (_columns(header).index(name) for name in ("start", "end"))
    rows = csv.reader(io.StringIO(text), delimiter=_mark(header), skipinitialspace=True)
    next(rows)
    for row in rows:
        if any(row):
            start, end = (_seconds(row[place]) if place < len(row) else None for place in (first, second))
            yield rows.line_num, ", ".join(row), None if start is None or end is None else (start, end)


def _of_line(line: str) -> Span | None:
    """`start end` and whatever follows, as long as it is no further number: with a decimal comma it would be one."""
    found = LINE.fullmatch(line)
    if not found or ONE_MORE.match(found["rest"] or ""):
        return None
    start, end = _seconds(found[1]), _seconds(found[2])
    return None if start is None or end is None else (start, end)


def _of_cue(line: str) -> Span | None:
    """`start --> end`, as subtitles have it: there may be settings behind."""
    before, _, after = line.partition(ARROW)
    start, end = _seconds(before), _seconds(after.split()[0] if after.split() else "")
    return None if start is None or end is None else (start, end)


def _seconds(text: str) -> float | None:
    """`75`, `75.5`, `1:15`, `0:01:15` or `00:01:15,500` in seconds."""
    text = text.strip().replace(",", ".")
    if not re.fullmatch(TIME, text):
        return None
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total
