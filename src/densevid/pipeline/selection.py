"""Which events of a video a person gets: a story of it, one of at most N events, everything, or given spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from densevid.errors import ArgumentError, InputError
from densevid.events import Event
from densevid.export.document import TimedMask
from densevid.progress import ProgressCallback, no_progress

if TYPE_CHECKING:
    from densevid.checkpoint import LoadedModel
    from densevid.inference.captioner import Captioner
    from densevid.tracks import FeatureTrack

Span = tuple[float, float]
Origin = tuple[int, int]  # the first step of a window, and the number of an anchor in it; see `ProposalRef`
MOST_MASKS = 100  # a dense list has hundreds of events, and a page with the masks of all would be large
MOST_NAMED = 5  # spans in a line of warning
SLACK = 0.5  # seconds that a given span may end after its video: times are rounded, and lengths told differently


@dataclass(frozen=True)
class EventRequest:
    """What is asked for: nothing of it is the summary."""

    top: int | None = None
    dense: bool = False
    segments: tuple[Span, ...] | None = None

    def __post_init__(self) -> None:
        if self.top is not None and self.dense:
            raise ArgumentError("{top} and {dense} exclude each other; give one of them")
        if self.segments is not None and (self.top is not None or self.dense):
            raise ArgumentError(
                "{segments} says what to caption, nothing is left to choose; leave out {top} and {dense}"
            )

    @classmethod
    def of(cls, top: int | None, dense: bool, segments: Iterable[Span] | None) -> EventRequest:
        """What somebody asked for, as plain numbers; what makes no sense is refused."""
        count = None if top is None else _count(top)
        return cls(count, bool(dense), None if segments is None else _spans(segments))

    @property
    def text(self) -> str:
        """In a word or two, for the files that are written."""
        if self.segments is not None:
            return "given segments"
        return "dense" if self.dense else f"top {self.top}" if self.top else "summary"

    def within(self, duration: float) -> FittedRequest:
        """The same of a video that is so long."""
        given = self.segments or ()
        beyond = tuple(span for span in given if span[0] >= duration)
        inside = tuple(span for span in given if span[0] < duration)
        if beyond and not inside:
            raise InputError(beyond_text(beyond, duration))
        cut = tuple((start, duration if end > duration + SLACK else end) for start, end in inside)
        fitted = self if cut == given else replace(self, segments=cut)
        return FittedRequest(fitted, beyond, sum(before != after for before, after in zip(inside, cut, strict=True)))


@dataclass(frozen=True)
class FittedRequest:
    """A choice for a video of known length: the spans that lie wholly beyond its end, and how many were cut there."""

    choice: EventRequest
    beyond: tuple[Span, ...]
    cut: int


@dataclass(frozen=True)
class ChosenEvents:
    """Events in the order of time; `masks` has the event mask of each, None where it has none, or nothing at all.

    `origins` says where in the model each was found.
    """

    events: tuple[Event, ...]
    masks: tuple[TimedMask | None, ...] = ()
    origins: tuple[Origin, ...] = ()

    @classmethod
    def of_plain(cls, events: Any, masks: Any, origins: Any) -> ChosenEvents:
        """Back from plain values."""
        places = tuple((int(first), int(anchor)) for first, anchor in origins)
        return cls(tuple(Event(*row) for row in events), tuple(map(_mask_of_plain, masks)), places)

    def as_plain(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        rows = [(event.start, event.end, event.sentence, event.score) for event in self.events]
        masks = [mask and (mask.start, mask.end, mask.values) for mask in self.masks]
        return {"events": rows, "masks": masks, "origins": self.origins}


def _count(top: Any) -> int:
    """A number of events as a plain number: whatever counts as an integer may be given."""
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
    """A given span as plain seconds: a pair of whatever numbers, of a list, a tuple or an array."""
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


def chosen_events(
    loaded: LoadedModel,
    captioner: Captioner,
    track: FeatureTrack,
    choice: EventRequest,
    on_progress: ProgressCallback = no_progress,
) -> ChosenEvents:
    """The events of a track, as they were asked for."""
    if choice.segments is not None:
        return _given(captioner, track, choice.segments)
    from densevid.inference.confidence import Calibration
    from densevid.inference.long_video import LongVideoCaptioner
    from densevid.inference.summary import SummaryRules

    config = captioner.config
    rules = None if choice.dense else SummaryRules.of(config.inference, config.model.window, choice.top)
    calibration = None if loaded.calibration is None else Calibration.of_table(loaded.calibration)
    teller = LongVideoCaptioner(captioner, summary=rules, calibration=calibration, on_progress=on_progress)
    on_progress("events", 0.0)
    told = next(teller.told([track]))
    events = sorted(teller.finish(told), key=lambda event: event.place)
    found = zip(told.events(), told.first_P.tolist(), told.anchor_P.tolist(), strict=True)
    origin = {(event.start, event.end): (first, anchor) for event, first, anchor in found}
    surest = sorted(events, key=lambda event: -event.score)[:MOST_MASKS]
    masks = _masks(loaded, track, {origin[event.start, event.end] for event in surest})
    origins = tuple(origin[event.start, event.end] for event in events)
    return ChosenEvents(tuple(events), tuple(map(masks.get, origins)), origins)


def _given(captioner: Captioner, track: FeatureTrack, segments: tuple[Span, ...]) -> ChosenEvents:
    """What happens in given spans."""
    from densevid.inference.explain_window import GIVEN
    from densevid.inference.segments import caption_segments, first_steps

    origins = tuple((first, GIVEN) for first in first_steps(captioner, track, segments))
    return ChosenEvents(tuple(caption_segments(captioner, track, segments)), origins=origins)


def _mask_of_plain(plain: Any) -> TimedMask | None:
    if plain is None:
        return None
    start, end, values = plain
    return TimedMask(float(start), float(end), tuple(map(float, values)))


def _masks(loaded: LoadedModel, track: FeatureTrack, origins: Set[Origin]) -> dict[Origin, TimedMask]:
    """What of the video each event was told from, to three digits; an origin is a window's first step and an anchor."""
    from densevid.inference.explain import masks_of_anchors
    from densevid.inference.windows import Windows

    size = min(len(track), loaded.config.model.window)
    masks: dict[Origin, TimedMask] = {}
    for first in sorted({first for first, _ in origins}):
        start, end = track.seconds(np.array([first, first + size])).tolist()
        anchors = sorted({anchor for other, anchor in origins if other == first})
        part = Windows((first,), size, len(track)).part(track, 0)
        for anchor, mask in zip(anchors, masks_of_anchors(loaded, part, anchors), strict=True):
            masks[first, anchor] = TimedMask(start, end, tuple(mask.round(3).tolist()))
    return masks
