"""Dropout whose masks can be drawn a second time: the same seed gives the same masks in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor


class DropoutMasks:
    """Draws masks from a seed, and notes their shapes."""

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, shape: tuple[int, ...], probability: float) -> Tensor:
        """What is kept, as 0 and 1."""
        self.shapes.append(shape)
        return (torch.rand(shape, generator=self.random, dtype=torch.float64) >= probability).double()


@contextmanager
def drawn_from(masks: DropoutMasks) -> Iterator[None]:
    """Torch takes the masks of all its dropouts from `masks`: modules, attention, and `bernoulli_`."""

    def dropout(values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return values * masks(tuple(values.shape), p).to(values) / (1 - p) if training else values

    def bernoulli_(values: Tensor, p: float) -> Tensor:
        return values.copy_(masks(tuple(values.shape), 1 - p))

    def attention(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float, scale: float
    ) -> Tensor:
        kept = masks((*query.shape[:-1], key.shape[-2]), dropout_p).bool() if dropout_p else None
        if attn_mask is not None and attn_mask.dtype == torch.bool:  # this form only adds to the logits
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
        settings: dict[str, Any] = {"dropout_p": dropout_p, "dropout_mask": kept, "scale": scale}
        return torch.ops.aten._scaled_dot_product_attention_math(query, key, value, attn_mask, **settings)[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "dropout", dropout)
        patch.setattr(torch.Tensor, "bernoulli_", bernoulli_)
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
        yield
