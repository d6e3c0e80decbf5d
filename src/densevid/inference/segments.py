"""Captions of given spans: in a video longer than the model's window each span is read in a window around itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from densevid.events import Event
from densevid.inference.batches import CaptionedSpans, ModelInput
from densevid.inference.captioner import Captioner, Segments
from densevid.inference.windows import Windows
from densevid.tracks import FeatureTrack

Part = tuple[FeatureTrack | ModelInput, Segments]
MOMENT = 1e-6  # seconds: what is left of a span that ends before its window begins


def caption_segments(captioner: Captioner, track: FeatureTrack | ModelInput, segments: Segments) -> list[Event]:
    """An event for each span, in their order; the spans are reported as they were given."""
    return next(caption_segments_many(captioner, [(track, segments)]))


def caption_segments_many(captioner: Captioner, videos: Iterable[Part]) -> Iterator[list[Event]]:
    """The same for many videos, in their order."""
    return (captioned.events for captioned in captioned_segments(captioner, videos))


def captioned_segments(captioner: Captioner, videos: Iterable[Part]) -> Iterator[CaptionedSpans]:
    """The same with what is known about the sentences; windows of long videos and whole short ones share batches."""
    waiting: deque[tuple[int, Segments]] = deque()  # of every video the number of its parts, and its spans

    def parts() -> Iterator[Part]:
        for track, segments in videos:
            own = _parts(captioner, track, segments)
            waiting.append((len(own), segments))
            yield from own

    captioned: list[CaptionedSpans] = []
    for part in captioner.captioned_segments(parts()):
        captioned.append(part)
        if len(captioned) == waiting[0][0]:
            _, segments = waiting.popleft()
            pairs = zip(chain.from_iterable(each.events for each in captioned), segments, strict=True)
            events = [replace(event, start=start, end=end) for event, (start, end) in pairs]
            yield CaptionedSpans(events, list(chain.from_iterable(each.evidence for each in captioned)))
            captioned = []


def unseen(captioner: Captioner, track: FeatureTrack | ModelInput, segments: Segments) -> int:
    """How many spans begin after all that is read; they are captioned from the last step."""
    steps = len(track.values_TF) if isinstance(track, ModelInput) else len(track)
    if not captioner.is_long(track):
        steps = min(steps, captioner.config.model.window)
    return int((track.clock.steps(np.asarray([start for start, _ in segments])) >= steps).sum())


def unseen_text(count: int) -> str:
    """A line of warning about `unseen` spans."""
    return f"{count} of the given segments begin after all that the model reads; the last step stands in"


def _parts(captioner: Captioner, track: FeatureTrack | ModelInput, segments: Segments) -> list[Part]:
    """The video with all its spans or, of a long one, a window for each span, with the span in its time."""
    if not segments or not captioner.is_long(track):
        return [(captioner.read(track), segments)]
    windows = Windows(first_steps(captioner, track, segments), captioner.config.model.window, len(track))
    begins = track.seconds(windows.starts).tolist()
    return [
        (windows.part(track, number), [(max(0.0, start - begin), max(MOMENT, end - begin))])
        for number, ((start, end), begin) in enumerate(zip(segments, begins, strict=True))
    ]


def first_steps(captioner: Captioner, track: FeatureTrack | ModelInput, segments: Segments) -> tuple[int, ...]:
    """The first step of each span's window: 0 if that window holds the span, else with the span in its middle."""
    if not segments or not captioner.is_long(track):
        return (0,) * len(segments)
    window = captioner.config.model.window
    steps_S2 = np.clip(track.clock.steps(np.asarray(segments)), 0, len(track))
    around_S = np.clip(np.floor(steps_S2.mean(axis=1) - window / 2), 0, len(track) - window).astype(int)
    return tuple(np.where(steps_S2[:, 1] <= window, 0, around_S).tolist())
