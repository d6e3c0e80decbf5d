"""Folded batch norms give what the modules give, at every length and with statistics that are not 0 and 1."""

from __future__ import annotations

import pytest
import torch

from densevid.kernels.proposal_generator import FoldedHeads, folded_proposals
from densevid.model.anchors import AnchorGrid
from densevid.model.proposal_decoder import ProposalDecoder


@torch.no_grad()
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("steps", [1, 4, 9, 40])
def test_folded_heads_are_the_modules(released: bool, steps: int) -> None:
    torch.manual_seed(steps)
    decoder = ProposalDecoder(AnchorGrid.of([2, 5, 9, 16], 5), 12, released=released).eval()
    for name, values in decoder.state_dict().items():
        if "norm" in name and values.is_floating_point():
            values.copy_(torch.rand_like(values) + 0.3)
    memory = torch.randn(3, steps, 12)
    want, got = decoder(memory), FoldedHeads(decoder)(memory)
    torch.testing.assert_close(got.logits_BA, want.logits_BA, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(got.offsets_BA2, want.offsets_BA2, atol=1e-5, rtol=1e-4)
    assert torch.equal(got.anchors_A2, want.anchors_A2)


def test_a_single_convolution_has_nothing_to_fold() -> None:
    decoder = ProposalDecoder(AnchorGrid.of([2], None), 12, procnets=True).eval()
    assert folded_proposals(decoder) is decoder
