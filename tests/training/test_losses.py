"""The terms of the loss by hand, and against plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from densevid.config import TrainingConfig
from densevid.data.batches import Batch
from densevid.model.anchors import AnchorGrid
from densevid.model.event_mask import EventMask
from densevid.model.proposal_decoder import Proposals
from densevid.training.losses import NEAR, Losses, caption_loss, mask_loss, overlap_losses, proposal_losses
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


STEPS = 12
GRID = AnchorGrid.of((2, 4, 7), 2)


def a_batch() -> Batch:
    valid_BT = torch.arange(STEPS) < torch.tensor([[12], [9]])
    events_BG2 = torch.tensor([[[0.0, 4.0], [3.5, 11.0]], [[2.0, 8.0], [0.0, 0.0]]])
    event_valid_BG = torch.tensor([[True, True], [True, False]])
    nothing = torch.zeros(2, dtype=torch.long)
    return Batch(
        ["a", "b"],
        torch.empty(0),
        valid_BT,
        events_BG2,
        event_valid_BG,
        nothing,
        events_BG2[:, 0],
        nothing,
        torch.zeros(2, 1, dtype=torch.long),
    )


def some_proposals() -> Proposals:
    generator = torch.Generator().manual_seed(3)
    anchors_A2 = GRID.anchors(STEPS)
    logits_BA = torch.randn(2, len(anchors_A2), generator=generator).requires_grad_()
    offsets_BA2 = (0.3 * torch.randn(2, len(anchors_A2), 2, generator=generator)).requires_grad_()
    return Proposals(logits_BA, offsets_BA2, anchors_A2, STEPS)


def iou(a: list[float], b: list[float]) -> float:
    shared = max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    return shared / (a[1] - a[0] + b[1] - b[0] - shared)


def test_losses_are_those_of_a_plain_loop() -> None:
    batch, proposals = a_batch(), some_proposals()
    score, missed, near = 0.0, 0.0, 0
    for video, (length, events) in enumerate([(12, [[0.0, 4.0], [3.5, 11.0]]), (9, [[2.0, 8.0]])]):
        for anchor, (center, size) in enumerate(proposals.anchors_A2.tolist()):
            if center + size / 2 > length:
                continue
            shift, stretch = proposals.offsets_BA2[video, anchor].tolist()
            c, extent = center + shift * size, size * math.exp(stretch)
            proposal = [c - extent / 2, c + extent / 2]
            quality = max(iou(proposal, event) for event in events)
            p = 1 / (1 + math.exp(-proposals.logits_BA[video, anchor].item()))
            score += (quality - p) ** 2 * -(quality * math.log(p) + (1 - quality) * math.log(1 - p))
            overlaps = [iou([center - size / 2, center + size / 2], event) for event in events]
            if max(overlaps) >= NEAR:
                event = events[overlaps.index(max(overlaps))]
                wanted = ((sum(event) / 2 - center) / size, math.log((event[1] - event[0]) / size))
                errors = [abs(x - y) for x, y in zip((shift, stretch), wanted, strict=True)]
                missed += sum(0.5 * error**2 if error < 1 else error - 0.5 for error in errors) / 2
                near += 1
    assert near > 3
    found = overlap_losses(proposals, batch)
    torch.testing.assert_close(torch.stack(found).detach(), torch.tensor([score / near, missed / near]))


def test_training_on_the_losses_raises_overlap_and_scores_follow_it() -> None:
    batch, proposals = a_batch(), some_proposals()
    optimizer = torch.optim.Adam([proposals.logits_BA, proposals.offsets_BA2], lr=0.05)
    first = sum(overlap_losses(proposals, batch)).detach()
    for _ in range(300):
        optimizer.zero_grad()
        sum(overlap_losses(proposals, batch)).backward()
        optimizer.step()
    score, missed = overlap_losses(proposals, batch)
    assert float(missed.detach()) < 1e-4 and float(score.detach()) < 0.05 * float(first.detach())
