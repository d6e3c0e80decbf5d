"""What happens in spans that somebody gives: in a video longer than the model's window each is read around itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from densevid.events import Event
from densevid.inference.windows import Windows

if TYPE_CHECKING:
    from densevid.inference.captioner import Captioner
    from densevid.tracks import FeatureTrack

Span = tuple[float, float]


def caption_segments(captioner: Captioner, track: FeatureTrack, segments: Sequence[Span]) -> list[Event]:
    """The sentence of every span, in their order; the spans are reported as they were given."""
    window = captioner.config.model.window
    if len(track) <= window or not captioner.rules.reads_all or not segments:
        return captioner.caption_segments(track, segments)
    windows = Windows(_firsts(track, segments, window), window, len(track))
    begins = track.seconds(windows.starts)
    parts = [
        (windows.part(track, number), [(max(0.0, start - begin), end - begin)])
        for number, ((start, end), begin) in enumerate(zip(segments, begins.tolist(), strict=True))
    ]
    told = chain.from_iterable(captioner.caption_segments_many(parts))
    return [replace(event, start=start, end=end) for event, (start, end) in zip(told, segments, strict=True)]


def unseen(captioner: Captioner, track: FeatureTrack, segments: Sequence[Span]) -> int:
    """How many spans begin after all that is read, so that the last step stands in for them."""
    if not captioner.rules.reads_all:
        return captioner.unseen(track, segments)
    starts = track.clock.steps([start for start, _ in segments])
    return int((starts >= len(track)).sum())


def _firsts(track: FeatureTrack, segments: Sequence[Span], window: int) -> tuple[int, ...]:
    """Where the window of each begins: with the video if it holds it, else so that the span is in its middle."""
    steps_S2 = np.clip(track.clock.steps(np.asarray(segments)), 0, len(track))
    around_S = np.clip(np.floor(steps_S2.mean(axis=1) - window / 2), 0, len(track) - window).astype(int)
    return tuple(np.where(steps_S2[:, 1] <= window, 0, around_S).tolist())
