"""The parts every box of the figure is built from: sinusoidal positions, attention, feed-forward, residual norm."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from densevid.model.rank_sums import sum_type

# cuDNN's backward gives NaN with a mask and certain lengths (torch 2.11 to 2.13, pytorch issue 196678); these do not.
TRUSTED_WITH_MASK = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """rho(pos, i) = sin(pos / 10000^(i/d)) for even i, cos(pos / 10000^((i-1)/d)) for odd i; `positions` may be real.

    The shape of `positions` gains a last axis of `width`, an odd one ends with a sine; gradients flow back.
    """
    precise = sum_type(positions)
    even = torch.arange(0, width, 2, device=positions.device, dtype=precise)
    angles = positions.to(precise)[..., None] * torch.exp(even * (-math.log(10000.0) / width))
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[..., :width]


class ReleasedLayerNorm(nn.Module):
    """The release's norm: it divides by (unbiased standard deviation + 1e-6) instead of sqrt(variance + eps)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, values: Tensor) -> Tensor:
        """Normalise the last axis."""
        centered = values - values.mean(dim=-1, keepdim=True)
        return self.weight * centered / (values.std(dim=-1, keepdim=True) + 1e-6) + self.bias


class ResidualNorm(nn.Module):
    """Psi(alpha, beta) = LayerNorm(alpha + beta), with dropout on alpha, the output of the sublayer."""

    def __init__(self, width: int, dropout: float, *, released: bool) -> None:
        super().__init__()
        self.norm = ReleasedLayerNorm(width) if released else nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sublayer_output: Tensor, residual: Tensor) -> Tensor:
        """Add and normalise."""
        return self.norm(self.dropout(sublayer_output) + residual).to(residual.dtype)


@dataclass(frozen=True)
class KeysValues:
    """Keys and values per head, B x H x T x D/H, ready to be attended to."""

    keys: Tensor
    values: Tensor

    def select(self, index_P: Tensor) -> KeysValues:
        """The rows in `index_P`."""
        return KeysValues(self.keys[index_P], self.values[index_P])

    def extended(self, later: KeysValues) -> KeysValues:
        """These, followed by later steps of the same sequences."""
        return KeysValues(torch.cat((self.keys, later.keys), dim=2), torch.cat((self.values, later.values), dim=2))


class MultiHeadAttention(nn.Module):
    """MA(q, K, V): H scaled dot-product attentions side by side; projections without bias, heads are contiguous slices.

    The logits are divided by sqrt(D / H), each head's own width; the release divides by sqrt(D).
    """

    def __init__(self, width: int, heads: int, dropout: float, *, released: bool) -> None:
        super().__init__()
        self.heads = heads
        self.scale = 1 / math.sqrt(width if released else width // heads)
        self.attention_dropout = dropout
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def project(self, memory_BTD: Tensor) -> KeysValues:
        """Keys and values of a memory: computed once, attended to many times."""
        return KeysValues(self._split(self.key(memory_BTD)), self._split(self.value(memory_BTD)))

    def forward(self, query_BQD: Tensor, memory: KeysValues, attended: Tensor | None = None) -> Tensor:
        """Attend from every query to the steps where `attended` (broadcastable to B x 1 x Q x T) is True.

        Numbers instead of truth values are added to the logits.
        """
        dropout = self.attention_dropout if self.training else 0.0
        if attended is not None and attended.dtype != torch.bool:
            attended = attended.to(query_BQD.dtype)
        with _kernels(query_BQD, attended):
            heads_BHQd = F.scaled_dot_product_attention(
                self._split(self.query(query_BQD)),
                memory.keys,
                memory.values,
                attn_mask=attended,
                dropout_p=dropout,
                scale=self.scale,
            )
        return self.output(heads_BHQd.transpose(1, 2).flatten(-2))

    def weights(self, query_BQD: Tensor, memory: KeysValues, attended: Tensor | None = None) -> Tensor:
        """Where `forward` looks, B x H x Q x T: the same attention to values that are the steps themselves."""
        steps_TT = torch.eye(memory.keys.shape[2], device=memory.keys.device, dtype=memory.keys.dtype)
        queries_BHQd = self._split(self.query(query_BQD))
        values_BHTT = steps_TT.expand(*memory.keys.shape[:2], -1, -1)
        return F.scaled_dot_product_attention(
            queries_BHQd, memory.keys, values_BHTT, attn_mask=attended, scale=self.scale
        )

    def _split(self, values_BTD: Tensor) -> Tensor:
        return values_BTD.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def _kernels(query_BQD: Tensor, attended: Tensor | None) -> AbstractContextManager[None]:
    """Where a gradient will flow back through a mask on a GPU: kernels that can be trusted with it. Else any."""
    careful = attended is not None and query_BQD.is_cuda and torch.is_grad_enabled()
    return sdpa_kernel(TRUSTED_WITH_MASK) if careful else nullcontext()


class FeedForward(nn.Module):
    """PF(gamma) = M2 max(0, M1 gamma + b1) + b2."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.expand = nn.Linear(width, hidden)
        self.contract = nn.Linear(hidden, width)

    def forward(self, values: Tensor) -> Tensor:
        """Transform every position by itself."""
        return self.contract(self.expand(values).relu())
