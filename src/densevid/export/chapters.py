"""Events become chapters: ffmpeg's metadata file, and the lines that YouTube reads in a description.

Chapters follow each other, so of events that begin together the longest stands for all, and each ends where the next
begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from densevid.events import Event
from densevid.export.subtitles import printable

YOUTUBE_SHORTEST = 10.0  # seconds; YouTube ignores all chapters if one is shorter, or if there are fewer than three
OPENING = "Opening"  # YouTube wants a chapter at 0:00


def ffmpeg_metadata(events: Sequence[Event], *, title: str = "") -> str:
    """For `ffmpeg -i video -i FILE -map_metadata 1 -codec copy out.mkv`."""
    lines = [";FFMETADATA1", *([f"title={_escaped(title)}"] if title else [])]
    chapters = _following(events)
    for event, after in zip_longest(chapters, chapters[1:]):
        end = min(event.end, after.start) if after else event.end
        lines += ["[CHAPTER]", "TIMEBASE=1/1000", f"START={round(event.start * 1000)}"]
        lines += [f"END={max(round(end * 1000), round(event.start * 1000) + 1)}", f"title={_escaped(event.sentence)}"]
    return "\n".join(lines) + "\n"


def youtube_chapters(events: Sequence[Event], duration: float) -> str:
    """Lines for a description: the first at 0:00, and events too close to it, another or the end left out.

    A first event within YouTube's shortest chapter begins at 0:00, a later one has an opening before it. Where no event
    is left there is no line.
    """
    rows = [(event.start, _title(event.sentence)) for event in _following(events)]
    if rows and rows[0][0] < YOUTUBE_SHORTEST:
        rows[0] = (0.0, rows[0][1])
    elif rows:
        rows.insert(0, (0.0, OPENING))
    rows, hours = _spaced(rows, duration), duration >= 3600
    if rows == [(0.0, OPENING)]:
        return ""
    return "".join(f"{clock(start, hours=hours)} {title}\n" for start, title in rows)


def clock(seconds: float, *, hours: bool = False) -> str:
    """A time as people write it: 1:05, or 0:01:05 where hours are wanted."""
    whole = int(seconds)
    if hours or whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def _following(events: Iterable[Event]) -> list[Event]:
    """One event per beginning, in the order of time."""
    longest = sorted((event for event in events if printable(event.sentence)), key=lambda event: event.place)
    return [event for n, event in enumerate(longest) if n == 0 or event.start - longest[n - 1].start >= 0.001]


def _spaced(rows: Sequence[tuple[float, str]], duration: float) -> list[tuple[float, str]]:
    """The first, and what begins long enough after the one before and before the end."""
    kept = list(rows[:1])
    for start, title in rows[1:]:
        if kept[-1][0] + YOUTUBE_SHORTEST <= start <= duration - YOUTUBE_SHORTEST:
            kept.append((start, title))
    return kept


def _title(sentence: str) -> str:
    text = printable(sentence).replace("<", "‹").replace(">", "›")  # YouTube refuses angle brackets in a description
    return text[:1].upper() + text[1:]


def _escaped(text: str) -> str:
    return re.sub(r"([=;#\\])", r"\\\1", printable(text))
