"""Given spans of long and short videos together: each where it is, as if it were alone."""

from __future__ import annotations

import numpy as np
import pytest

from densevid.inference.captioner import Captioner
from densevid.inference.segments import caption_segments, caption_segments_many, unseen
from densevid.tracks import Clock, FeatureTrack
from helpers.random_models import random_model, random_track

REQUESTS = [
    (random_track(30, 1), [(0.0, 4.0), (3.0, 15.0)]),
    (random_track(130, 2), [(1.0, 6.0), (40.0, 48.0), (10.0, 62.0)]),  # the window has 40 steps, 20 seconds
    (random_track(12, 3), []),
    (random_track(90, 4), [(44.0, 45.0)]),
    (random_track(90, 5), []),
    (random_track(40, 6), [(2.0, 9.0)]),
]


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    return Captioner(random_model())


def test_segments_do_not_depend_on_the_rest_of_the_batch(captioner: Captioner) -> None:
    together = list(caption_segments_many(captioner, REQUESTS))
    assert together == [caption_segments(captioner, track, spans) for track, spans in REQUESTS]
    assert [[(event.start, event.end) for event in events] for events in together] == [spans for _, spans in REQUESTS]


def test_a_span_of_a_long_video_is_captioned_from_the_window_around_it(captioner: Captioner) -> None:
    track = REQUESTS[1][0]
    _, late, _ = caption_segments(captioner, *REQUESTS[1])
    part = FeatureTrack(track.values[68:108], track.clock, track.streams)  # 40 to 48 s are steps 80 to 96
    (alone,) = captioner.caption_segments(part, [(40.0 - 34.0, 48.0 - 34.0)])
    assert late.sentence == alone.sentence
    assert unseen(captioner, track, [(64.0, 65.0), (65.0, 66.0)]) == 1


@pytest.mark.parametrize("steps", [30, 130])
def test_before_a_clock_that_begins_late_the_first_step_stands_in(captioner: Captioner, steps: int) -> None:
    track = random_track(steps, 7)
    late = FeatureTrack(track.values, Clock.from_edges(2 + np.arange(steps + 1) / 2), track.streams)
    spans = [(0.0, 0.4), (2.0, 2.4), (1.0, 6.0), (2.0, 6.0)]
    captioned = caption_segments(captioner, late, spans)
    assert [(event.start, event.end) for event in captioned] == spans
    assert captioned[0].sentence == captioned[1].sentence and captioned[2].sentence == captioned[3].sentence


def test_the_release_reads_the_first_window_alone() -> None:
    captioner = Captioner(random_model({"compat": "released"}, {"min_before_suppression": 20}))
    track, spans = REQUESTS[1]
    assert caption_segments(captioner, track, spans) == captioner.caption_segments(track, spans)
    assert unseen(captioner, track, spans) == 1
