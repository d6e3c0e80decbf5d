"""Heads, grid and rows fit together."""

from __future__ import annotations

import pytest
import torch

from densevid.model.anchors import AnchorGrid, apply_offsets
from densevid.model.proposal_decoder import ProposalDecoder


@pytest.mark.parametrize("procnets", [False, True])
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 10, 48])
def test_as_many_anchors_as_head_outputs(procnets: bool, released: bool, steps: int) -> None:
    grid = AnchorGrid.of([2, 3, 7, 20], None if procnets else 4)
    decoder = ProposalDecoder(grid, 8, procnets=procnets, released=released).eval()
    proposals = decoder(torch.randn(2, steps, 8))
    assert proposals.logits_BA.shape == (2, len(grid.anchors(steps)))
    assert proposals.offsets_BA2.shape == (2, len(grid.anchors(steps)), 2)


def test_an_anchor_sees_its_own_steps_and_no_others() -> None:
    """Perturbing one step changes the outputs of exactly the anchors that cover it."""
    torch.manual_seed(0)
    grid = AnchorGrid.of([1, 3, 8], 3)
    decoder = ProposalDecoder(grid, 4).eval()
    memory = torch.randn(1, 20, 4)
    changed = memory.clone()
    changed[0, 11] += 1
    moved = (decoder(memory).logits_BA - decoder(changed).logits_BA)[0].abs() > 1e-7
    center, length = grid.anchors(20).unbind(-1)
    covers = (center - length / 2 <= 11) & (center + length / 2 > 11)
    assert (moved & ~covers).sum() == 0 and (moved == covers).float().mean() > 0.9


def test_rows_of_the_release_mean_the_same() -> None:
    """The release writes (score, overlap, log stretch, shift); ours (score, shift, log stretch)."""
    decoder = ProposalDecoder(AnchorGrid.of([2], 50), 4, released=True).eval()
    memory = torch.randn(1, 6, 4)
    raw, proposals = decoder.anchor_outputs(memory), decoder(memory)
    torch.testing.assert_close(proposals.logits_BA, raw[:, 0])
    torch.testing.assert_close(proposals.offsets_BA2, torch.stack((raw[:, 3], raw[:, 2]), dim=-1))


def test_picking_takes_the_named_anchors_of_the_named_videos() -> None:
    decoder = ProposalDecoder(AnchorGrid.of([1, 4], 50), 4).eval()
    proposals = decoder(torch.randn(3, 9, 4))
    picked = proposals.pick(torch.tensor([2, 0]), torch.tensor([5, 11]))
    torch.testing.assert_close(picked.logits_P, torch.stack((proposals.logits_BA[2, 5], proposals.logits_BA[0, 11])))
    want = apply_offsets(proposals.anchors_A2[5], proposals.offsets_BA2[2, 5])
    torch.testing.assert_close(picked.intervals_P2[0], want)
