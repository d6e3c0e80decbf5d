"""Videos of any length, captioned whole or as a summary: what must stay the same, and what must be bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration
from densevid.inference.fitting.calibration import fit_calibration
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from densevid.inference.windows import Windows
from densevid.tracks import FeatureTrack
from helpers.anchor_masks import masks_of_anchors
from helpers.random_models import random_model, random_track

RULES = SummaryRules(most=4, least_confidence=0.1, overlap=0.2, steps_each=40)
CALIBRATION = Calibration(
    LogisticCurve(("logit", "log_steps", "share", "neighbor_support"), (1.0, 0.3, -0.5, 0.2), -0.5),
    LogisticCurve(("confidence", "log_probability"), (1.0, 0.2), 0.1),
)


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    return Captioner(random_model())


def rounded(events: list[Event]) -> list[tuple[object, ...]]:
    return [(round(e.start, 3), round(e.end, 3), e.sentence, round(e.score, 4)) for e in events]


def test_a_video_of_one_window_is_captioned_as_by_the_captioner(captioner: Captioner) -> None:
    tracks = [random_track(steps, seed=steps) for steps in (40, 7, 23)]
    assert list(LongVideoCaptioner(captioner).caption_many(tracks)) == list(captioner.caption_many(tracks))


def test_short_and_long_videos_in_a_batch_are_captioned_as_alone(captioner: Captioner) -> None:
    tracks = [random_track(steps, seed=steps) for steps in (30, 39, 95, 41, 12, 200, 5)]
    for summary in (None, RULES):
        long_captioner = LongVideoCaptioner(captioner, summary=summary, calibration=CALIBRATION)
        together = list(long_captioner.caption_many(tracks))
        for events, track in zip(together, tracks, strict=True):
            (alone,) = long_captioner.caption_many([track])
            assert rounded(events) == rounded(alone)


def test_anchors_are_those_of_the_window_that_an_event_was_found_in() -> None:
    """Looked up there, an anchor's mask, which is 0 or 1, ends where its event does."""
    loaded = random_model({"mask": "discrete"})
    tracks = [random_track(steps, seed=steps) for steps in (30, 39, 95, 12, 200)]
    for track, captioned in zip(tracks, LongVideoCaptioner(Captioner(loaded)).captioned(tracks), strict=True):
        size = min(len(track), 40)
        for first, anchor, span in zip(captioned.first_P, captioned.anchor_P, captioned.reported_P2, strict=True):
            part = Windows((int(first),), size, len(track)).part(track, 0)
            (mask_T,) = masks_of_anchors(loaded, part, [int(anchor)])
            inside = np.flatnonzero(mask_T) + first
            assert abs(inside[0] - span[0]) <= 1 and abs(inside[-1] + 1 - span[1]) <= 1


def test_a_summary_is_part_of_what_is_found_and_in_order(captioner: Captioner) -> None:
    tracks = [random_track(steps, seed=steps) for steps in (40, 31, 170)]
    dense = [
        {(e.start, e.end, e.sentence) for e in events} for events in LongVideoCaptioner(captioner).caption_many(tracks)
    ]
    summaries = list(LongVideoCaptioner(captioner, summary=RULES, calibration=CALIBRATION).caption_many(tracks))
    for events, found, track in zip(summaries, dense, tracks, strict=True):
        assert 1 <= len(events) <= RULES.count(len(track))
        assert {(e.start, e.end, e.sentence) for e in events} <= found
        assert [e.start for e in events] == sorted(e.start for e in events)
        assert all(0.1 < e.score < 1 for e in events)


@pytest.mark.parametrize("steps", [40, 170])
def test_the_networks_own_score_can_choose(captioner: Captioner, steps: int) -> None:
    """A curve that trusts what the network does not: confidence chooses the worst scored event, the score the best."""
    contrary = replace(CALIBRATION, proposal=LogisticCurve(("logit",), (-1.0,), 0.0))
    track, rules = random_track(steps, seed=steps), replace(RULES, top=1)
    (found,) = LongVideoCaptioner(captioner).caption_many([track])
    scores = {(event.start, event.end): event.score for event in found}
    for worth, wanted in (("confidence", min), ("score", max)):
        long_captioner = LongVideoCaptioner(captioner, summary=replace(rules, worth=worth), calibration=contrary)
        ((event,),) = long_captioner.caption_many([track])
        assert scores[event.start, event.end] == pytest.approx(wanted(scores.values()))


def test_an_event_is_as_sure_in_the_dense_list_as_in_the_summary(captioner: Captioner) -> None:
    """Of short videos and long ones; without a calibration the dense list has the scores of a benchmark."""
    tracks = [random_track(steps, seed=steps) for steps in (40, 31, 170)]
    dense = list(LongVideoCaptioner(captioner, calibration=CALIBRATION).caption_many(tracks))
    summaries = list(LongVideoCaptioner(captioner, summary=RULES, calibration=CALIBRATION).caption_many(tracks))
    for everything, events in zip(dense, summaries, strict=True):
        assert events and set(rounded(events)) < set(rounded(everything))
    for everything, raw in zip(dense[:2], captioner.caption_many(tracks[:2]), strict=True):
        spans = [[(event.start, event.end, event.sentence) for event in captioned] for captioned in (everything, raw)]
        assert spans[0] == spans[1] and all(
            abs(one.score - other.score) > 1e-6 for one, other in zip(everything, raw, strict=True)
        )


