"""Sums over the ranks: the processes that train one model together, each with its own rows of every batch.

What a batch norm needs of the other ranks' rows are sums per channel. A process by itself has nothing to add.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def rank_count() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def sum_type(values: Tensor) -> torch.dtype:
    """The precision in which to add up: float64 for float64, else float32."""
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def summed(values: Tensor) -> Tensor:
    """The sum of a tensor over all ranks; its gradient is the sum of all ranks' gradients."""
    return values if rank_count() == 1 else _SumOverRanks.apply(values)


def shared_mean(mean: Tensor, count: Tensor, total: Tensor) -> Tensor:
    """The mean over the rows of all ranks: of this rank's `mean` of `count` rows, of `total` rows everywhere."""
    return mean if rank_count() == 1 else summed(mean * count) / total


def shared_moments(mean: Tensor, variance: Tensor, count: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and (biased) variance over the rows of all ranks, of those over this rank's."""
    if rank_count() == 1:
        return mean, variance
    common = shared_mean(mean, count, total)
    return common, shared_mean(variance + (mean - common) ** 2, count, total)


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total
