"""EventRequest: which events of a video are wanted. The summary, at most N of it, all events, or given spans.

Spans are read from annotations, from lines of text, or from the files that an earlier run wrote, so that its captions
can be edited and made again. A line that cannot be read as a span is an error: a span that is misread in silence would
get the sentence of another.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

from densevid.errors import ArgumentError, InputError
from densevid.events import read_events
from densevid.io import read_json

Span = tuple[float, float]
Row = tuple[int, str, Span | None]  # number and text of a line, and its span if it can be read

MOST_NAMED = 5  # spans in a line of warning
SLACK = 0.5  # seconds that a given span may end after its video: times are rounded, and lengths differ by program
SUBTITLES = {".srt", ".vtt"}
ARROW = "-->"
TIME = r"(?:\d+:){0,2}\d+(?:\.\d*)?"
LINE = re.compile(rf"\s*({TIME})(?:\s*[,;]\s*|\s*[-–—]+>?\s*|\s+)({TIME})(?P<rest>[\s,;].*)?\s*")
ONE_MORE = re.compile(rf"[\s,;]+{TIME}(?:[\s,;]|$)")


@dataclass(frozen=True)
class EventRequest:
    """The events that are wanted of a video; by default those of the summary.

    Attributes:
        top: A summary of at most so many events, whatever their confidence.
        dense: Every event that is proposed, overlapping ones too.
        segments: Given spans in seconds, to be captioned as they are.
        all_words: The full guess of every event, however unsure the model is of it.
    """

    top: int | None = None
    dense: bool = False
    segments: tuple[Span, ...] | None = None
    all_words: bool = False

    def __post_init__(self) -> None:
        if self.top is not None and self.dense:
            raise ArgumentError("{top} and {dense} exclude each other; give one of them")
        if self.segments is not None and (self.top is not None or self.dense):
            raise ArgumentError("{segments} fixes what to caption, so nothing is selected; leave out {top} and {dense}")

    @classmethod
    def of(cls, top: int | None, dense: bool, segments: Iterable[Span] | None, all_words: bool = False) -> EventRequest:
        """A request from arguments of any numeric types.

        Raises:
            ArgumentError: The arguments exclude each other, or one has no possible meaning.
        """
        count = None if top is None else _count(top)
        return cls(count, bool(dense), None if segments is None else _spans(segments), bool(all_words))

    @property
    def text(self) -> str:
        """In a word or two, for the files that are written."""
        return f"{self._events_text}, all words" if self.all_words else self._events_text

    @property
    def _events_text(self) -> str:
        if self.segments is not None:
            return "given segments"
        return "dense" if self.dense else f"top {self.top}" if self.top else "summary"

    @property
    def is_summary(self) -> bool:
        """Whether the events are the default summary, which may be empty."""
        return self.top is None and not self.dense and self.segments is None

    @property
    def has_confidence(self) -> bool:
        """Whether the events have a confidence: given spans have none."""
        return self.segments is None

    def within(self, duration: float) -> tuple[EventRequest, tuple[Span, ...], int]:
        """The request for a video of `duration` seconds, the spans beyond its end, and how many spans were cut at it.

        Raises:
            InputError: All spans begin after the end.
        """
        given = self.segments or ()
        beyond = tuple(span for span in given if span[0] >= duration)
        inside = tuple(span for span in given if span[0] < duration)
        if beyond and not inside:
            raise InputError(beyond_text(beyond, duration))
        cut = tuple((start, duration if end > duration + SLACK else end) for start, end in inside)
        fitted = self if cut == given else replace(self, segments=cut)
        return fitted, beyond, sum(before != after for before, after in zip(inside, cut, strict=True))


def _count(top: Any) -> int:
    """A number of events, of any integer type."""
    try:
        number = index(top)
    except TypeError:
        raise ArgumentError(f"{{top}} must be a whole number, got {top!r:.40}") from None
    if number < 1 or isinstance(top, bool):
        raise ArgumentError(f"{{top}} must be at least 1, got {top}")
    return number


def _spans(segments: Any) -> tuple[Span, ...]:
    try:
        return tuple(map(_span, segments))
    except TypeError:
        raise ArgumentError(f"{{segments}} must be a list of pairs, got {segments!r:.60}") from None


def _span(segment: Any) -> Span:
    """A given span in seconds: a pair of numbers of any type."""
    try:
        start, end = map(float, segment)
    except (TypeError, ValueError):
        raise ArgumentError(f"{{segments}} holds pairs of start and end in seconds, got {segment!r:.60}") from None
    if not 0 <= start < end < float("inf"):
        raise ArgumentError(f"{{segments}} must satisfy 0 <= start < end, got {start:g}, {end:g}")
    return start, end


def beyond_text(spans: Sequence[Span], duration: float) -> str:
    """One line that names spans after the end of a video."""
    named = ", ".join(f"{start:g}-{end:g}" for start, end in spans[:MOST_NAMED])
    more = ", ..." if len(spans) > MOST_NAMED else ""
    return f"it ends at {duration:.1f} s, before these given segments: {named}{more} s"


def read_spans(path: Path, videos: list[str]) -> dict[str, list[Span]]:
    """Spans by video: from an annotation or event file, or for a single video from lines, subtitles or a table.

    Raises:
        InputError: The file cannot be read, or a line of it is no span.
    """
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
    """The spans of an annotation or event file; only those of `videos` are checked."""
    content = read_json(path)
    if isinstance(content, dict) and "results" in content:
        events = read_events(path)
        if len(events) == len(videos) == 1:  # the file of this video, though it may have been given a title
            events = dict(zip(videos, events.values(), strict=True))
        return {video: [(event.start, event.end) for event in found] for video, found in events.items()}
    from densevid.data.annotations import read_annotation_file

    entries = (entry for entry in read_annotation_file(path, sentences=False) if entry.video in videos)
    return {
        entry.video: [
            _checked(f"{path}: {entry.video}: event {number}", f"{span[0]:g} {span[1]:g}", span)
            for number, span in enumerate(entry.segments)
        ]
        for entry in entries
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
    """The names of the columns in the first line of a table."""
    names = next(csv.reader([header], delimiter=_mark(header), skipinitialspace=True), [])
    return [name.strip().lower() for name in names]


def _mark(header: str) -> str:
    """The separator of columns."""
    return ";" if ";" in header else ","


def _of_lines(lines: Iterable[tuple[int, str]]) -> Iterator[Row]:
    """Every line that is neither empty nor a comment."""
    for number, line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line, _of_cue(line) if ARROW in line else _of_line(line)


def _of_table(text: str) -> Iterator[Row]:
    """Columns `start` and `end`, as `--format csv` writes them and a spreadsheet may have saved them."""
    header = text.partition("\n")[0]
    first, second = (_columns(header).index(name) for name in ("start", "end"))
    rows = csv.reader(io.StringIO(text), delimiter=_mark(header), skipinitialspace=True)
    next(rows)
    for row in rows:
        if any(row):
            start, end = (_seconds(row[place]) if place < len(row) else None for place in (first, second))
            yield rows.line_num, ", ".join(row), None if start is None or end is None else (start, end)


def _of_line(line: str) -> Span | None:
    """`start end` and any text behind, but no further number: that would be a decimal comma."""
    found = LINE.fullmatch(line)
    if not found or ONE_MORE.match(found["rest"] or ""):
        return None
    start, end = _seconds(found[1]), _seconds(found[2])
    return None if start is None or end is None else (start, end)


def _of_cue(line: str) -> Span | None:
    """`start --> end` of subtitles, with or without settings behind."""
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
