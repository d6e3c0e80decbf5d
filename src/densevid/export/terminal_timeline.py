"""Events as lines for a terminal: time, a bar that shows where in the video, the confidence and the sentence."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from densevid.events import Event
from densevid.export.chapters import clock
from densevid.export.subtitles import printable

NARROWEST, WIDEST = 60, 120
BAR = 24
PARTS_UNICODE = (" ", "·", "▒", "█")  # of a cell that an event covers: none, a touch, a part, all
PARTS_ASCII = (" ", ".", "-", "#")
NOTHING = "nothing in it that the model is confident about"


@dataclass(frozen=True)
class Look:
    """What the terminal can show."""

    width: int = 80
    parts: tuple[str, ...] = PARTS_UNICODE
    dash: str = "–"
    edges: tuple[str, str] = ("│", "│")

    @classmethod
    def of_stdout(cls) -> Look:
        """As wide as the terminal within reason; ASCII alone where it cannot do better."""
        width = min(WIDEST, max(NARROWEST, shutil.get_terminal_size((100, 24)).columns))
        try:
            "█▒·–│".encode(sys.stdout.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return cls(width, PARTS_ASCII, "-", ("|", "|"))
        return cls(width)


def terminal_timeline(events: Sequence[Event], duration: float, look: Look | None = None) -> str:
    """One line per event, longer sentences wrapped under themselves."""
    look = look or Look()
    if not events:
        return f"  {NOTHING}"
    hours = duration >= 3600
    times = [f"{clock(e.start, hours=hours)}{look.dash}{clock(e.end, hours=hours)}" for e in events]
    widest = max(map(len, times))
    lines: list[str] = []
    for event, time in zip(events, times, strict=True):
        front = f"  {time:>{widest}} {look.edges[0]}{_bar(event, duration, look)}{look.edges[1]} {event.score:4.0%}  "
        wrapped = textwrap.wrap(_shown(event.sentence), max(20, look.width - len(front))) or [""]
        lines += [front + wrapped[0], *(" " * len(front) + more for more in wrapped[1:])]
    return "\n".join(lines)


def _bar(event: Event, duration: float, look: Look) -> str:
    """Where the event lies: each cell shows how much of its stretch of the video the event covers."""
    cell = max(duration, event.end) / BAR
    cover = [max(0.0, min(event.end, (n + 1) * cell) - max(event.start, n * cell)) / cell for n in range(BAR)]
    return "".join(look.parts[0 if part == 0 else 1 if part < 0.25 else 2 if part < 0.75 else 3] for part in cover)


def _shown(sentence: str) -> str:
    text = printable(sentence)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        text = text.encode("ascii", "replace").decode()
    return text
