"""Windows by hand, the gate's two ends, and the way of the gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from densevid.model.event_mask import DiscreteMask, LearnedMask, inside, rounded_windows
from densevid.model.proposal_decoder import PickedProposals


def proposals(logit: float = 0.3, start: float = 3.4, end: float = 8.2) -> PickedProposals:
    return PickedProposals(
        torch.tensor([logit, -1.0], requires_grad=True),
        torch.tensor([[start, end], [0.0, 20.0]], requires_grad=True),
        torch.tensor([[6.0, 5.0], [10.0, 16.0]]),
    )


@given(st.floats(-30, 60), st.floats(0.01, 60), st.integers(1, 40))
def test_windows_round_outwards_and_stay_in_the_video(start: float, length: float, limit: int) -> None:
    got = rounded_windows(torch.tensor([[start, start + length]], dtype=torch.float64), torch.tensor(float(limit)))
    low = math.floor(min(max(start, 0), limit - 1))
    high = math.ceil(min(max(start + length, 1), limit))
    assert got.tolist() == [[low, high]]
    assert 0 <= low <= limit - 1 and 1 <= high <= limit


def test_inside_is_one_from_start_to_before_end() -> None:
    assert inside(torch.tensor([[2.0, 4.0], [0.0, 6.0]]), 6).tolist() == [[0, 0, 1, 1, 0, 0], [1] * 6]


def test_a_sure_proposal_is_its_window_and_an_unsure_one_the_learned_mask() -> None:
    torch.manual_seed(0)
    masking = LearnedMask(16, 20, gated=True, released=False).eval()
    limit = torch.full((2,), 20.0)
    sure = masking(proposals(logit=40.0), 20, limit)
    torch.testing.assert_close(sure.mask_PT[0], sure.window_PT[0])
    unsure = masking(proposals(logit=-40.0), 20, limit)
    torch.testing.assert_close(unsure.mask_PT[0], unsure.soft_logits_PT[0].sigmoid())
    assert ((unsure.mask_PT >= 0) & (unsure.mask_PT <= 1)).all()


def test_gated_mask_is_the_papers_mixture() -> None:
    torch.manual_seed(0)
    masking = LearnedMask(16, 20, gated=True, released=False).eval()
    got = masking(proposals(), 20, torch.full((2,), 20.0))
    gate = torch.tensor([0.3, -1.0]).sigmoid()[:, None]
    want = gate * got.window_PT + (1 - gate) * got.soft_logits_PT.sigmoid()
    torch.testing.assert_close(got.mask_PT, want)
    assert got.window_PT[0].nonzero().flatten().tolist() == list(range(3, 9))


def test_the_release_mixes_in_raw_logits() -> None:
    torch.manual_seed(0)
    masking = LearnedMask(16, 20, gated=True, released=True).eval()
    got = masking(proposals(logit=-40.0), 20, torch.full((2,), 20.0))
    torch.testing.assert_close(got.mask_PT[0], got.soft_logits_PT[0])


@pytest.mark.parametrize("gated", [True, False])
def test_gradients_reach_borders_and_only_the_gate_reaches_the_score(gated: bool) -> None:
    torch.manual_seed(0)
    masking = LearnedMask(16, 20, gated=gated, released=False).eval()
    given_proposals = proposals()
    masking(given_proposals, 20, torch.full((2,), 20.0)).mask_PT.sum().backward()
    assert (given_proposals.intervals_P2.grad[0].abs() > 0).all()
    score_gradient = given_proposals.logits_P.grad
    assert (score_gradient.abs() > 0).all() if gated else score_gradient is None


def test_a_discrete_mask_lets_no_gradient_through() -> None:
    assert not DiscreteMask()(proposals(), 20, torch.full((2,), 20.0)).mask_PT.requires_grad


def test_a_shorter_video_gets_the_beginning_of_the_mask() -> None:
    torch.manual_seed(0)
    masking = LearnedMask(16, 20, gated=False, released=False).eval()
    whole = masking(proposals(), 20, torch.full((2,), 12.0)).mask_PT
    torch.testing.assert_close(masking(proposals(), 12, torch.full((2,), 12.0)).mask_PT, whole[:, :12])


def test_a_lone_proposal_is_learnt_from_by_the_figures_of_those_before_it() -> None:
    mask = LearnedMask(8, 24, gated=True, released=False)
    mask.perceptron[1].running_mean.uniform_(-1, 1)
    mask.perceptron[1].running_var.uniform_(0.5, 2)
    both = proposals()
    lone = PickedProposals(both.logits_P[:1], both.intervals_P2[:1], both.anchors_P2[:1])
    before = {name: value.clone() for name, value in mask.named_buffers()}
    learning = mask.train()(lone, 20, torch.tensor([20.0]))
    assert all(torch.equal(value, before[name]) for name, value in mask.named_buffers())
    torch.testing.assert_close(learning.mask_PT, mask.eval()(lone, 20, torch.tensor([20.0])).mask_PT)
    learning.mask_PT.sum().backward()
    assert both.intervals_P2.grad is not None and mask.perceptron[0].weight.grad is not None


def test_a_lone_proposal_still_meets_a_norm_over_all_processes() -> None:
    """The others wait for it there, however many proposals they have."""
    met: list[int] = []

    class Together(nn.BatchNorm1d):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            met.append(len(values))
            return values

    mask = LearnedMask(8, 24, gated=True, released=False).train()
    mask.perceptron[1] = Together(8)
    both = proposals()
    mask(PickedProposals(both.logits_P[:1], both.intervals_P2[:1], both.anchors_P2[:1]), 20, torch.tensor([20.0]))
    assert met == [1]
