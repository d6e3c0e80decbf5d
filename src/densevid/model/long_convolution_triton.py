"""The passes of `long_convolution.py` as Triton kernels: each reads its large tensors once, in 16-byte pieces.

Tensors are channel-last, so neighbouring lanes hold neighbouring channels everywhere; the convolutions re-read their
small input from the L1 cache, where one video's tile of channels fits. Sums are kept in float32 and added up per split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from densevid.model.anchors import AnchorGrid
from densevid.model.long_convolution import Rectified, Rows, row_counts

PADDED_ROWS = 16  # outputs of a head, padded to what a matrix unit takes
SPLITS = 64


@triton.jit
def _convolve(memory, kernel, bias, out, T, A, D, K, S, BLOCK_A: tl.constexpr, BLOCK_C: tl.constexpr):
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    anchor = tl.program_id(1) * BLOCK_A + tl.arange(0, BLOCK_A)
    video = tl.program_id(2).to(tl.int64)
    there = channel < D
    inside = (anchor < A)[:, None] & there[None, :]
    source = memory + video * T * D + (anchor * S)[:, None] * D + channel[None, :]
    total = tl.zeros((BLOCK_A, BLOCK_C), tl.float32) + tl.load(bias + channel, mask=there, other=0.0)[None, :]
    for step in range(K):
        weight = tl.load(kernel + step * D + channel, mask=there, other=0.0)
        total += tl.load(source + step * D, mask=inside, other=0.0).to(tl.float32) * weight[None, :]
    tl.store(out + video * A * D + anchor[:, None] * D + channel[None, :], total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _pulled(total, gradient, kernel, video, residue, quotient, channel, A, D, K, S):
    """Add one head's part of the memory's gradient at steps quotient S + residue: one weight row serves the tile."""
    there = (channel < D)[None, :]
    source = gradient + video * A * D + channel[None, :]
    for back in range((K - residue + S - 1) // S):
        anchor = quotient - back
        inside = ((anchor >= 0) & (anchor < A))[:, None] & there
        weight = tl.load(kernel + (residue + back * S) * D + channel, mask=channel < D, other=0.0)
        total += tl.load(source + anchor[:, None] * D, mask=inside, other=0.0).to(tl.float32) * weight[None, :]
    return total


@triton.jit
def _convolve_back_memory(
    out, g0, g1, g2, g3, k0, k1, k2, k3, T, D, A0, A1, A2, A3, K0, K1, K2, K3, S, tiles,
    FIRST: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    residue = tl.program_id(1) // tiles
    quotient = (tl.program_id(1) % tiles) * BLOCK_T + tl.arange(0, BLOCK_T)
    video = tl.program_id(2).to(tl.int64)
    step = quotient * S + residue
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    total = _pulled(total, g0, k0, video, residue, quotient, channel, A0, D, K0, S)
    total = _pulled(total, g1, k1, video, residue, quotient, channel, A1, D, K1, S)
    total = _pulled(total, g2, k2, video, residue, quotient, channel, A2, D, K2, S)
    total = _pulled(total, g3, k3, video, residue, quotient, channel, A3, D, K3, S)
    inside = (step < T)[:, None] & (channel < D)[None, :]
    target = out + video * T * D + step[:, None] * D + channel[None, :]
    if not FIRST:
        total += tl.load(target, mask=inside, other=0.0)
    tl.store(target, total, mask=inside)


@triton.jit
def _convolve_back_kernel(
    memory, gradient, out, B, T, A, D, K, S, PER_SPLIT,
    BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    offset = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    split = tl.program_id(2)
    there = channel < D
    inside = (offset < K)[:, None] & there[None, :]
    total = tl.zeros((BLOCK_K, BLOCK_C), tl.float32)
    for video in range(split * PER_SPLIT, tl.minimum((split + 1) * PER_SPLIT, B)):
        source = memory + tl.cast(video, tl.int64) * T * D + offset[:, None] * D + channel[None, :]
        pulled = gradient + tl.cast(video, tl.int64) * A * D + channel
        whole = (A // AT_ONCE) * AT_ONCE
        for start in range(0, whole, AT_ONCE):
            for more in tl.static_range(AT_ONCE):  # several loads under way at once
                weight = tl.load(pulled + (start + more) * D, mask=there, other=0.0).to(tl.float32)
                rows = tl.load(source + (start + more) * S * D, mask=inside, other=0.0).to(tl.float32)
                total += rows * weight[None, :]
        for anchor in range(whole, A):
            weight = tl.load(pulled + anchor * D, mask=there, other=0.0).to(tl.float32)
            total += tl.load(source + anchor * S * D, mask=inside, other=0.0).to(tl.float32) * weight[None, :]
    tl.store(out + split * K * D + offset[:, None] * D + channel[None, :], total, mask=inside)


@triton.jit
def _scaled(rows, scale, shift, out, N, D, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    row = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    there = channel < D
    inside = (row < N)[:, None] & there[None, :]
    where = row.to(tl.int64)[:, None] * D + channel[None, :]
    a = tl.load(scale + channel, mask=there, other=0.0)[None, :]
    b = tl.load(shift + channel, mask=there, other=0.0)[None, :]
    values = tl.load(rows + where, mask=inside, other=0.0).to(tl.float32) * a + b
    tl.store(out + where, values.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _moments(rows, out, N, D, PER_SPLIT, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    split = tl.program_id(1)
    there = channel < D
    shift = tl.load(rows + channel, mask=there, other=0.0).to(tl.float32)[None, :]
    first = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    second = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    begin = split * PER_SPLIT
    end = tl.minimum(begin + PER_SPLIT, N)
    for start in range(begin, end, BLOCK_R):
        row = start + tl.arange(0, BLOCK_R)
        inside = (row < end)[:, None] & there[None, :]
        values = tl.load(rows + row.to(tl.int64)[:, None] * D + channel[None, :], mask=inside, other=0.0).to(tl.float32)
        values = tl.where(inside, values - shift, 0.0)
        first += values
        second += values * values
    tl.store(out + (split * 2) * D + channel, tl.sum(first, axis=0), mask=there)
    tl.store(out + (split * 2 + 1) * D + channel, tl.sum(second, axis=0), mask=there)


@triton.jit
def _rectified_sums(
    rows, mean, inverse, gain, shift, out, N, D, PER_SPLIT, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr
):
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    split = tl.program_id(1)
    there = channel < D
    m = tl.load(mean + channel, mask=there, other=0.0)[None, :]
    i = tl.load(inverse + channel, mask=there, other=0.0)[None, :]
    g = tl.load(gain + channel, mask=there, other=0.0)[None, :]
    s = tl.load(shift + channel, mask=there, other=0.0)[None, :]
    count = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    first = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    second = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    begin = split * PER_SPLIT
    end = tl.minimum(begin + PER_SPLIT, N)
    for start in range(begin, end, BLOCK_R):
        row = start + tl.arange(0, BLOCK_R)
        inside = (row < end)[:, None] & there[None, :]
        values = tl.load(rows + row.to(tl.int64)[:, None] * D + channel[None, :], mask=inside, other=0.0)
        t = (values.to(tl.float32) - m) * i
        is_open = inside & (t * g + s > 0)
        count += tl.where(is_open, 1.0, 0.0)
        first += tl.where(is_open, t, 0.0)
        second += tl.where(is_open, t * t, 0.0)
    tl.store(out + (split * 3) * D + channel, tl.sum(count, axis=0), mask=there)
    tl.store(out + (split * 3 + 1) * D + channel, tl.sum(first, axis=0), mask=there)
    tl.store(out + (split * 3 + 2) * D + channel, tl.sum(second, axis=0), mask=there)


@triton.jit
def _output(
    rows, mean, inverse, gain, shift, weight, bias, out, N, D, R,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, PADDED)
    total = tl.zeros((BLOCK_R, PADDED), tl.float32) + tl.load(bias + column, mask=column < R, other=0.0)[None, :]
    for start in range(0, D, BLOCK_C):
        channel = start + tl.arange(0, BLOCK_C)
        there = channel < D
        m = tl.load(mean + channel, mask=there, other=0.0)[None, :]
        i = tl.load(inverse + channel, mask=there, other=0.0)[None, :]
        g = tl.load(gain + channel, mask=there, other=0.0)[None, :]
        s = tl.load(shift + channel, mask=there, other=0.0)[None, :]
        inside = (row < N)[:, None] & there[None, :]
        values = tl.load(rows + row.to(tl.int64)[:, None] * D + channel[None, :], mask=inside, other=0.0)
        rectified = tl.maximum((values.to(tl.float32) - m) * i * g + s, 0.0)
        matrix = tl.load(
            weight + column[None, :] * D + channel[:, None], mask=there[:, None] & (column < R)[None, :], other=0.0
        )
        total += tl.dot(rectified, matrix, input_precision=PRECISION)
    target = out + row.to(tl.int64)[:, None] * R + column[None, :]
    tl.store(target, total, mask=(row < N)[:, None] & (column < R)[None, :])


@triton.jit
def _output_sums(
    rows, mean, inverse, gain, shift, gradient, out, N, D, R, PER_SPLIT,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    split = tl.program_id(1)
    column = tl.arange(0, PADDED)
    there = channel < D
    m = tl.load(mean + channel, mask=there, other=0.0)[None, :]
    i = tl.load(inverse + channel, mask=there, other=0.0)[None, :]
    g = tl.load(gain + channel, mask=there, other=0.0)[None, :]
    s = tl.load(shift + channel, mask=there, other=0.0)[None, :]
    plain = tl.zeros((PADDED, BLOCK_C), tl.float32)
    tilted = tl.zeros((PADDED, BLOCK_C), tl.float32)
    begin = split * PER_SPLIT
    end = tl.minimum(begin + PER_SPLIT, N)
    for start in range(begin, end, BLOCK_R):
        row = start + tl.arange(0, BLOCK_R)
        inside = (row < end)[:, None] & there[None, :]
        values = tl.load(rows + row.to(tl.int64)[:, None] * D + channel[None, :], mask=inside, other=0.0)
        t = (values.to(tl.float32) - m) * i
        is_open = inside & (t * g + s > 0)
        pulled = tl.load(
            gradient + row.to(tl.int64)[None, :] * R + column[:, None],
            mask=(row < end)[None, :] & (column < R)[:, None],
            other=0.0,
        )
        plain += tl.dot(pulled, tl.where(is_open, 1.0, 0.0), input_precision=PRECISION)
        tilted += tl.dot(pulled, tl.where(is_open, t, 0.0), input_precision=PRECISION)
    target = out + split * 2 * R * D + column[:, None] * D + channel[None, :]
    inside = (column < R)[:, None] & there[None, :]
    tl.store(target, plain, mask=inside)
    tl.store(target + R * D, tilted, mask=inside)


@triton.jit
def _output_back(
    rows, mean, inverse, gain, shift, gradient, weight, constants, out, N, D, R,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    row = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, PADDED)
    there = channel < D
    m = tl.load(mean + channel, mask=there, other=0.0)[None, :]
    i = tl.load(inverse + channel, mask=there, other=0.0)[None, :]
    g = tl.load(gain + channel, mask=there, other=0.0)[None, :]
    s = tl.load(shift + channel, mask=there, other=0.0)[None, :]
    c0 = tl.load(constants + channel, mask=there, other=0.0)[None, :]
    c1 = tl.load(constants + D + channel, mask=there, other=0.0)[None, :]
    c2 = tl.load(constants + 2 * D + channel, mask=there, other=0.0)[None, :]
    c3 = tl.load(constants + 3 * D + channel, mask=there, other=0.0)[None, :]
    inside = (row < N)[:, None] & there[None, :]
    where = row.to(tl.int64)[:, None] * D + channel[None, :]
    t = (tl.load(rows + where, mask=inside, other=0.0).to(tl.float32) - m) * i
    v = t * g + s
    pulled = tl.load(
        gradient + row.to(tl.int64)[:, None] * R + column[None, :],
        mask=(row < N)[:, None] & (column < R)[None, :],
        other=0.0,
    )
    matrix = tl.load(
        weight + column[:, None] * D + channel[None, :], mask=(column < R)[:, None] & there[None, :], other=0.0
    )
    inner = tl.dot(pulled, matrix, input_precision=PRECISION) + c0 + c1 * t
    result = g * i * (tl.where(v > 0, inner, 0.0) - c2 - c3 * t)
    tl.store(out + where, result.to(out.dtype.element_ty), mask=inside)


class TritonPasses:
    """`Passes` on a GPU; see there for what each method computes."""

    def convolve(self, memory_BTD: Tensor, kernels: Rows, bias_HD: Tensor, grid: AnchorGrid) -> list[Tensor]:
        """See `Passes`."""
        memory_BTD = memory_BTD.contiguous()
        batch, steps, width = memory_BTD.shape
        outputs = []
        for head, count in enumerate(grid.counts(steps)):
            out = memory_BTD.new_empty(batch, count, width)
            _convolve[(triton.cdiv(width, 128), triton.cdiv(count, 32), batch)](
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
            _convolve_back_memory[(triton.cdiv(width, 64), tiles * stride, batch)](
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
        _convolve_back_kernel[(triton.cdiv(width, 64), triton.cdiv(size, block), splits)](
            memory_BTD, gradient_BAD, out, batch, steps, gradient_BAD.shape[1], width, size, stride,
            triton.cdiv(batch, splits), BLOCK_K=block, BLOCK_C=64, AT_ONCE=4, num_warps=4 if block > 4 else 1,
        )  # fmt: skip
        return out.sum(0)

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        first, second = self._means(_moments, rows, None, 2)
        origin = torch.stack([rows_ND[0] for rows_ND in rows]).double()
        return (first + origin).float(), (second - first**2).clamp(min=0).float()

    def rectified_means(self, rows: Rows, norm: Rectified) -> tuple[Tensor, Tensor, Tensor]:
        """See `Passes`."""
        share, first, second = self._means(_rectified_sums, rows, norm, 3).float()
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
            _output[(triton.cdiv(total, 64),)](
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
            _output_sums[(triton.cdiv(width, 64), SPLITS)](
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
            _output_back[(triton.cdiv(width, 64), triton.cdiv(total, 64))](
                rows_ND, *_constants(norm, head), gradients[head], weight_HRD[head], constants_H4D[head], rows_ND,
                total, width, weight_HRD.shape[1], BLOCK_R=64, BLOCK_C=64, PADDED=PADDED_ROWS,
                PRECISION=_precision(rows_ND), num_warps=4,
            )  # fmt: skip
        return list(rows)

    def scaled(self, head: int, rows_ND: Tensor, scale_HD: Tensor, shift_HD: Tensor) -> Tensor:
        """See `Passes`."""
        total, width = rows_ND.shape
        out = torch.empty_like(rows_ND)
        _scaled[(triton.cdiv(width, 128), triton.cdiv(total, 32))](
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
