"""Heads, grid and rows fit together."""

from __future__ import annotations

import copy

import pytest
import torch

from densevid.config import Config
from densevid.model.anchors import AnchorGrid, apply_offsets
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.proposal_decoder import ProposalDecoder, batch_norm


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


GRID, LENGTHS = AnchorGrid.of([1, 3, 8], 5), torch.tensor([20, 14, 9])
VALID = torch.arange(20) < LENGTHS[:, None]


def training_decoder() -> ProposalDecoder:
    torch.manual_seed(0)
    return ProposalDecoder(GRID, 8).double().train()


def memory_of_videos() -> torch.Tensor:
    torch.manual_seed(1)
    return (torch.randn(3, 20, 8).double() * 2 + 1) * VALID[..., None]


@pytest.mark.parametrize("masked", [True, False])
def test_padding_moves_masked_norms_not_at_all(masked: bool) -> None:
    """While training, 48 more steps of padding change nothing where norms are masked, and much where they count it."""
    memory, outputs, decoders = memory_of_videos(), [], []
    for extra in (0, 48):
        padded = torch.cat((memory, memory.new_zeros(3, extra, 8)), dim=1)
        valid = torch.arange(20 + extra) < LENGTHS[:, None]
        decoder = training_decoder()
        rows = decoder.anchor_outputs(padded, valid if masked else None).split(GRID.counts(20 + extra), dim=2)
        within = GRID.within(LENGTHS, 20)
        outputs.append([one[..., : own.shape[1]] * own[:, None] for one, own in zip(rows, within, strict=True)])
        decoders.append(decoder)
    off = max(float((one - other).detach().abs().max()) for one, other in zip(*outputs, strict=True))
    states = [torch.cat([value.flatten().double() for value in decoder.buffers()]) for decoder in decoders]
    assert (off < 1e-12) == masked and (off > 0.1) != masked
    assert torch.allclose(*states, atol=1e-12) == masked


def test_masked_norms_are_those_of_the_videos_laid_end_to_end() -> None:
    """The first norm against torch's own over the valid steps alone; with all steps valid every norm is torch's."""
    memory, decoder = memory_of_videos(), training_decoder()
    norm, plain = decoder.heads[0].input_norm, torch.nn.BatchNorm1d(8).double()
    got = batch_norm(norm, memory.transpose(1, 2), VALID).transpose(1, 2)[VALID]
    torch.testing.assert_close(got, plain(memory[VALID]))
    torch.testing.assert_close(norm.running_var, plain.running_var)
    torch.testing.assert_close(norm.running_mean, plain.running_mean)

    whole, same = training_decoder(), training_decoder()
    full = memory + 1
    torch.testing.assert_close(whole.anchor_outputs(full, torch.ones_like(VALID)), same.anchor_outputs(full))
    for one, other in zip(whole.buffers(), same.buffers(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_kernel_without_rows_has_finite_outputs_and_keeps_its_statistics() -> None:
    decoder, memory = training_decoder(), memory_of_videos().requires_grad_()
    valid = torch.arange(20) < torch.tensor([5, 4, 3])[:, None]  # all shorter than the kernel of 8
    before = copy.deepcopy(decoder.heads[2].depthwise_norm.state_dict())
    outputs = decoder.anchor_outputs(memory, valid)
    outputs.sum().backward()
    assert memory.grad is not None and torch.isfinite(memory.grad).all() and torch.isfinite(outputs).all()
    assert torch.equal(decoder.heads[2].depthwise_norm.running_mean, before["running_mean"])
    assert torch.equal(decoder.heads[2].depthwise_norm.running_var, before["running_var"])


@pytest.mark.parametrize("compat", ["paper", "released"])
@pytest.mark.parametrize("norm_padding", ["masked", "counted"])
def test_the_setting_decides_what_norms_count(compat: str, norm_padding: str) -> None:
    """With compat "released" padding is part of the video, so it counts whatever the setting."""
    model = {"width": 8, "hidden": 8, "heads": 2, "window": 20, "kernels": [1, 3, 8], "norm_padding": norm_padding}
    features = {"streams": ["one"], "widths": [4]}
    config = Config().with_values({"model": {**model, "compat": compat, "mask": "discrete"}, "features": features})
    network = MaskedTransformer(config, 20).train()
    plain = copy.deepcopy(network.proposal_decoder)
    video = network.encode(torch.randn(3, 20, 4), network.seen(VALID))
    same = torch.allclose(network.propose(video).logits_BA, plain(video.memory.last_BTD).logits_BA)
    assert same == (norm_padding == "counted" or compat == "released")
