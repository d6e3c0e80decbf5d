"""The video encoder: embedded steps, optionally under an event mask, become the memory of every layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from densevid.model.attention import FeedForward, MultiHeadAttention, ResidualNorm, sinusoids
from densevid.model.tags import Tags


@dataclass(frozen=True)
class Memory:
    """What the encoder hands to a decoder: F^1 ... F^L, which steps are part of the video, and the mask it was under.

    `padded = False` promises that all steps are, which attention rewards with its fastest kernels. In a packed memory
    (`kernels/packed_events.py`) a row may stand for several steps of zeros: `log_count_BT` is the log of how many.
    `tags` are read beside the steps, by models that have them.
    """

    layers: tuple[Tensor, ...]
    valid_BT: Tensor
    padded: bool = True
    event_mask_BT: Tensor | None = None
    log_count_BT: Tensor | None = None
    tags: Tags | None = None

    @property
    def last_BTD(self) -> Tensor:
        """Output of the last layer."""
        return self.layers[-1]

    def masked(self, event_mask_BT: Tensor) -> Memory:
        """Every layer times the event mask: what is outside the event becomes zero vectors."""
        masked = tuple(layer * event_mask_BT[..., None].to(layer.dtype) for layer in self.layers)
        return replace(self, layers=masked, event_mask_BT=event_mask_BT)

    def select(self, index_P: Tensor) -> Memory:
        """The memory of the videos in `index_P`, one row per proposal."""
        layers = tuple(layer[index_P] for layer in self.layers)
        mask, log_count = (None if rows is None else rows[index_P] for rows in (self.event_mask_BT, self.log_count_BT))
        tags = None if self.tags is None else self.tags.select(index_P)
        return Memory(layers, self.valid_BT[index_P], self.padded, mask, log_count, tags)

    @property
    def attended(self) -> Tensor | None:
        """Which steps attention may look at, B x 1 x 1 x T, or what it adds to their logits; None for all, as is.

        c equal keys take c times the weight of one, exp(logit + log c).
        """
        if self.log_count_BT is not None:
            return self.log_count_BT[:, None, None, :]
        return self.valid_BT[:, None, None, :] if self.padded else None


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
    """L encoding layers over the embedded video with sinusoidal positions; dropout follows them (Vaswani et al., 5.4).

    The mask multiplies the input (after the positions) and the output of every layer, so a step outside the event is a
    zero vector that still takes softmax weight, as the paper's elementwise product leaves it. Steps that are not
    part of the video are never attended to and come out as zeros.
    """

    def __init__(
        self, layers: int, width: int, hidden: int, heads: int, dropout: float, *, released: bool = False
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(width, hidden, heads, dropout, released=released) for _ in range(layers)
        )

    def forward(
        self, embedded_BTD: Tensor, valid_BT: Tensor, event_mask_BT: Tensor | None = None, *, padded: bool = True
    ) -> Memory:
        """Encode the whole video, or only what an event mask lets through."""
        memory = Memory((), valid_BT, padded)
        steps_BTD = self.dropout(self.place(embedded_BTD))
        kept_BT = event_mask_BT if not padded else valid_BT if event_mask_BT is None else valid_BT * event_mask_BT
        steps_BTD = _keep(steps_BTD, kept_BT)
        outputs = []
        for layer in self.layers:
            steps_BTD = _keep(layer(steps_BTD, memory.attended), kept_BT)
            outputs.append(steps_BTD)
        return replace(memory, layers=tuple(outputs), event_mask_BT=event_mask_BT)

    def place(self, embedded_BTD: Tensor) -> Tensor:
        """Every step with its position added."""
        positions_T = torch.arange(embedded_BTD.shape[1], device=embedded_BTD.device)
        return embedded_BTD + sinusoids(positions_T, embedded_BTD.shape[2]).to(embedded_BTD.dtype)


def _keep(steps_BTD: Tensor, kept_BT: Tensor | None) -> Tensor:
    return steps_BTD if kept_BT is None else steps_BTD * kept_BT[..., None].to(steps_BTD.dtype)
