"""A video with its events, ready to be written; and the part of it that is kept in the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from densevid.events import Event
from densevid.export.document import TimedMask
from densevid.pipeline.selection import ChosenEvents, Origin, Span
from densevid.video.inputs import VIDEO_SUFFIXES


@dataclass(frozen=True)
class VideoCaptions:
    """A video with its events; `file` is None where features were captioned, `warning` what could not be read.

    `name` is its id, the key of an event file, `title` what people call it.
    `masks` are the event masks, one an event (None where there are too many), or nothing; `origins` say where in the
    model the events were found. `content` is the hash of the file, `model_key` that of the model and of the program.
    `judged` is False where spans were given: no confidence stands behind the scores of their events. `left_out` are
    those beyond the end of the video.
    """

    name: str
    title: str
    file: Path | None
    duration: float
    events: tuple[Event, ...]
    masks: tuple[TimedMask | None, ...]
    chosen: str
    model: str
    model_key: str
    warning: str | None = None
    content: str | None = None
    judged: bool = True
    left_out: tuple[Span, ...] = ()
    origins: tuple[Origin, ...] = ()

    def called(self, title: str) -> VideoCaptions:
        """The same under another title, and the id that a file of that name has."""
        title = shown_name(title).strip() or self.title
        ending = PurePath(title).suffix
        name = title.removesuffix(ending) if ending.lower() in VIDEO_SUFFIXES else title
        return replace(self, name=name, title=title)


@dataclass(frozen=True)
class FoundEvents:
    """What the cache keeps of a captioned file."""

    duration: float
    warning: str | None
    chosen: ChosenEvents
    left_out: tuple[Span, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """Those that were chosen."""
        return self.chosen.events

    @classmethod
    def of(cls, plain: dict[str, Any] | None) -> FoundEvents | None:
        """Back from plain values; None if they are not what was kept."""
        try:
            if plain is None:
                return None
            chosen = ChosenEvents.of_plain(plain["events"], plain["masks"], plain["origins"])
            left_out = tuple((float(start), float(end)) for start, end in plain["left_out"])
            return cls(float(plain["duration"]), plain["warning"], chosen, left_out)
        except (KeyError, TypeError, ValueError):
            return None

    def as_plain(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        plain = self.chosen.as_plain()
        return {"duration": self.duration, "warning": self.warning, "left_out": self.left_out, **plain}


def shown_name(name: str) -> str:
    """A file's name as text that can be written anywhere: bytes that are no letters become question marks."""
    return name.encode("utf-8", "replace").decode("utf-8")
