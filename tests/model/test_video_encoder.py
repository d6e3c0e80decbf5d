"""Laws of the encoder: padding changes nothing, and what the mask hides cannot be seen."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from densevid.config import Config
from densevid.model.attention import sinusoids
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.video_encoder import SelfAttentionEncoder


@pytest.fixture
def encoder() -> SelfAttentionEncoder:
    torch.manual_seed(0)
    return SelfAttentionEncoder(2, 16, 32, 4, dropout=0.3).eval()


def everywhere(values: Tensor) -> Tensor:
    return torch.ones(values.shape[:2], dtype=torch.bool)


def test_padding_changes_nothing(encoder: SelfAttentionEncoder) -> None:
    values = torch.randn(1, 7, 16)
    padded = torch.cat((values, torch.randn(1, 5, 16)), dim=1)
    valid = torch.arange(12)[None] < 7
    short, long = encoder(values, everywhere(values)), encoder(padded, valid)
    for ours, theirs in zip(short.layers, long.layers, strict=True):
        torch.testing.assert_close(ours, theirs[:, :7], atol=1e-6, rtol=1e-5)
        assert (theirs[:, 7:] == 0).all()


def test_hidden_steps_cannot_be_seen(encoder: SelfAttentionEncoder) -> None:
    values, mask = torch.randn(1, 10, 16), (torch.arange(10) >= 4).float()[None]
    changed = values.clone()
    changed[:, :4] += 5
    ours, theirs = (encoder(v, everywhere(v), mask) for v in (values, changed))
    for a, b in zip(ours.layers, theirs.layers, strict=True):
        torch.testing.assert_close(a, b)
        assert (a[:, :4] == 0).all()


def test_masking_the_first_encoding_is_not_the_same(encoder: SelfAttentionEncoder) -> None:
    """The paper encodes again: the first encoding still knows what lies outside the event."""
    values, mask = torch.randn(1, 10, 16), (torch.arange(10) >= 4).float()[None]
    again = encoder(values, everywhere(values), mask)
    masked = encoder(values, everywhere(values)).masked(mask)
    assert (again.last_BTD - masked.last_BTD).abs().max() > 1e-2


def test_zeroed_steps_act_as_one_key_of_zeros(encoder: SelfAttentionEncoder) -> None:
    """With a 0/1 mask, n steps plus one key of zeros with value zero and logit log(T - n) give the same first layer."""
    total, inside = 10, slice(3, 7)
    values = torch.randn(1, total, 16)
    mask = torch.zeros(1, total)
    mask[:, inside] = 1
    want = encoder(values, everywhere(values), mask).layers[0][:, inside]

    layer = encoder.layers[0]
    steps = (values + sinusoids(torch.arange(total), 16))[:, inside]
    memory = layer.attention.project(torch.cat((steps, torch.zeros(1, 1, 16)), dim=1))
    weight = torch.zeros(5)
    weight[-1] = math.log(total - 4)
    context = layer.attention(steps, memory, weight.expand(4, 5))
    gamma = layer.attention_norm(context, steps)
    torch.testing.assert_close(layer.feed_forward_norm(layer.feed_forward(gamma), gamma), want, atol=1e-5, rtol=1e-5)


def test_selecting_repeats_videos(encoder: SelfAttentionEncoder) -> None:
    values = torch.randn(2, 5, 16)
    memory = encoder(values, everywhere(values)).select(torch.tensor([1, 1, 0]))
    torch.testing.assert_close(memory.last_BTD[0], memory.last_BTD[1])
    assert memory.valid_BT.shape == (3, 5)


@pytest.mark.parametrize("compat", ["paper", "released"])
def test_the_input_of_the_first_layer_is_dropped_out_in_both_encodings(compat: str) -> None:
    """After the positions and before the event mask, anew in every pass, and scaled so that the mean stays."""
    torch.manual_seed(0)
    model = {"width": 32, "hidden": 32, "heads": 4, "window": 40, "kernels": [2], "compat": compat, "dropout": 0.2}
    config = Config().with_values({"model": model, "features": {"streams": ["one"], "widths": [8]}})
    network, seen = MaskedTransformer(config, 20).train(), []
    assert isinstance(network.encoder, SelfAttentionEncoder)
    network.encoder.layers[0].register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0].detach()))
    features, everywhere_BT = torch.randn(4, 40, 8), torch.ones(4, 40, dtype=torch.bool)
    mask = (torch.arange(40) >= 10).float().expand(4, 40) * 0.5
    videos = [network.encode(features, everywhere_BT) for _ in range(2)]
    network.focus(videos[1], mask)
    placed = [network.encoder.place(video.embedded_BTD).detach() for video in videos]
    for got, whole in ((seen[0], placed[0]), (seen[1], placed[1]), (seen[2], placed[1] * mask[..., None])):
        kept, there = got != 0, whole != 0
        torch.testing.assert_close(got[kept], whole[kept] / 0.8)
        assert float((kept & there).sum() / there.sum()) == pytest.approx(0.8, abs=0.03)
    dropped = [(got == 0)[:, 10:] for got in seen]
    assert not torch.equal(dropped[0], dropped[1]) and not torch.equal(dropped[1], dropped[2])
    network.eval()
    video = network.encode(features, everywhere_BT)
    assert torch.equal(seen[3], network.encoder.place(video.embedded_BTD))
