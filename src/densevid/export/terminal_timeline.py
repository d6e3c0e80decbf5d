"""Events as lines for a terminal: time, a bar that shows where in the video, the confidences and the sentence.

On a screen the bars have the colours of the page; in a file or a pipe, or with NO_COLOR set, there is text alone.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from densevid.events import Event
from densevid.export.page_parts import clock_text
from densevid.export.shown_sentences import (
    abstains,
    guess,
    has_two_confidences,
    printable,
    sentence_percent,
    shown_sentences,
    whose_sentences,
)
from densevid.export.subtitles import clock

WIDEST = 120
WITH_BAR, FEWEST = 20, 10  # cells of a sentence on a line: with less there is no bar, and none is narrower
BAR = 24
PARTS_UNICODE = (" ", "·", "▒", "█")  # of a cell that an event covers: none, a touch, a part, all
PARTS_ASCII = (" ", ".", "-", "#")
COLOURS = (33, 35, 208, 170, 37, 142, 167, 99)  # of 256: the page's hues, readable on black and on white
SURE_OF = (" event", " sentence")  # headings of the two confidences, as wide as their columns
NOTHING = "nothing in it that the model is confident about"


@dataclass(frozen=True)
class Look:
    """What the terminal can show."""

    width: int = 80
    parts: tuple[str, ...] = PARTS_UNICODE
    dash: str = "–"
    edges: tuple[str, str] = ("│", "│")
    colours: tuple[int, ...] = ()
    encoding: str = "utf-8"

    @classmethod
    def of_stdout(cls) -> Look:
        """As wide as the terminal, within reason; ASCII alone where it cannot do better.

        Call it before a progress bar is shown, which replaces stdout by an object without an encoding.
        """
        width = min(WIDEST, shutil.get_terminal_size((100, 24)).columns)
        plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        colours = () if plain else COLOURS
        encoding = sys.stdout.encoding or "ascii"
        if not _can_say("█▒·–│", encoding):
            return cls(width, PARTS_ASCII, "-", ("|", "|"), colours, encoding)
        return cls(width, colours=colours, encoding=encoding)

    def painted(self, text: str, number: int) -> str:
        """Text in the colour of an event, if there are colours."""
        return f"\x1b[38;5;{self.colours[number % len(self.colours)]}m{text}\x1b[0m" if self.colours else text

    def muted(self, text: str) -> str:
        """Text that stands back."""
        return f"\x1b[2m{text}\x1b[0m" if self.colours else text

    def shown(self, sentence: str) -> str:
        """A sentence on one line, in letters that there are."""
        text = printable(sentence)
        return text if _can_say(text, self.encoding) else text.encode("ascii", "replace").decode()


def terminal_timeline(
    events: Sequence[Event], duration: float, look: Look | None = None, *, confidence: bool = True
) -> str:
    """One line per event, longer sentences wrapped under themselves; given spans have no `confidence`.

    Where sentences have a confidence of their own there are two columns under a heading, if they fit.
    """
    look = look or Look()
    if not events:
        return f"  {NOTHING}"
    times = [f"{_time(e.start, duration)}{look.dash}{_time(e.end, duration)}" for e in events]
    widest = max(map(len, times))
    heading, sure = _confidences(events, confidence=confidence)
    if heading and look.width - (2 + widest + len(sure[0]) + 2) < FEWEST:
        heading, sure = "", _event_confidences(events, confidence=confidence)
    indent = 2 + widest + len(sure[0]) + 2
    has_bar = look.width - indent - (BAR + 3) >= WITH_BAR
    indent += BAR + 3 if has_bar else 0
    until = max([duration, *(event.end for event in events)])
    lines = [look.muted(f"{heading:>{indent - 2}}")] if heading else []
    for number, (event, time, sentence) in enumerate(zip(events, times, shown_sentences(events), strict=True)):
        bar = f" {_framed(_bar(event, until, look), number, look)}" if has_bar else ""
        wrapped = _wrapped(look.shown(sentence), max(FEWEST, look.width - indent))
        lines.append(f"  {time:>{widest}}{bar}{look.muted(sure[number]) if sure[number] else ''}  {wrapped[0]}")
        lines += [" " * indent + more for more in wrapped[1:]]
    return "\n".join(lines)


def sentences_note(events: Sequence[Event], model: str = "") -> str:
    """One line on whose the sentences are, and the flag that shows those that are left out; "" for older models."""
    note = whose_sentences(events, model)
    if note and any(abstains(event) or guess(event) for event in events):
        return f"{note} --all-words shows every guess."
    return note


def _confidences(events: Sequence[Event], *, confidence: bool) -> tuple[str, list[str]]:
    """The columns of the confidences, all of one width, and a heading where there are two."""
    spans = _event_confidences(events, confidence=confidence)
    if not has_two_confidences(events):
        return "", spans
    event_heading, sentence_heading = SURE_OF
    sentences = ["" if sure is None else f"{sure}%" for sure in map(sentence_percent, events)]
    return (event_heading if confidence else "") + sentence_heading, [
        (f"{span:>{len(event_heading)}}" if confidence else "") + f"{sentence:>{len(sentence_heading)}}"
        for span, sentence in zip(spans, sentences, strict=True)
    ]


def _event_confidences(events: Sequence[Event], *, confidence: bool) -> list[str]:
    return [f" {event.score:4.0%}" if confidence else "" for event in events]


def _framed(bar: str, number: int, look: Look) -> str:
    """A bar in the colour of its event, between two edges."""
    return f"{look.muted(look.edges[0])}{look.painted(bar, number)}{look.muted(look.edges[1])}"


def _wrapped(sentence: str, width: int) -> list[str]:
    """Lines of so many cells, not letters: some take two."""
    from rich.cells import cell_len, chop_cells

    lines = [""]
    for part in (part for word in sentence.split() for part in chop_cells(word, width)):
        longer = f"{lines[-1]} {part}".lstrip()
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _time(seconds: float, duration: float) -> str:
    """As on the page: in less than a minute, tenths are shown."""
    return clock_text(seconds, 1) if duration < 60 else clock(seconds, hours=duration >= 3600)


def _bar(event: Event, until: float, look: Look) -> str:
    """Where the event lies: each cell shows how much of its stretch of the time `until` then the event covers."""
    cell = until / BAR
    cover = [max(0.0, min(event.end, (n + 1) * cell) - max(event.start, n * cell)) / cell for n in range(BAR)]
    return "".join(look.parts[0 if part == 0 else 1 if part < 0.25 else 2 if part < 0.75 else 3] for part in cover)


def _can_say(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
