"""TimelineDocument: what a timeline page holds, as data. `pipeline/outputs.py` makes it, `timeline_page` shows it.

It depends on neither a model nor a browser, so that a page can show predictions, references, or both.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from densevid.errors import InputError
from densevid.events import Event
from densevid.export.shown_sentences import printable, shown_sentences

REFERENCE, PREDICTED = "Reference", "Predicted"
NO_SENTENCE = "(no sentence)"  # of a reference; a predicted event is called "scene 2" then

PIXELS_OF_A_FIGURE = 2  # for each of a page, for sharp screens

# What browsers play. The ending alone decides: a page links a file, it does not look into it.
MEDIA_TYPES = {
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/mp4",
    ".webm": "video/webm",
    ".mkv": "video/webm",
    ".ogv": "video/ogg",
    ".ogg": "video/ogg",
}


@dataclass(frozen=True, slots=True)
class TimedMask:
    """An event mask over the steps of the window from `start` to `end`, in seconds."""

    start: float
    end: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """An event as the page shows it.

    `confidence` is None for given spans. `mask` is the event mask (None: none is
    shown), `thumbnail` a JPEG, `group` the name of the lanes it lies in; without one, references stand under
    "Reference" and all others under "Predicted".
    """

    event: Event
    confidence: float | None = 1.0
    mask: TimedMask | None = None
    thumbnail: bytes | None = None
    reference: bool = False
    group: str = ""

    def __post_init__(self) -> None:
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise InputError(f"the confidence of an event must be between 0 and 1, got {self.confidence}")

    @property
    def percent(self) -> int | None:
        """The confidence as it is shown wherever it is; None where there is none, as of references."""
        return None if self.reference or self.confidence is None else round(100 * self.confidence)

    @property
    def heading(self) -> str:
        """Name of the lanes this event lies in."""
        return self.group or (REFERENCE if self.reference else PREDICTED)


@dataclass(frozen=True, slots=True)
class ShownVideo:
    """The video of a page: a relative `address`, or its `content` inside the page; `name` is how people call it.

    `plays` is False where it is known that some browsers cannot show it.
    """

    name: str
    media_type: str = ""
    address: str = ""
    content: bytes = b""
    plays: bool = True

    @classmethod
    def linked(cls, video: Path | str, page: Path | str) -> ShownVideo:
        """A link from the page to the video by relative path: both can be moved together."""
        video = Path(video)
        relative = os.path.relpath(video.resolve(), Path(page).resolve().parent)
        address = "./" + quote(
            os.fsencode(Path(relative).as_posix())
        )  # the dot keeps "a:b.mp4" from reading as a scheme
        return cls(video.name, media_type_of(video), address=address)

    @classmethod
    def embedded(cls, video: Path | str) -> ShownVideo:
        """The whole file inside the page: one file to send, a third larger than the video."""
        video = Path(video)
        try:
            return cls(video.name, media_type_of(video), content=video.read_bytes())
        except OSError as error:
            raise InputError(f"{video}: cannot be read ({error.strerror})") from error


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture that looks inside the model; `description` is read out to those who cannot see it.

    `name` is what its file is called. Its background is white and it has no other large areas of light, so that a page
    in the dark can invert it.
    """

    title: str
    description: str
    png: bytes
    name: str = "figure"

    @property
    def width(self) -> int:
        """In pixels of a page, at the size it was drawn for."""
        return round(int.from_bytes(self.png[16:20]) / PIXELS_OF_A_FIGURE)

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, object], dict[str, object]]:
        """As a notebook shows it: the picture in its size, or where there are no pictures what it is."""
        content = {"image/png": base64.b64encode(self.png).decode(), "text/plain": f"{self.title} {self.description}"}
        return dict(content), {"image/png": {"width": self.width}}


@dataclass(frozen=True, slots=True)
class TimelineDocument:
    """One video and its events; `video_id` is its key in an event file (without one: the title).

    `warning` is what a reader must know before trusting the timeline, as that a part of the video was unreadable.
    `watchable`: there is a video somewhere, be it on the reader's disk; not of timelines composed of features.
    """

    title: str
    duration: float
    events: tuple[ShownEvent, ...] = ()
    video: ShownVideo | None = None
    model: str = ""
    provenance: str = ""
    figures: tuple[Figure, ...] = ()
    video_id: str = ""
    warning: str = ""
    watchable: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.duration < math.inf:
            raise InputError(f"{self.title}: the duration of a video must be positive, got {self.duration}")

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is shown for the sentence of each event; events without one are numbered within their group."""
        shown = [
            each.event.sentence if printable(each.event.sentence) else NO_SENTENCE if each.reference else ""
            for each in self.events
        ]
        for heading in {each.heading for each in self.events if not each.reference}:
            group = [n for n, each in enumerate(self.events) if each.heading == heading and not each.reference]
            for place, sentence in zip(group, shown_sentences([self.events[n].event for n in group]), strict=True):
                shown[place] = sentence
        return tuple(shown)

    @property
    def clock_digits(self) -> int:
        """In a video of less than a minute, tenths of a second are shown."""
        return 1 if self.seconds < 60 else 0

    @property
    def seconds(self) -> float:
        """How far the timeline reaches: to the end of the video, or of an event that was annotated beyond it."""
        return max([self.duration, *(shown.event.end for shown in self.events)])


def media_type_of(path: Path | str) -> str:
    """The media type that a file's ending promises; "" where no browser is known to play it."""
    return MEDIA_TYPES.get(Path(path).suffix.lower(), "")


def references(events: Iterable[Event]) -> tuple[ShownEvent, ...]:
    """Annotated events, to be shown above the predicted ones."""
    return tuple(ShownEvent(event, reference=True) for event in events)
