"""Attention and norms against their formulas, positions against the paper's equation."""

from __future__ import annotations

import math

import pytest
import torch

from densevid.model.attention import FeedForward, MultiHeadAttention, ReleasedLayerNorm, ResidualNorm, sinusoids


@pytest.mark.parametrize("width", [12, 1, 7])
def test_sinusoids_follow_the_paper_for_real_positions(width: int) -> None:
    for position in (0.0, 1.0, 3.7, 479.0):
        want = [
            math.sin(position / 10000 ** (i / width)) if i % 2 == 0 else math.cos(position / 10000 ** ((i - 1) / width))
            for i in range(width)
        ]
        torch.testing.assert_close(sinusoids(torch.tensor(position), width), torch.tensor(want), atol=2e-5, rtol=0)


def test_gradients_reach_the_positions() -> None:
    position = torch.tensor([4.2], requires_grad=True)
    sinusoids(position, 8).sum().backward()
    assert position.grad is not None and position.grad.abs() > 0


@pytest.mark.parametrize("released", [False, True])
def test_attention_is_the_weighted_sum_of_values(released: bool) -> None:
    torch.manual_seed(0)
    width, heads = 8, 2
    attention = MultiHeadAttention(width, heads, 0.0, released=released)
    query, memory = torch.randn(1, 3, width), torch.randn(1, 5, width)
    attended = torch.tensor([True, True, False, True, True])
    got = attention(query, attention.project(memory), attended[None, None, None])

    scale = math.sqrt(width if released else width / heads)
    parts = []
    for head in range(heads):
        rows = slice(head * 4, head * 4 + 4)
        q = query[0] @ attention.query.weight[rows].T
        k, v = memory[0] @ attention.key.weight[rows].T, memory[0] @ attention.value.weight[rows].T
        logits = (q @ k.T / scale).masked_fill(~attended, -math.inf)
        parts.append(logits.softmax(-1) @ v)
    torch.testing.assert_close(got[0], torch.cat(parts, -1) @ attention.output.weight.T)


def test_released_norm_is_the_usual_one_with_a_scaled_gain() -> None:
    torch.manual_seed(0)
    values, width = torch.randn(4, 64), 64
    scaled = torch.nn.functional.layer_norm(values, (width,)) * math.sqrt((width - 1) / width)
    torch.testing.assert_close(ReleasedLayerNorm(width)(values), scaled, atol=2e-5, rtol=0)


def test_residual_norm_adds_then_normalises() -> None:
    norm = ResidualNorm(16, 0.5, released=False).eval()
    first, second = torch.randn(2, 16), torch.randn(2, 16)
    torch.testing.assert_close(norm(first, second), torch.nn.functional.layer_norm(first + second, (16,)))


def test_feed_forward_has_one_relu() -> None:
    layer = FeedForward(4, 6)
    values = torch.randn(3, 4)
    want = (values @ layer.expand.weight.T + layer.expand.bias).clamp(min=0) @ layer.contract.weight.T
    torch.testing.assert_close(layer(values), want + layer.contract.bias)