def test_where_nothing_is_proposed_the_dense_list_has_the_video_without_any_confidence() -> None:
    captioner = Captioner(random_model(inference={"score_threshold": 1.0, "min_proposals": 0}))
    for track in (random_track(30), random_track(100)):
        (captioned,) = LongVideoCaptioner(captioner, calibration=CALIBRATION).caption_many([track])
        assert captioned and all(event.score < 0.01 for event in captioned)


def test_a_summary_without_confident_events_is_empty(captioner: Captioner, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    generator = captioner.caption_generator
    caption = generator.caption_proposals
    monkeypatch.setattr(generator, "caption_proposals", lambda *given: counts.append(len(given[1])) or caption(*given))
    sceptic = LongVideoCaptioner(captioner, summary=replace(RULES, least_confidence=0.999), calibration=CALIBRATION)
    assert list(sceptic.caption_many([random_track(30), random_track(120), random_track(1)])) == [[], [], []]
    assert not any(counts), "what is not in the summary is never captioned"
    (three,) = LongVideoCaptioner(captioner, summary=replace(RULES, top=3), calibration=CALIBRATION).caption_many(
        [random_track(40)]
    )
    assert len(three) <= 3 and sum(counts) == len(three)


def test_an_event_may_be_dropped_after_it_was_captioned(captioner: Captioner) -> None:
    doubts = replace(CALIBRATION, event=LogisticCurve(("confidence", "log_probability"), (1.0, 5.0), 0.0))
    tracks = [random_track(40, seed=seed) for seed in range(4)]
    sure, unsure = (
        sum(map(len, LongVideoCaptioner(captioner, summary=RULES, calibration=each).caption_many(tracks)))
        for each in (CALIBRATION, doubts)
    )
    assert unsure < sure


def test_a_repeated_video_has_the_same_events_in_every_repetition(captioner: Captioner) -> None:
    once = random_track(60, seed=4)
    again = FeatureTrack(np.tile(once.values, (8, 1)), once.clock, once.streams)
    (events,) = LongVideoCaptioner(captioner, summary=replace(RULES, most=50), calibration=CALIBRATION).caption_many(
        [again]
    )
    middle = {(round(e.start % 30, 2), round(e.seconds, 2)) for e in events if 60 <= e.start < 90}
    later = {(round(e.start % 30, 2), round(e.seconds, 2)) for e in events if 120 <= e.start < 150}
    assert middle and len(middle & later) >= 0.7 * len(middle)


def test_the_release_reads_its_first_window_unless_asked() -> None:
    model = {"compat": "released", "mask": "discrete"}
    track = random_track(120)
    settings = {"min_before_suppression": 20, "suppression_iou": 0.7}
    first, everything = (Captioner(random_model(model, {"read": read, **settings})) for read in ("auto", "all"))
    assert list(LongVideoCaptioner(first).caption_many([track])) == [first.caption(track)]
    (captioned,) = LongVideoCaptioner(everything).caption_many([track])
    assert max(event.end for event in captioned) > 40


def test_a_long_video_without_proposals_is_captioned_by_its_windows() -> None:
    captioner = Captioner(random_model(inference={"score_threshold": 1.0, "min_proposals": 0}))
    (captioned,) = LongVideoCaptioner(captioner).caption_many([random_track(100)])
    assert captioned and all(event.seconds == 20 and event.score == 1 for event in captioned)
    assert list(LongVideoCaptioner(captioner, summary=RULES).caption_many([random_track(100)])) == [[]]


TEN_HOURS = """
import resource, sys
import numpy as np
from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.inference.captioner import Captioner
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureTrack

model = {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "kernels": [20, 60, 150], "stride_factor": 5}
config = Config().with_values({"model": model, "features": {"streams": ["one"], "widths": [512]}})
captioner = Captioner(LoadedModel(MaskedTransformer(config, 6), config, Vocabulary((*SPECIAL_TOKENS, "a", "b")), None))
row = np.random.default_rng(0).normal(size=72_511).astype(np.float16)
values = np.lib.stride_tricks.sliding_window_view(row, 512)  # 72,000 steps that cost nothing; 147 MB as float32
long_captioner = LongVideoCaptioner(captioner, summary=SummaryRules(most=2, least_confidence=0.0))
def captioned(steps):
    track = FeatureTrack(values[:steps], Clock.uniform(0.5), (("one", 512),))
    (events,) = long_captioner.caption_many([track])
    return events[-1].end, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_, before = captioned(5_000)
end, after = captioned(72_000)
megabytes = (after - before) / (1 << 20 if sys.platform == "darwin" else 1 << 10)
print(end, megabytes)
assert end > 35_000 and megabytes < 100, (end, megabytes)
"""


def test_ten_hours_are_captioned_in_bounded_memory() -> None:
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", TEN_HOURS], env=one_thread, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]


def test_a_calibration_is_fitted_from_the_captioners_predictions(captioner: Captioner) -> None:
    tracks = {f"v{seed}": random_track(40, seed=seed) for seed in range(30)}
    truth = {video: captioner.caption(track)[:2] for video, track in tracks.items()}
    fitted = fit_calibration(captioner, tracks, {**truth, "elsewhere": [Event(0, 1, "")]})
    assert fitted.fitted["videos"] == 30 and fitted.fitted["proposals"] > fitted.fitted["events"] > 10
    assert Calibration.of_table(fitted.as_table()) == fitted
    confident = list(LongVideoCaptioner(captioner, summary=RULES, calibration=fitted).caption_many(tracks.values()))
    scores = [event.score for events in confident for event in events]
    assert 0 < np.mean(scores) < 1
