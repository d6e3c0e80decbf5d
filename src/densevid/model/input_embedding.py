"""Features of every stream become one vector of the model's width per step: F^0 of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class InputEmbedding(nn.Module):
    """A linear layer per stream, each to its share of the width, side by side; then dropout, then ReLU.

    It reads `context` steps around each one; what is not part of the video counts as zeros.
    """

    def __init__(
        self, stream_widths: Sequence[int], width: int, dropout: float, *, context: int = 1, released: bool = False
    ) -> None:
        super().__init__()
        self.context = context
        self.stream_widths = tuple(context * size for size in stream_widths)
        share, rest = divmod(width, len(self.stream_widths))
        shares = [share + (index < rest) for index in range(len(self.stream_widths))]
        self.streams = nn.ModuleList(nn.Linear(size, out) for size, out in zip(self.stream_widths, shares, strict=True))
        self.dropout = WholeStepDropout(dropout) if released else ChannelDropout(dropout)

    def forward(self, features_BTF: Tensor) -> Tensor:
        """B x T x F -> B x T x D."""
        if self.context > 1:
            features_BTF = self._with_neighbours(features_BTF)
        parts = features_BTF.split(self.stream_widths, dim=-1)
        embedded_BTD = torch.cat([linear(part) for linear, part in zip(self.streams, parts, strict=True)], dim=-1)
        dropped: Tensor = self.dropout(embedded_BTD)
        return dropped.relu()

    def _with_neighbours(self, features_BTF: Tensor) -> Tensor:
        """Every feature followed by its values at the neighbouring steps, B x T x (F * context)."""
        reach = self.context // 2
        return F.pad(features_BTF, (0, 0, reach, reach)).unfold(1, self.context, 1).flatten(2)


class ChannelDropout(nn.Module):
    """The paper's 1-D dropout (Gal and Ghahramani): one channel mask per video, the same at every step."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, values_BTD: Tensor) -> Tensor:
        """Drop whole channels, scaled so that the mean stays."""
        if not self.training or self.probability == 0:
            return values_BTD
        kept_B1D = values_BTD.new_empty(values_BTD.shape[0], 1, values_BTD.shape[2]).bernoulli_(1 - self.probability)
        return values_BTD * kept_B1D / (1 - self.probability)


class WholeStepDropout(nn.Module):
    """The release's dropout: whole steps vanish while training, and at test time everything is scaled by 1 - p."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, values_BTD: Tensor) -> Tensor:
        """Drop whole steps, unscaled."""
        if not self.training:
            return values_BTD * (1 - self.probability)
        return values_BTD * values_BTD.new_empty(*values_BTD.shape[:2], 1).bernoulli_(1 - self.probability)
