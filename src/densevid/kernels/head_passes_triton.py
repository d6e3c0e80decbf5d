"""The passes of `head_passes.py` on a GPU: which kernel runs over which tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from densevid.kernels import head_triton as triton_kernels
from densevid.kernels.head_passes import Rectified, Rows, row_counts
from densevid.model.anchors import AnchorGrid

PADDED_ROWS = 16  # outputs of a head, padded to what a matrix unit takes
SPLITS = 64


class TritonPasses:
    """`Passes` on a GPU; see there for what each method computes."""

    def convolve(self, memory_BTD: Tensor, kernels: Rows, bias_HD: Tensor, grid: AnchorGrid) -> list[Tensor]:
        """See `Passes`."""
        memory_BTD = memory_BTD.contiguous()
        batch, steps, width = memory_BTD.shape
        outputs = []
        for head, count in enumerate(grid.counts(steps)):
            out = memory_BTD.new_empty(batch, count, width)
            triton_kernels.convolve[(triton.cdiv(width, 128), triton.cdiv(count, 32), batch)](
                memory_BTD, kernels[head], bias_HD[head], out, steps, count, width, grid.kernels[head],
                grid.strides[head], BLOCK_A=32, BLOCK_C=128, num_warps=4,
            )  # fmt: skip
            outputs.append(out)
        return outputs

    def convolve_back(
        self, memory_BTD: Tensor, kernels: Rows, gradients: Rows, grid: AnchorGrid
    ) -> tuple[Tensor, list[Tensor]]:
        """See `Passes`."""
        memory_BTD = memory_BTD.contiguous()
        gradients = [gradient.to(memory_BTD.dtype).contiguous() for gradient in gradients]
        kernel_gradients = [
            self._kernel_gradient(memory_BTD, gradient, size, stride)
            for gradient, size, stride in zip(gradients, grid.kernels, grid.strides, strict=True)
        ]
        return self._memory_gradient(memory_BTD, kernels, gradients, grid), kernel_gradients

    def _memory_gradient(self, memory_BTD: Tensor, kernels: Rows, gradients: Rows, grid: AnchorGrid) -> Tensor:
        """Four heads of one stride a launch, each launch adding to what is there."""
        batch, steps, width = memory_BTD.shape
        out = torch.empty(memory_BTD.shape, device=memory_BTD.device, dtype=torch.float32)
        for launch, group in enumerate(_groups_of_four(grid.strides)):
            stride = grid.strides[group[0]]
            heads = [*group, *[group[0]] * (4 - len(group))]
            sizes = [grid.kernels[head] for head in group] + [0] * (4 - len(group))
            tiles = triton.cdiv(triton.cdiv(steps, stride), 32)
            triton_kernels.convolve_back_memory[(triton.cdiv(width, 64), tiles * stride, batch)](
                out, *(gradients[head] for head in heads), *(kernels[head] for head in heads), steps, width,
                *(gradients[head].shape[1] for head in heads), *sizes, stride, tiles,
                FIRST=launch == 0, BLOCK_T=32, BLOCK_C=64, num_warps=4,
            )  # fmt: skip
        return out.to(memory_BTD.dtype)

    def _kernel_gradient(self, memory_BTD: Tensor, gradient_BAD: Tensor, size: int, stride: int) -> Tensor:
        batch, steps, width = memory_BTD.shape
        block = min(32, triton.next_power_of_2(size))
        splits = min(batch, max(8, 128 * block // triton.next_power_of_2(size)))
        out = torch.empty(splits, size, width, device=memory_BTD.device, dtype=torch.float32)
        triton_kernels.convolve_back_kernel[(triton.cdiv(width, 64), triton.cdiv(size, block), splits)](
            memory_BTD, gradient_BAD, out, batch, steps, gradient_BAD.shape[1], width, size, stride,
            triton.cdiv(batch, splits), BLOCK_K=block, BLOCK_C=64, AT_ONCE=4, num_warps=4 if block > 4 else 1,
        )  # fmt: skip
        return out.sum(0)

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        first, second = self._means(triton_kernels.moments, rows, None, 2)
        origin = torch.stack([rows_ND[0] for rows_ND in rows]).double()
        return (first + origin).float(), (second - first**2).clamp(min=0).float()

    def rectified_means(self, rows: Rows, norm: Rectified) -> tuple[Tensor, Tensor, Tensor]:
        """See `Passes`."""
        share, first, second = self._means(triton_kernels.rectified_sums, rows, norm, 3).float()
        return share, first, second

    def _means(self, kernel: Any, rows: Rows, norm: Rectified | None, sums: int) -> Tensor:
        """Run a kernel that adds up columns in splits, and give the means as sums x H x D."""
        width = rows[0].shape[1]
        out = torch.empty(len(rows), SPLITS, sums, width, device=rows[0].device, dtype=torch.float32)
        for head, rows_ND in enumerate(rows):
            constants = () if norm is None else _constants(norm, head)
            kernel[(triton.cdiv(width, 128), SPLITS)](
                rows_ND, *constants, out[head], len(rows_ND), width, triton.cdiv(len(rows_ND), SPLITS),
                BLOCK_R=16, BLOCK_C=128, num_warps=4,
            )  # fmt: skip
        total_H1 = row_counts(rows, torch.float64)
        return (out.double().sum(1) / total_H1[:, None]).transpose(0, 1)

    def output(self, rows: Rows, norm: Rectified, weight_HRD: Tensor, bias_HR: Tensor) -> list[Tensor]:
        """See `Passes`."""
        outputs = []
        for head, rows_ND in enumerate(rows):
            total, width = rows_ND.shape
            out = torch.empty(total, weight_HRD.shape[1], device=rows_ND.device, dtype=torch.float32)
            triton_kernels.output[(triton.cdiv(total, 64),)](
                rows_ND, *_constants(norm, head), weight_HRD[head], bias_HR[head], out, total, width,
                weight_HRD.shape[1], BLOCK_R=64, BLOCK_C=64, PADDED=PADDED_ROWS, PRECISION=_precision(rows_ND),
                num_warps=4,
            )  # fmt: skip
            outputs.append(out)
        return outputs

    def output_sums(self, rows: Rows, norm: Rectified, gradients: Rows) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        width, outputs = rows[0].shape[1], gradients[0].shape[1]
        out = torch.empty(len(rows), SPLITS, 2, outputs, width, device=rows[0].device, dtype=torch.float32)
        for head, rows_ND in enumerate(rows):
            triton_kernels.output_sums[(triton.cdiv(width, 64), SPLITS)](
                rows_ND, *_constants(norm, head), gradients[head], out[head], len(rows_ND), width, outputs,
                triton.cdiv(len(rows_ND), SPLITS), BLOCK_R=32, BLOCK_C=64, PADDED=PADDED_ROWS,
                PRECISION=_precision(rows_ND), num_warps=4,
            )  # fmt: skip
        plain, tilted = out.sum(1).transpose(0, 1)
        return plain, tilted

    def output_back(
        self, rows: Rows, norm: Rectified, gradients: Rows, weight_HRD: Tensor, constants_4HD: Tensor
    ) -> list[Tensor]:
        """See `Passes`; writes over the rows."""
        constants_H4D = constants_4HD.transpose(0, 1).contiguous()
        for head, rows_ND in enumerate(rows):
            total, width = rows_ND.shape
            triton_kernels.output_back[(triton.cdiv(width, 64), triton.cdiv(total, 64))](
                rows_ND, *_constants(norm, head), gradients[head], weight_HRD[head], constants_H4D[head], rows_ND,
                total, width, weight_HRD.shape[1], BLOCK_R=64, BLOCK_C=64, PADDED=PADDED_ROWS,
                PRECISION=_precision(rows_ND), num_warps=4,
            )  # fmt: skip
        return list(rows)

    def scaled(self, head: int, rows_ND: Tensor, scale_HD: Tensor, shift_HD: Tensor) -> Tensor:
        """See `Passes`."""
        total, width = rows_ND.shape
        out = torch.empty_like(rows_ND)
        triton_kernels.scaled[(triton.cdiv(width, 128), triton.cdiv(total, 32))](
            rows_ND, scale_HD[head], shift_HD[head], out, total, width, BLOCK_R=32, BLOCK_C=128, num_warps=4
        )
        return out


def _groups_of_four(strides: Sequence[int]) -> list[list[int]]:
    """Heads of equal stride, at most four together, the most frequent small strides first."""
    groups = []
    for stride in sorted(set(strides)):
        heads = [head for head, own in enumerate(strides) if own == stride]
        groups += [heads[start : start + 4] for start in range(0, len(heads), 4)]
    return groups


def _constants(norm: Rectified, head: int) -> tuple[Tensor, ...]:
    return norm.mean[head], norm.inverse[head], norm.gain[head], norm.shift[head]


def _precision(rows_ND: Tensor) -> str:
    """Full float32 products for float32 rows; for half-precision rows the matrix units' ten bits lose nothing."""
    return "ieee" if rows_ND.dtype == torch.float32 else "tf32"
