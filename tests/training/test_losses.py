"""Losses against torch's own on the entries that count, and sums against means."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from densevid.config import TrainingConfig
from densevid.model.event_mask import EventMask
from densevid.model.proposal_decoder import Proposals
from densevid.training.losses import Losses, caption_loss, mask_loss, proposal_losses
from densevid.training.targets import Targets

MEAN, SUM = TrainingConfig(), replace(TrainingConfig(), reduction="sum")


def targets() -> Targets:
    present = torch.tensor([[True, True, True], [False, False, False]])
    return Targets(
        torch.tensor([[4, 1, 7], [0, 0, 0]]),
        present,
        torch.randn(2, 3, 2),
        torch.tensor([[0, 2, 3], [5, 6, 8]]),
        torch.tensor([[True, True, True], [True, True, False]]),
    )


def test_score_and_offsets_count_what_is_present() -> None:
    torch.manual_seed(0)
    proposals = Proposals(torch.randn(2, 9), torch.randn(2, 9, 2), torch.zeros(9, 2), 9)
    drawn = targets()
    score, offsets = proposal_losses(proposals, drawn, MEAN)
    logits = torch.cat((proposals.logits_BA[0, [4, 1, 7, 0, 2, 3]], proposals.logits_BA[1, [5, 6]]))
    want = F.binary_cross_entropy_with_logits(logits, torch.tensor([1.0, 1, 1, 0, 0, 0, 0, 0]))
    torch.testing.assert_close(score, want)
    torch.testing.assert_close(offsets, F.smooth_l1_loss(proposals.offsets_BA2[0, [4, 1, 7]], drawn.offsets_PU2[0]))
    summed = proposal_losses(proposals, drawn, SUM)[1]
    torch.testing.assert_close(summed, 2 * offsets)  # both offsets of an anchor, instead of their mean


def test_caption_loss_leaves_out_padding_and_samples_without_a_caption() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 4, 9)
    words = torch.tensor([[2, 5, 6, 3, 1], [2, 7, 3, 1, 1], [2, 8, 8, 8, 3]])
    present = torch.tensor([True, True, False])
    rows = torch.cat((logits[0, :3], logits[1, :2]))
    want = F.cross_entropy(rows, torch.tensor([5, 6, 3, 7, 3]))
    torch.testing.assert_close(caption_loss(logits, words, present, MEAN), want)
    torch.testing.assert_close(caption_loss(logits, words, present, SUM), want * 5 / 2)
    assert caption_loss(logits, words, torch.zeros(3, dtype=torch.bool), MEAN) == 0


def test_mask_loss_counts_steps_of_the_video() -> None:
    torch.manual_seed(0)
    soft, window = torch.randn(2, 6), (torch.rand(2, 6) > 0.5).float()
    counted = torch.arange(6) < torch.tensor([[6], [4]])
    want = F.binary_cross_entropy_with_logits(soft[counted], window[counted])
    torch.testing.assert_close(mask_loss(EventMask(window, window, soft), counted, MEAN), want)
    torch.testing.assert_close(mask_loss(EventMask(window, window, soft), counted, SUM), want * 10 / 2)
    assert mask_loss(EventMask(window, window, None), counted, MEAN) == 0


def test_a_value_that_is_not_counted_cannot_poison_the_loss() -> None:
    proposals = Proposals(torch.zeros(2, 9), torch.zeros(2, 9, 2), torch.zeros(9, 2), 9)
    drawn = targets()
    drawn.offsets_PU2[1] = torch.nan
    assert torch.isfinite(proposal_losses(proposals, drawn, MEAN)[1])


def test_the_total_has_the_papers_weights() -> None:
    losses = Losses(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0), torch.tensor(4.0))
    assert losses.total(MEAN) == 10 * 2 + 1 * 3 + 1 * 1 + 0.25 * 4
