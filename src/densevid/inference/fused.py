"""The small steps between the matrix products of an encoder layer, each in one pass over memory where that pays.

On a GPU a batch of events holds gigabytes, and what these steps cost is how often they read and write them: there they
are compiled. On a CPU the products take all the time.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def masked_rows(rows_ND: Tensor, row_PS: Tensor, mask_PS1: Tensor) -> Tensor:
    """The rows of every event, times its mask."""
    return rows_ND[row_PS] * mask_PS1


def residual_norm(norm: nn.Module, output: Tensor, residual: Tensor) -> Tensor:
    """Psi without dropout: LayerNorm(output + residual)."""
    normed: Tensor = norm(output + residual)
    return normed.to(residual.dtype)


def masked_norm(norm: nn.Module, output: Tensor, residual: Tensor, mask_PS1: Tensor) -> Tensor:
    """Psi, then the event mask."""
    normed: Tensor = norm(output + residual)
    return normed.to(residual.dtype) * mask_PS1


class Fused:
    """These steps, compiled or as they are."""

    def __init__(self, *, compiled: bool) -> None:
        self.masked_rows, self.residual_norm, self.masked_norm = masked_rows, residual_norm, masked_norm
        if compiled:
            self.masked_rows = torch.compile(masked_rows, dynamic=True)
            self.residual_norm = torch.compile(residual_norm, dynamic=True)
            self.masked_norm = torch.compile(masked_norm, dynamic=True)

    @staticmethod
    def rectified(linear: nn.Linear, values: Tensor) -> Tensor:
        """max(0, M1 x + b1); on a GPU in the epilogue of the product."""
        if values.is_cuda and values.dtype == torch.bfloat16:
            rows = values.flatten(0, -2)
            return torch._addmm_activation(linear.bias, rows, linear.weight.t()).view(*values.shape[:-1], -1)
        return linear(values).relu_()
