"""Which events of a video a person gets: a short list that tells it, the best few, everything, or given spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from densevid.errors import InputError
from densevid.events import Event

if TYPE_CHECKING:
    from densevid.inference.captioner import Captioner
    from densevid.tracks import FeatureTrack

Span = tuple[float, float]
MOST_OVERLAP = 0.3  # of the shorter of two events in a short list


@dataclass(frozen=True)
class Choice:
    """What is asked for; given spans overrule the rest."""

    top: int | None = None
    dense: bool = False
    segments: tuple[Span, ...] | None = None

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise InputError(f"--top must be at least 1, got {self.top}")
        if self.top is not None and self.dense:
            raise InputError("--top N and --dense exclude each other; give one of them")

    @property
    def text(self) -> str:
        """In a word or two, for the files that are written."""
        if self.segments is not None:
            return "given segments"
        return "dense" if self.dense else f"top {self.top}" if self.top else "summary"


def chosen_events(captioner: Captioner, track: FeatureTrack, choice: Choice) -> list[Event]:
    """The events of a track, in the order of time."""
    if choice.segments is not None:
        return captioner.caption_segments(track, choice.segments)
    events = captioner.caption(track)
    if not choice.dense:
        events = short_list(events, captioner.config.inference.score_threshold, choice.top)
    return sorted(events, key=lambda event: (event.start, event.end))


def short_list(events: Sequence[Event], confident: float, most: int | None) -> list[Event]:
    """The confident events, best first, each that does not lie over a better one; an empty list is an answer too."""
    kept: list[Event] = []
    for event in sorted(events, key=lambda event: -event.score):
        if event.score > confident and all(_overlap(event, other) <= MOST_OVERLAP for other in kept):
            kept.append(event)
    return kept[:most]


def _overlap(one: Event, other: Event) -> float:
    """The part of the shorter event that both share."""
    shared = min(one.end, other.end) - max(one.start, other.start)
    return max(0.0, shared) / min(one.seconds, other.seconds)
