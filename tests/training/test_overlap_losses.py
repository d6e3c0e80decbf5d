"""The overlap losses against a plain loop, and that descending them raises overlap."""

from __future__ import annotations

import math

import torch

from densevid.data.batches import Batch
from densevid.model.anchors import AnchorGrid
from densevid.model.proposal_decoder import Proposals
from densevid.training.losses import NEAR, overlap_losses

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


def test_descending_them_makes_proposals_overlap_events_and_scores_say_so() -> None:
    batch, proposals = a_batch(), some_proposals()
    optimizer = torch.optim.Adam([proposals.logits_BA, proposals.offsets_BA2], lr=0.05)
    first = sum(overlap_losses(proposals, batch)).detach()
    for _ in range(300):
        optimizer.zero_grad()
        sum(overlap_losses(proposals, batch)).backward()
        optimizer.step()
    score, missed = overlap_losses(proposals, batch)
    assert float(missed) < 1e-4 and float(score) < 0.05 * float(first)
