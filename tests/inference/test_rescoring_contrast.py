"""Contrast rescoring and its running totals: against plain loops, at both ends of the weight, and in any batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.nms import Selection
from densevid.inference.rescoring import contrast_scores, rescore_by_contrast, rows_at, running_total
from densevid.inference.summary import SummaryRules
from densevid.model.priors import exact
from helpers.random_models import random_model, random_track

WINDOW = 40


def by_hand(values: np.ndarray, start: float, end: float) -> float:
    a = min(max(round(start), 0), len(values) - 1)
    b = min(max(round(end), a + 1), len(values))

    def cosine(first: np.ndarray, second: np.ndarray) -> float:
        if not len(first) or not len(second):
            return 0.0
        one, other = first.mean(axis=0), second.mean(axis=0)
        return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))

    size, middle = b - a, (a + b) // 2
    sides = (values[max(0, a - size) : a], values[b : b + size])
    apart = np.prod([(1 - cosine(values[a:b], side)) / 2 for side in sides])
    return float(apart**0.5 * (1 + cosine(values[a:middle], values[middle:b])) / 2 * (size / WINDOW) ** 0.25)


@given(st.integers(1, 30), st.lists(st.tuples(st.floats(-3, 33), st.floats(-3, 33)), min_size=1, max_size=6))
def test_contrast_equals_a_plain_loop_and_ignores_padding(steps: int, spans: list[tuple[float, float]]) -> None:
    values = np.random.default_rng(steps).normal(size=(steps + 5, 6)).astype(np.float32)
    values[steps:] = 1e4
    ours = contrast_scores(torch.tensor([spans]), torch.from_numpy(values)[None], torch.tensor([steps]), WINDOW)[0]
    theirs = [by_hand(values[:steps].astype(np.float64), *span) for span in spans]
    np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-6)
    assert ((ours >= 0) & (ours <= 1)).all()


def test_an_event_between_others_has_contrast_and_its_parts_and_stills_have_none() -> None:
    shots = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    spans = torch.tensor([[[10.0, 20.0], [10.0, 15.0], [13.0, 18.0], [5.0, 15.0], [10.0, 30.0]]])
    event, *others = contrast_scores(spans, torch.from_numpy(shots)[None], torch.tensor([30]), WINDOW)[0].tolist()
    assert event > 1.2 * max(others)
    still = torch.ones(1, 30, 3)
    assert contrast_scores(spans, still, torch.tensor([30]), WINDOW)[0].max() < 1e-6


def selection(scores: list[float], kept: list[bool]) -> Selection:
    spans = torch.tensor([[2.0 * number, 2.0 * number + 5] for number in range(len(scores))])
    return Selection(torch.arange(len(scores))[None], torch.tensor([scores]), spans[None], torch.tensor([kept]))


def test_scores_are_multiplied_and_the_best_come_first() -> None:
    before = selection([0.9, 0.8, 0.7, 0.6], [True, True, True, False])
    features = torch.randn(1, 20, 4, generator=torch.Generator().manual_seed(0))
    after = rescore_by_contrast(before, features, torch.tensor([20]), WINDOW, 0.5)
    assert after.kept_BK.tolist() == before.kept_BK.tolist()
    scores = after.score_BK[0, :3]
    assert (scores.diff() <= 0).all() and after.anchor_BK[0, 3] == 3
    assert after.network_BK is not None
    contrast = contrast_scores(before.reported_BK2, features, torch.tensor([20]), WINDOW)[0]
    for place, anchor in enumerate(after.anchor_BK[0].tolist()):
        assert torch.equal(after.reported_BK2[0, place], before.reported_BK2[0, anchor])
        assert after.network_BK[0, place] == before.score_BK[0, anchor]
        assert float(after.score_BK[0, place]) == pytest.approx(
            float(before.score_BK[0, anchor] * contrast[anchor] ** 0.5), rel=1e-5
        )


def test_without_a_weight_or_without_events_nothing_changes() -> None:
    before, features = selection([0.9, 0.8], [True, True]), torch.randn(1, 20, 4)
    assert rescore_by_contrast(before, features, torch.tensor([20]), WINDOW, 0.0) is before
    nothing = rescore_by_contrast(selection([], []), features, torch.tensor([20]), WINDOW, 1.0)
    assert nothing.network_BK is not None and nothing.kept_BK.shape == (1, 0)


def test_a_dense_list_is_sorted_by_reported_score_and_the_same_in_any_batch() -> None:
    plain, weighing = (Captioner(random_model({}, {"contrast_weight": weight})) for weight in (0.0, 1.0))
    tracks = [random_track(steps, steps) for steps in (40, 13, 29, 1)]
    together = list(weighing.caption_many(tracks))
    for track, events in zip(tracks, together, strict=True):
        scores = [event.score for event in events]
        assert scores == sorted(scores, reverse=True)
        alone, unweighed = weighing.caption(track), plain.caption(track)
        assert [event.sentence for event in alone] == [event.sentence for event in events]
        np.testing.assert_allclose(spans(alone), spans(events), atol=1e-5)
        np.testing.assert_allclose(np.sort(spans(alone), axis=0), np.sort(spans(unweighed), axis=0), atol=1e-5)


def spans(events: list[Event]) -> list[tuple[float, float]]:
    return [(event.start, event.end) for event in events]


def test_confidence_is_of_the_networks_score_with_and_without_contrast() -> None:
    """The same confidences with and without contrast, in one window and in several; only the order changes."""
    curve = LogisticCurve(("logit", "neighbor_support"), (1.0, 0.3), 0.2)
    calibration = Calibration(curve, LogisticCurve(("confidence",), (1.0,), 0.0))
    for steps in (30, 150):
        found = []
        for weight in (0.0, 1.0):
            captioner = Captioner(random_model({}, {"contrast_weight": weight, "suppression_iou": 1.0}))
            (events,) = LongVideoCaptioner(captioner, calibration=calibration).caption_many(
                [random_track(steps, steps)]
            )
            found.append({(round(event.start, 4), round(event.end, 4)): event.score for event in events})
        shared = found[0].keys() & found[1].keys()
        assert len(shared) > 5
        assert all(found[0][span] == pytest.approx(found[1][span], abs=1e-5) for span in shared)


def test_a_long_video_with_windows_in_which_nothing_is_proposed() -> None:
    """Some windows have no event of their own, and are stacked with others that have."""
    settings = {"contrast_weight": 1.0, "min_proposals": 0, "min_before_suppression": 0}
    for threshold in np.linspace(0.3, 0.8, 11):
        captioner = Captioner(random_model({}, settings | {"score_threshold": float(threshold)}), steps_at_once=40)
        (events,) = LongVideoCaptioner(captioner).caption_many([random_track(300, 1)])
        assert events


def test_a_summary_without_a_calibration_uses_the_networks_score() -> None:
    track = random_track(38, 4)
    found = []
    for weight in (0.0, 1.0):
        captioner = Captioner(random_model({}, {"contrast_weight": weight}))
        rules = SummaryRules(least_confidence=0.5, worth="score")
        (events,) = LongVideoCaptioner(captioner, summary=rules).caption_many([track])
        found.append(events)
    assert all(found) and all(event.score > 0.5 for events in found for event in events)


def test_the_difference_of_two_rows_is_the_sum_between_them() -> None:
    features = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0))
    features[:, 0] = 1e6
    total = running_total(exact(features))
    first, last = torch.tensor([[0, 3, 5], [1, 4, 9]]), torch.tensor([[9, 3, 8], [2, 9, 9]])
    sums = rows_at(total, last) - rows_at(total, first)
    for video in range(2):
        for place, (start, end) in enumerate(zip(first[video].tolist(), last[video].tolist(), strict=True)):
            torch.testing.assert_close(
                sums[video, place], features[video, start:end].double().sum(dim=0), atol=1e-8, rtol=0
            )
