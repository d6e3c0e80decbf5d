"""Sums of features over any stretch of steps, as the difference of two rows of their running total."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def running_total(exact_BTF: Tensor) -> Tensor:
    """Row t is the sum of all steps before t, B x (T + 1) x F."""
    return F.pad(exact_BTF.cumsum(dim=1), (0, 0, 1, 0))


def rows_at(total_BTF: Tensor, step_BK: Tensor) -> Tensor:
    """The rows of K steps of every video, B x K x F."""
    return total_BTF.gather(1, step_BK[..., None].expand(-1, -1, total_BTF.shape[2]))
