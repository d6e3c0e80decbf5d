"""Events as text files: WebVTT and SRT subtitles, chapters, a CSV table, and ActivityNet's submission form.

Subtitles and chapters have "scene 2" where the captioner abstains; the table and the submission, which are for
programs, have the empty sentence and what there is besides.

A sentence may hold anything (its words come from a file), so nothing in it can become a tag, a cue or a new line.
Chapters follow each other: of events that begin together the longest is taken, and each ends where the next begins.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from densevid.events import SENTENCE_FIELDS, Event
from densevid.export.shown_sentences import as_shown, has_two_confidences, printable

SHORTEST = 1  # milliseconds: a cue must not end when it begins
SRT_LOOKALIKES = str.maketrans({"<": "‹", ">": "›", "{": "(", "}": ")"})  # SRT has no way to escape its tags


def webvtt(events: Sequence[Event], *, note: str = "") -> str:
    """A WebVTT file; `note` is a comment in it."""
    header = ["WEBVTT", *([f"NOTE {printable(note).replace('-->', '→')}"] if note else [])]
    cues = [
        f"{number}\n{_clock(begin, '.')} --> {_clock(end, '.')}\n{_vtt_text(event.sentence)}"
        for number, (begin, end, event) in enumerate(_cues(events), start=1)
    ]
    return "\n\n".join([*header, *cues]) + "\n"


def srt(events: Sequence[Event]) -> str:
    """A SubRip file."""
    cues = [
        f"{number}\n{_clock(begin, ',')} --> {_clock(end, ',')}\n{_srt_text(event.sentence)}\n"
        for number, (begin, end, event) in enumerate(_cues(events), start=1)
    ]
    return "\n".join(cues)


def _cues(events: Sequence[Event]) -> list[tuple[int, int, Event]]:
    """Events as they are shown, by time, in whole milliseconds."""
    shown = as_shown(events)
    times = [(round(event.start * 1000), round(event.end * 1000)) for event in shown]
    return [(begin, max(end, begin + SHORTEST), event) for (begin, end), event in zip(times, shown, strict=True)]


def _clock(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


def _srt_text(sentence: str) -> str:
    return printable(sentence).translate(SRT_LOOKALIKES)


def _vtt_text(sentence: str) -> str:
    return printable(sentence).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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


def _following(events: Sequence[Event]) -> list[Event]:
    """One event per beginning, in the order of time."""
    longest = as_shown(events)
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


# As ActivityNet requires; the page saves the same.
EXTERNAL_DATA = {"used": True, "details": "the image network of the features was trained on ImageNet"}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would calculate


def submission(
    events: Mapping[str, Sequence[Event]],
    *,
    details: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    """ActivityNet's form; `details` has one entry per video (file, duration, how its events were chosen, ...)."""
    return {
        "version": "VERSION 1.0",
        "results": {video: rows_of(shown) for video, shown in events.items()},
        "external_data": dict(EXTERNAL_DATA),
        "details": dict(details),
        "provenance": dict(provenance),
    }


def rows_of(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The entries of an event file; all have the same keys where the model has a confidence for sentences."""
    if not has_two_confidences(events):
        return [event.as_row() for event in events]
    return [event.as_row() | _sentence_columns(event) for event in events]


def _sentence_columns(event: Event) -> dict[str, Any]:
    """What is known of a sentence besides its words; `sentence_model` is None where it is not known."""
    return {
        "sentence_score": event.sentence_score,
        "full_sentence": event.sentence if event.full_sentence is None else event.full_sentence,
        "shortened": event.shortened,
        "sentence_model": event.sentence_model,
    }


def table(events: Sequence[Event], *, with_confidence: bool = True) -> str:
    """A CSV file: start and end in seconds, confidence (empty for given spans), sentence.

    Where the model has a confidence for sentences, `SENTENCE_FIELDS` follow.
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\r\n")
    more = SENTENCE_FIELDS if has_two_confidences(events) else ()
    rows.writerow(["start", "end", "confidence", "sentence", *more])
    for event in events:
        confidence = f"{event.score:.4f}" if with_confidence else ""
        first = [f"{event.start:.3f}", f"{event.end:.3f}", confidence, _cell(event.sentence)]
        rows.writerow([*first, *(_cell_of(_sentence_columns(event)[name]) for name in more)])
    return text.getvalue()


def _cell_of(value: Any) -> str:
    """A field of an event in a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else _cell(str(value))


def _cell(sentence: str) -> str:
    return f"'{sentence}" if sentence.startswith(FORMULA_STARTS) else sentence
