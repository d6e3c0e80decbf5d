"""The video encoder: embedded steps, optionally under an event mask, become the memory of every layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from densevid.model.layers import FeedForward, MultiHeadAttention, ResidualNorm, sinusoids


@dataclass(frozen=True)
class Memory:
    """What the encoder hands to a decoder: F^1 ... F^L, and which steps are part of the video."""

    layers: tuple[Tensor, ...]
    valid_BT: Tensor

    @property
    def last_BTD(self) -> Tensor:
        """Output of the last layer."""
        return self.layers[-1]

    def masked(self, event_mask_BT: Tensor) -> Memory:
        """Every layer times the event mask: what is outside the event becomes zero vectors."""
        return Memory(tuple(layer * event_mask_BT[..., None] for layer in self.layers), self.valid_BT)

    def select(self, index_P: Tensor) -> Memory:
        """The memory of the videos in `index_P`, one row per proposal."""
        return Memory(tuple(layer[index_P] for layer in self.layers), self.valid_BT[index_P])


class EncoderLayer(nn.Module):
    """V(F) = Psi(PF(Gamma(F)), Gamma(F)), where Gamma(F) = Psi(MA(F, F, F), F)."""

    def __init__(self, width: int, hidden: int, heads: int, dropout: float, *, released: bool) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, dropout, released=released)
        self.attention_norm = ResidualNorm(width, dropout, released=released)
        self.feed_forward = FeedForward(width, hidden)
        self.feed_forward_norm = ResidualNorm(width, dropout, released=released)

    def forward(self, steps_BTD: Tensor, attended: Tensor | None) -> Tensor:
        """One layer over all steps."""
        context_BTD = self.attention(steps_BTD, self.attention.project(steps_BTD), attended)
        gamma_BTD = self.attention_norm(context_BTD, steps_BTD)
        return self.feed_forward_norm(self.feed_forward(gamma_BTD), gamma_BTD)


class SelfAttentionEncoder(nn.Module):
    """L encoding layers over the embedded video with sinusoidal positions.

    The mask multiplies the input (after the positions) and the output of every layer, so a step outside the event is a
    zero vector that still takes softmax weight, as the paper's elementwise product leaves it. Steps that are not
    part of the video are never attended to and come out as zeros.
    """

    def __init__(
        self, layers: int, width: int, hidden: int, heads: int, dropout: float, *, released: bool = False
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(width, hidden, heads, dropout, released=released) for _ in range(layers)
        )

    def forward(self, embedded_BTD: Tensor, valid_BT: Tensor, event_mask_BT: Tensor | None = None) -> Memory:
        """Encode the whole video, or only what an event mask lets through."""
        positions_T = torch.arange(embedded_BTD.shape[1], device=embedded_BTD.device)
        kept_BT1 = (valid_BT if event_mask_BT is None else valid_BT * event_mask_BT)[..., None].to(embedded_BTD.dtype)
        steps_BTD = (embedded_BTD + sinusoids(positions_T, embedded_BTD.shape[2]).to(embedded_BTD.dtype)) * kept_BT1
        outputs = []
        for layer in self.layers:
            steps_BTD = layer(steps_BTD, valid_BT[:, None, None, :]) * kept_BT1
            outputs.append(steps_BTD)
        return Memory(tuple(outputs), valid_BT)
