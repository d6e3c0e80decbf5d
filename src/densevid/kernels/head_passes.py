"""The passes over the large tensors of the proposal heads: what each computes, and plain torch that computes it.

`proposal_heads.py` explains which passes a head needs, and why so few; `head_passes_triton.py` has them for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.model.anchors import AnchorGrid
from densevid.model.rank_sums import sum_type

Rows = Sequence[Tensor]  # one N x D tensor per head


@dataclass(frozen=True)
class Rectified:
    """Per-channel constants, each H x D, of v = gain t + shift, t = (y - mean) inverse; the head takes max(0, v)."""

    mean: Tensor
    inverse: Tensor
    gain: Tensor
    shift: Tensor

    def standardised(self, head: int, rows_ND: Tensor) -> Tensor:
        """t of one head."""
        return (rows_ND.to(self.mean.dtype) - self.mean[head]) * self.inverse[head]

    def opened(self, head: int, standard_ND: Tensor) -> Tensor:
        """v > 0 as 0 and 1."""
        return (standard_ND * self.gain[head] + self.shift[head] > 0).to(standard_ND.dtype)


class Passes(Protocol):
    """Each method reads (and at most one writes) the large tensors of all heads once."""

    def convolve(self, memory_BTD: Tensor, kernels: Rows, bias_HD: Tensor, grid: AnchorGrid) -> list[Tensor]:
        """Depthwise convolutions, K x D kernels, each B x A x D."""

    def convolve_back(
        self, memory_BTD: Tensor, kernels: Rows, gradients: Rows, grid: AnchorGrid
    ) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the memory and of every kernel."""

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Mean and (biased) variance of every column, H x D."""

    def rectified_means(self, rows: Rows, norm: Rectified) -> tuple[Tensor, Tensor, Tensor]:
        """Means over all rows of [v > 0], [v > 0] t and [v > 0] t^2, H x D."""

    def output(self, rows: Rows, norm: Rectified, weight_HRD: Tensor, bias_HR: Tensor) -> list[Tensor]:
        """max(0, v) weight^T + bias, N x R."""

    def output_sums(self, rows: Rows, norm: Rectified, gradients: Rows) -> tuple[Tensor, Tensor]:
        """gradient^T [v > 0] and gradient^T [v > 0] t, H x R x D."""

    def output_back(
        self, rows: Rows, norm: Rectified, gradients: Rows, weight_HRD: Tensor, constants_4HD: Tensor
    ) -> list[Tensor]:
        """gain inverse ([v > 0] (gradient weight + c0 + c1 t) - c2 - c3 t); may overwrite the rows."""

    def scaled(self, head: int, rows_ND: Tensor, scale_HD: Tensor, shift_HD: Tensor) -> Tensor:
        """rows scale + shift."""


class TorchPasses:
    """The passes in plain torch: for a CPU, and to check the others."""

    def convolve(self, memory_BTD: Tensor, kernels: Rows, bias_HD: Tensor, grid: AnchorGrid) -> list[Tensor]:
        """See `Passes`."""
        memory_BDT = memory_BTD.transpose(1, 2)
        rows = zip(kernels, bias_HD, grid.strides, strict=True)
        return [_depthwise(memory_BDT, kernel, stride).transpose(1, 2) + bias for kernel, bias, stride in rows]

    def convolve_back(
        self, memory_BTD: Tensor, kernels: Rows, gradients: Rows, grid: AnchorGrid
    ) -> tuple[Tensor, list[Tensor]]:
        """See `Passes`."""
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in (memory_BTD, *kernels)]
            memory_BDT = leaves[0].transpose(1, 2)
            pairs = zip(leaves[1:], grid.strides, strict=True)
            outputs = [_depthwise(memory_BDT, kernel, stride).transpose(1, 2) for kernel, stride in pairs]
            back = torch.autograd.grad(outputs, leaves, list(gradients))
        return back[0], list(back[1:])

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        pairs = [torch.var_mean(rows_ND.to(sum_type(rows_ND)), dim=0, correction=0) for rows_ND in rows]
        return torch.stack([mean for _, mean in pairs]), torch.stack([variance for variance, _ in pairs])

    def rectified_means(self, rows: Rows, norm: Rectified) -> tuple[Tensor, Tensor, Tensor]:
        """See `Passes`."""
        means = []
        for head, rows_ND in enumerate(rows):
            standard_ND = norm.standardised(head, rows_ND)
            open_ND = norm.opened(head, standard_ND)
            means.append(torch.stack((open_ND, open_ND * standard_ND, open_ND * standard_ND**2)).mean(dim=1))
        share, first, second = torch.stack(means, dim=1)
        return share, first, second

    def output(self, rows: Rows, norm: Rectified, weight_HRD: Tensor, bias_HR: Tensor) -> list[Tensor]:
        """See `Passes`."""
        return [
            (norm.standardised(head, rows_ND) * norm.gain[head] + norm.shift[head]).relu() @ weight_HRD[head].T
            + bias_HR[head]
            for head, rows_ND in enumerate(rows)
        ]

    def output_sums(self, rows: Rows, norm: Rectified, gradients: Rows) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        sums = []
        for head, (rows_ND, gradient_NR) in enumerate(zip(rows, gradients, strict=True)):
            standard_ND = norm.standardised(head, rows_ND)
            open_ND = norm.opened(head, standard_ND)
            sums.append(gradient_NR.to(standard_ND.dtype).T @ torch.stack((open_ND, open_ND * standard_ND)))
        plain, tilted = torch.stack(sums, dim=1)
        return plain, tilted

    def output_back(
        self, rows: Rows, norm: Rectified, gradients: Rows, weight_HRD: Tensor, constants_4HD: Tensor
    ) -> list[Tensor]:
        """See `Passes`."""
        results = []
        for head, (rows_ND, gradient_NR) in enumerate(zip(rows, gradients, strict=True)):
            standard_ND = norm.standardised(head, rows_ND)
            c0, c1, c2, c3 = constants_4HD[:, head]
            inner_ND = gradient_NR.to(standard_ND.dtype) @ weight_HRD[head] + c0 + c1 * standard_ND
            gradient_ND = norm.opened(head, standard_ND) * inner_ND - c2 - c3 * standard_ND
            results.append((norm.gain[head] * norm.inverse[head] * gradient_ND).to(rows_ND.dtype))
        return results

    def scaled(self, head: int, rows_ND: Tensor, scale_HD: Tensor, shift_HD: Tensor) -> Tensor:
        """See `Passes`."""
        return (rows_ND * scale_HD[head] + shift_HD[head]).to(rows_ND.dtype)


@lru_cache(maxsize=256)  # counts of valid rows differ from batch to batch
def column(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """One number per head, H x 1; kept, so that no step copies it to the device again."""
    return torch.tensor(values, device=device, dtype=dtype)[:, None]


def row_counts(rows: Rows, dtype: torch.dtype) -> Tensor:
    """The number of rows of each head, H x 1."""
    return column(tuple(len(rows_ND) for rows_ND in rows), rows[0].device, dtype)


def _depthwise(memory_BDT: Tensor, kernel_KD: Tensor, stride: int) -> Tensor:
    return F.conv1d(memory_BDT, kernel_KD.T[:, None], stride=stride, groups=kernel_KD.shape[1])
