"""Events become subtitles: WebVTT and SRT, in the order of time, as players read them.

A sentence may hold anything (its words come from a file), so nothing in it can become a tag, a cue or a new line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from densevid.events import Event

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


def printable(text: str) -> str:
    """One line without anything that a terminal, a player or a parser would act upon."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _cues(events: Iterable[Event]) -> list[tuple[int, int, Event]]:
    """Events with a sentence, by time, in whole milliseconds."""
    told = sorted((event for event in events if printable(event.sentence)), key=lambda event: event.place)
    times = [(round(event.start * 1000), round(event.end * 1000)) for event in told]
    return [(begin, max(end, begin + SHORTEST), event) for (begin, end), event in zip(times, told, strict=True)]


def _clock(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


def _srt_text(sentence: str) -> str:
    return printable(sentence).translate(SRT_LOOKALIKES)


def _vtt_text(sentence: str) -> str:
    return printable(sentence).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
