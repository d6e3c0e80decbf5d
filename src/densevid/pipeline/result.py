"""CaptionResult: the one record of a captioned video, from the network to the files, the cache and a notebook."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, overload

from densevid.events import Event
from densevid.export.document import TimedMask
from densevid.export.shown_sentences import confidences_text, shown_sentences
from densevid.export.subtitles import clock, submission
from densevid.io import provenance
from densevid.pipeline.request import EventRequest, Span
from densevid.video.inputs import VIDEO_SUFFIXES

if TYPE_CHECKING:
    from densevid.inference.explain import Explanation

FORMAT = 3  # of what the cache keeps; other formats are ignored
ROWS_SHOWN = 30  # of a notebook's table


@dataclass(frozen=True, slots=True)
class Detection:
    """How the model found one event.

    Attributes:
        window: The first step of the window that the event was proposed in; 0 in a video of one window.
        anchor: The number of its anchor in that window; `WHOLE_VIDEO` (-1) if none proposed it, `GIVEN` (-2) for a
            given span.
        proposal_score: The score of the proposal, 0 to 1; None for a given span.
        confidence: The calibrated probability that the event is right; None without a calibration and for a given span.
        mask: The event mask that the sentence was generated under; None for a given span and beyond `MOST_MASKS`.
        sentence_score: The confidence in the full sentence; None if the model has none.
    """

    window: int
    anchor: int
    proposal_score: float | None = None
    confidence: float | None = None
    mask: TimedMask | None = None
    sentence_score: float | None = None

    def as_plain(self) -> list[Any]:
        """Values that JSON can hold."""
        mask = self.mask and [self.mask.start, self.mask.end, self.mask.values]
        return [self.window, self.anchor, self.proposal_score, self.confidence, mask, self.sentence_score]

    @classmethod
    def of_plain(cls, plain: Any) -> Detection:
        """Back from `as_plain`."""
        window, anchor, score, confidence, mask, sentence = plain
        timed = mask and TimedMask(float(mask[0]), float(mask[1]), tuple(map(float, mask[2])))
        return cls(int(window), int(anchor), _number(score), _number(confidence), timed or None, _number(sentence))


@dataclass(frozen=True, repr=False, eq=False)
class CaptionResult(Sequence[Event]):
    """A captioned video: a sequence of its events in the order of time, with everything that is known of them.

    It can be used wherever a list of events can, and equals a list of the same events.

    Attributes:
        video: The id of the video, its key in an event file.
        title: What people call it.
        path: The video file; None where features were captioned.
        duration: In seconds.
        events: The events; given spans in the order they were given in.
        detections: How the model found each event.
        request: Which events were requested.
        model: The name of the model.
        model_key: A hash of the model's files and of the program.
        content: A hash of the video file.
        warnings: What to know before trusting the events, one line each.
        incomplete: Whether a part of the video could not be read.
        left_out: Given spans beyond the end of the video.
        timings: Seconds that each stage took; empty where the cache had the events.
        explanation: Masks and attention of some events, if requested.
    """

    video: str
    title: str
    path: Path | None
    duration: float
    events: tuple[Event, ...]
    detections: tuple[Detection, ...]
    request: EventRequest = field(default_factory=EventRequest)
    model: str = ""
    model_key: str = ""
    content: str | None = None
    warnings: tuple[str, ...] = ()
    incomplete: bool = False
    left_out: tuple[Span, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    explanation: Explanation | None = None

    def __len__(self) -> int:
        return len(self.events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return list(self.events[index]) if isinstance(index, slice) else self.events[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __eq__(self, other: object) -> bool:
        return self.events == tuple(other) if isinstance(other, CaptionResult | list | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.events)

    def __repr__(self) -> str:
        count = f"{len(self)} event{'' if len(self) == 1 else 's'}"
        return f"<CaptionResult {self.title}: {count} in {self.duration:.1f} s, {self.request.text}, {self.model}>"

    @property
    def warning(self) -> str | None:
        """All warnings on one line."""
        return "; ".join(self.warnings) or None

    @property
    def best(self) -> Event | None:
        """The event of highest score."""
        return max(self.events, key=lambda event: event.score, default=None)

    def with_all_words(self) -> CaptionResult:
        """The same with the full sentence of every event, however unsure the model is of it."""
        pairs = zip(self.events, self.detections, strict=True)
        return replace(self, events=tuple(_in_full(event, detection) for event, detection in pairs))

    def renamed(self, title: str) -> CaptionResult:
        """The same under another title, and the id that a file of that name has."""
        title = shown_name(title).strip() or self.title
        ending = PurePath(title).suffix
        video = title.removesuffix(ending) if ending.lower() in VIDEO_SUFFIXES else title
        return replace(self, video=video, title=title)

    def details(self) -> dict[str, Any]:
        """The entry of the video under "details" in an event file."""
        return {
            "title": self.title,
            "file": shown_name(self.path.name) if self.path else None,
            "duration": self.duration,
            "chosen": self.request.text,
            "model": self.model,
            "warning": self.warning,
        }

    def submission(self) -> dict[str, Any]:
        """ActivityNet's submission form, with details and provenance: the content of NAME.densevid.json."""
        video = shown_name(self.video)
        block = {**provenance(), "inputs": {"video": self.content, "model": self.model_key}}
        return submission({video: self.events}, details={video: self.details()}, provenance=block)

    def to_json(self, indent: int | None = None) -> str:
        """`submission` as text."""
        return json.dumps(self.submission(), ensure_ascii=False, indent=indent)

    def as_plain(self) -> dict[str, Any]:
        """What the cache keeps: everything that follows from the content of the video, the model and the request."""
        return {
            "format": FORMAT,
            "duration": self.duration,
            "warnings": self.warnings,
            "incomplete": self.incomplete,
            "left_out": self.left_out,
            "events": [tuple(getattr(event, each.name) for each in fields(Event)) for event in self.events],
            "detections": [detection.as_plain() for detection in self.detections],
        }

    @staticmethod
    def fields_of_plain(plain: Any) -> dict[str, Any] | None:
        """The fields that `as_plain` keeps; None for anything else, as for what an earlier version kept."""
        try:
            if plain["format"] != FORMAT or len(plain["events"]) != len(plain["detections"]):
                return None
            return {
                "duration": float(plain["duration"]),
                "warnings": tuple(map(str, plain["warnings"])),
                "incomplete": bool(plain["incomplete"]),
                "left_out": tuple((float(start), float(end)) for start, end in plain["left_out"]),
                "events": tuple(Event(*row) for row in plain["events"]),
                "detections": tuple(map(Detection.of_plain, plain["detections"])),
            }
        except (KeyError, IndexError, TypeError, ValueError):
            return None

    def _repr_html_(self) -> str:
        """A table with a timeline, as a notebook shows it; everything is escaped, and there is no script."""
        pairs = zip(self.events, shown_sentences(self.events), strict=True)
        rows = [self._row(event, sentence) for event, sentence in islice(pairs, ROWS_SHOWN)]
        more = len(self) - len(rows)
        notes = [
            *self.warnings,
            *([f"and {more} more events"] if more else []),
            *([] if self.events else ["no events"]),
        ]
        head = f"<caption>{escape(self.title)}, {clock(self.duration)}, {escape(self.request.text)}</caption>"
        lines = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return f'<table class="densevid">{head}<tbody>{"".join(rows)}</tbody></table>{lines}'

    def _row(self, event: Event, shown: str) -> str:
        left = 100 * min(event.start / self.duration, 1)
        width = max(1.0, 100 * min(event.end / self.duration, 1) - left)
        bar = (
            '<div style="width:12em;background:#8883"><div style="height:.7em;background:#2a78d6;'
            f'margin-left:{min(left, 99.0):.2f}%;width:{width:.2f}%"></div></div>'
        )
        span = round(100 * event.score) if self.request.has_confidence else None
        confidence = confidences_text(event, span) or ("" if span is None else f"{span}%")
        times = f"{clock(event.start)}–{clock(event.end)}"
        cells = (times, bar, confidence)
        sentence = f'<td style="text-align:left">{escape(shown)}</td>'
        return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}{sentence}</tr>"


def _in_full(event: Event, detection: Detection) -> Event:
    if detection.sentence_score is None:
        return event
    full = event.sentence if event.full_sentence is None else event.full_sentence
    return replace(event, sentence=full, sentence_score=detection.sentence_score, full_sentence=None, shortened=False)


def shown_name(name: str) -> str:
    """A file's name as text that can be written anywhere: bytes that are no letters become question marks."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
