"""Borders move to changes: against the numpy baseline's change points, a loop, and what cannot change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.config.schema import InferenceConfig
from densevid.inference.captioner import Captioner
from densevid.inference.rescoring import MOST_CHANGES, WEAKEST_PULL, WINDOW, changes_of, refine_boundaries
from densevid.model.anchors import AnchorGrid
from densevid.model.proposal_decoder import Proposals
from densevid.tracks import Clock, FeatureTrack
from helpers.random_models import random_model, random_track
from research.baselines.spans import change_strengths

GRID = AnchorGrid.of((2, 5, 9, 16), 5)
REACH = InferenceConfig(border_reach=0.25)


def shots(lengths: list[int], seed: int = 0) -> np.ndarray:
    """Features that stay nearly the same within a shot."""
    rng = np.random.default_rng(seed)
    means = np.repeat(rng.normal(size=(len(lengths), 8)), lengths, axis=0)
    return (means + 0.05 * rng.normal(size=means.shape)).astype(np.float32)


def proposals_of(steps: int, seed: int = 0, videos: int = 1) -> Proposals:
    anchors_A2 = GRID.anchors(steps)
    noise = torch.Generator().manual_seed(seed)
    offsets = 0.1 * torch.randn(videos, len(anchors_A2), 2, generator=noise)
    return Proposals(torch.zeros(videos, len(anchors_A2)), offsets, anchors_A2, steps)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9), st.integers(0, 5))
def test_changes_are_the_change_points_of_the_baseline(lengths: list[int], seed: int) -> None:
    values = shots(lengths, seed)
    track = FeatureTrack(values, Clock.uniform(0.5), (("one", 8),))
    steps, strengths = change_strengths(track, window=WINDOW * 0.5)
    padded = np.concatenate([values, np.full((7, 8), 3.0, dtype=np.float32)])  # what comes after the video is not seen
    for features, read in ((values, len(values)), (padded, len(values))):
        changes = changes_of(torch.from_numpy(features)[None], torch.tensor([read]))
        ours = sorted(
            (step, strength)
            for step, strength in zip(changes.step_BC[0].tolist(), changes.strength_BC[0].tolist(), strict=True)
            if strength > 0
        )
        inner = strengths[1:-1] / max(strengths[1:-1].max(initial=0), 1e-30)
        want = sorted(zip(steps.tolist(), [1.0, *inner, 1.0], strict=True))
        np.testing.assert_allclose(ours, want, rtol=1e-4)
    assert len(steps) <= MOST_CHANGES + 2


def test_every_border_goes_to_the_change_that_pulls_most() -> None:
    values = shots([6, 3, 9, 4, 8])
    proposals = proposals_of(len(values))
    changes = changes_of(torch.from_numpy(values)[None], torch.tensor([len(values)]))
    steps, strengths = changes.step_BC[0].tolist(), changes.strength_BC[0].tolist()

    def moved(border: float, length: float) -> float:
        pulls = [
            s * np.exp(-(((c - border) / (0.25 * length)) ** 2) / 2) for c, s in zip(steps, strengths, strict=True)
        ]
        return steps[int(np.argmax(pulls))] if max(pulls) >= WEAKEST_PULL else border

    result = refine_boundaries(proposals, torch.from_numpy(values)[None], torch.tensor([len(values)]), REACH)
    for (start, end), ours in zip(proposals.intervals_BA2[0].tolist(), result.intervals_BA2[0].tolist(), strict=True):
        first, last = max(start, 0.0), min(end, float(len(values)))
        length = max(last - first, 1.0)
        want = moved(first, length), moved(last, length)
        np.testing.assert_allclose(ours, want if want[1] - want[0] >= 1 else (start, end), atol=1e-4)
    picked = result.pick(torch.tensor([0]), torch.tensor([3]))
    assert torch.equal(picked.intervals_P2[0], result.intervals_BA2[0, 3])


def test_a_rough_proposal_finds_its_shots_exactly() -> None:
    values = shots([10, 14, 12])
    anchors_A2 = torch.tensor([[17.0, 16.0]])
    rough = Proposals(torch.zeros(1, 1), torch.tensor([[[0.05, 0.1]]]), anchors_A2, len(values))
    exact = refine_boundaries(
        rough, torch.from_numpy(values)[None], torch.tensor([len(values)]), InferenceConfig(border_reach=0.15)
    )
    assert exact.intervals_BA2[0, 0].tolist() == [10.0, 24.0]


def test_nothing_moves_without_reach_or_changes() -> None:
    proposals = proposals_of(36)
    features = torch.from_numpy(shots([10, 14, 12]))[None]
    assert refine_boundaries(proposals, features, torch.tensor([36]), InferenceConfig()) is proposals
    still = refine_boundaries(proposals, torch.ones(1, 36, 8), torch.tensor([36]), REACH)  # its ends alone may pull
    inner = (proposals.intervals_BA2 > 15) & (proposals.intervals_BA2 < 21)
    assert torch.equal(still.intervals_BA2[inner], proposals.intervals_BA2[inner])
    assert torch.isfinite(
        refine_boundaries(proposals_of(2), torch.ones(1, 2, 8), torch.tensor([2]), REACH).intervals_BA2
    ).all()
    assert torch.isfinite(changes_of(torch.zeros(2, 1, 8), torch.tensor([1, 1])).strength_BC).all()


def test_scores_follow_how_strong_the_changes_at_both_borders_are() -> None:
    values = shots([6, 3, 9, 4, 8])
    proposals, own = proposals_of(len(values)), torch.tensor([len(values)])
    result = refine_boundaries(proposals, torch.from_numpy(values)[None], own, replace(REACH, border_weight=0.4))
    assert torch.equal(
        result.intervals_BA2, refine_boundaries(proposals, torch.from_numpy(values)[None], own, REACH).intervals_BA2
    )
    changes = changes_of(torch.from_numpy(values)[None], own)
    strength = dict(zip(changes.step_BC[0].tolist(), changes.strength_BC[0].tolist(), strict=True))
    for (start, end), before, score in zip(
        result.intervals_BA2[0].tolist(), proposals.intervals_BA2[0].tolist(), result.scores_BA[0].tolist(), strict=True
    ):
        both = [strength.get(border, WEAKEST_PULL) for border in (start, end)]
        unmoved = [start, end] == before
        assert score == pytest.approx(0.5 * (WEAKEST_PULL**2 if unmoved else both[0] * both[1]) ** 0.4, rel=1e-5)
    assert torch.equal(result.logits_BA, proposals.logits_BA)  # what gates a mask


@pytest.mark.parametrize("mask", ["gated", "discrete"])
def test_boundaries_do_not_depend_on_the_rest_of_the_batch(mask: str) -> None:
    loaded = random_model({"mask": mask}, {"border_reach": 0.25, "border_weight": 0.4})
    captioner = Captioner(loaded)
    tracks = [random_track(steps, steps) for steps in (40, 13, 29, 2)]
    together = list(captioner.caption_many(tracks))
    for track, events in zip(tracks, together, strict=True):
        alone = captioner.caption(track)
        assert [event.sentence for event in alone] == [event.sentence for event in events]
        spans = [[(event.start, event.end) for event in own] for own in (alone, events)]
        np.testing.assert_allclose(spans[0], spans[1], atol=1e-5)
    unmoved = Captioner(random_model({"mask": mask})).caption(tracks[0])
    assert [event.start for event in unmoved] != [event.start for event in together[0]]
