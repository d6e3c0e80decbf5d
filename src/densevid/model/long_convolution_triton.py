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
from densevid.model.long_convolution import Rectified

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
def _convolve_back_memory(
    out, gradients, kernels, sizes, heads, T, D, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, DTYPE: tl.constexpr
):
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    step = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    video = tl.program_id(2).to(tl.int64)
    there = (channel < D)[None, :]
    total = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for head in range(heads):
        K = tl.load(sizes + 4 * head)
        S = tl.load(sizes + 4 * head + 1)
        A = tl.load(sizes + 4 * head + 2)
        first = tl.load(sizes + 4 * head + 3)
        gradient = tl.load(gradients + head).to(tl.pointer_type(DTYPE)) + video * A * D
        last_anchor = step // S
        for back in range((K + S - 1) // S):
            anchor = last_anchor - back
            offset = step - anchor * S
            inside = ((anchor >= 0) & (anchor < A) & (offset < K))[:, None] & there
            weight = tl.load(kernels + (first + offset)[:, None] * D + channel[None, :], mask=inside, other=0.0)
            pulled = tl.load(gradient + anchor[:, None] * D + channel[None, :], mask=inside, other=0.0)
            total += pulled.to(tl.float32) * weight
    target = out + video * T * D + step[:, None] * D + channel[None, :]
    tl.store(target, total.to(out.dtype.element_ty), mask=(step < T)[:, None] & there)


@triton.jit
def _convolve_back_kernel(
    memory, gradient, out, B, T, A, D, K, S, PER_SPLIT, BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr
):
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    offset = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    split = tl.program_id(2)
    there = channel < D
    inside = (offset < K)[:, None] & there[None, :]
    total = tl.zeros((BLOCK_K, BLOCK_C), tl.float32)
    for video in range(split * PER_SPLIT, tl.minimum((split + 1) * PER_SPLIT, B)):
        source = memory + tl.cast(video, tl.int64) * T * D + offset[:, None] * D + channel[None, :]
        pulled = gradient + tl.cast(video, tl.int64) * A * D + channel
        for anchor in range(A):
            rows = tl.load(source + anchor * S * D, mask=inside, other=0.0).to(tl.float32)
            total += rows * tl.load(pulled + anchor * D, mask=there, other=0.0).to(tl.float32)[None, :]
    tl.store(out + split * K * D + offset[:, None] * D + channel[None, :], total, mask=inside)


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
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr,
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
        total += tl.dot(rectified, matrix, input_precision="ieee")
    target = out + row.to(tl.int64)[:, None] * R + column[None, :]
    tl.store(target, total, mask=(row < N)[:, None] & (column < R)[None, :])


@triton.jit
def _output_sums(
    rows, mean, inverse, gain, shift, gradient, out, N, D, R, PER_SPLIT,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr,
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
        plain += tl.dot(pulled, tl.where(is_open, 1.0, 0.0), input_precision="ieee")
        tilted += tl.dot(pulled, tl.where(is_open, t, 0.0), input_precision="ieee")
    target = out + split * 2 * R * D + column[:, None] * D + channel[None, :]
    inside = (column < R)[:, None] & there[None, :]
    tl.store(target, plain, mask=inside)
    tl.store(target + R * D, tilted, mask=inside)


@triton.jit
def _output_back(
    rows, mean, inverse, gain, shift, gradient, weight, constants, out, N, D, R,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr,
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
    inner = tl.dot(pulled, matrix, input_precision="ieee") + c0 + c1 * t
    result = g * i * (tl.where(v > 0, inner, 0.0) - c2 - c3 * t)
    tl.store(out + where, result.to(out.dtype.element_ty), mask=inside)


TRITON_TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


class TritonPasses:
    """`Passes` on a GPU; see there for what each method computes."""

    def convolve(
        self, memory_BTD: Tensor, kernels: Sequence[Tensor], biases: Sequence[Tensor], grid: AnchorGrid
    ) -> list[Tensor]:
        """See `Passes`."""
        memory_BTD = memory_BTD.contiguous()
        batch, steps, width = memory_BTD.shape
        outputs = []
        sizes = zip(kernels, biases, grid.strides, grid.counts(steps), strict=True)
        for kernel, bias, stride, count in sizes:
            out = memory_BTD.new_empty(batch, count, width)
            blocks = (triton.cdiv(width, 64), triton.cdiv(count, 32), batch)
            _convolve[blocks](
                memory_BTD, kernel, bias.contiguous(), out, steps, count, width, len(kernel), stride,
                BLOCK_A=32, BLOCK_C=64, num_warps=4,
            )  # fmt: skip
            outputs.append(out)
        return outputs

    def convolve_back(
        self, memory_BTD: Tensor, kernels: Sequence[Tensor], gradients: Sequence[Tensor], grid: AnchorGrid
    ) -> tuple[Tensor, list[Tensor]]:
        """See `Passes`."""
        memory_BTD = memory_BTD.contiguous()
        gradients = [gradient.to(memory_BTD.dtype).contiguous() for gradient in gradients]
        return self._memory_gradient(memory_BTD, kernels, gradients, grid), [
            self._kernel_gradient(memory_BTD, gradient, len(kernel), stride)
            for kernel, gradient, stride in zip(kernels, gradients, grid.strides, strict=True)
        ]

    def _memory_gradient(
        self, memory_BTD: Tensor, kernels: Sequence[Tensor], gradients: Sequence[Tensor], grid: AnchorGrid
    ) -> Tensor:
        batch, steps, width = memory_BTD.shape
        device = memory_BTD.device
        sizes, first = [], 0
        for kernel, stride, count in zip(kernels, grid.strides, grid.counts(steps), strict=True):
            sizes.append((len(kernel), stride, count, first))
            first += len(kernel)
        table = torch.tensor(sizes, dtype=torch.int32, device=device)
        pointers = torch.tensor([gradient.data_ptr() for gradient in gradients], dtype=torch.int64, device=device)
        out = torch.empty_like(memory_BTD)
        blocks = (triton.cdiv(width, 64), triton.cdiv(steps, 32), batch)
        _convolve_back_memory[blocks](
            out, pointers, torch.cat(list(kernels)), table, len(kernels), steps, width,
            BLOCK_T=32, BLOCK_C=64, DTYPE=TRITON_TYPES[memory_BTD.dtype], num_warps=4,
        )  # fmt: skip
        return out

    def _kernel_gradient(self, memory_BTD: Tensor, gradient_BAD: Tensor, size: int, stride: int) -> Tensor:
        batch, steps, width = memory_BTD.shape
        splits = min(batch, 16)
        per_split = triton.cdiv(batch, splits)
        block = min(16, triton.next_power_of_2(size))
        out = torch.empty(splits, size, width, device=memory_BTD.device, dtype=torch.float32)
        _convolve_back_kernel[(triton.cdiv(width, 64), triton.cdiv(size, block), splits)](
            memory_BTD, gradient_BAD, out, batch, steps, gradient_BAD.shape[1], width, size, stride, per_split,
            BLOCK_K=block, BLOCK_C=64, num_warps=4,
        )  # fmt: skip
        return out.sum(0)

    def moments(self, rows_ND: Tensor) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        sums = self._sums(_moments, rows_ND, (), 2)
        first, second = sums.double().sum(0) / len(rows_ND)
        return (first + rows_ND[0].double()).float(), (second - first**2).clamp(min=0).float()

    def rectified_sums(self, rows_ND: Tensor, norm: Rectified) -> tuple[Tensor, Tensor, Tensor]:
        """See `Passes`."""
        count, first, second = self._sums(_rectified_sums, rows_ND, _constants(norm), 3).double().sum(0).float()
        return count, first, second

    def _sums(self, kernel: Any, rows_ND: Tensor, constants: tuple[Tensor, ...], sums: int) -> Tensor:
        total, width = rows_ND.shape
        per_split = triton.cdiv(total, SPLITS)
        out = torch.empty(SPLITS, sums, width, device=rows_ND.device, dtype=torch.float32)
        blocks = (triton.cdiv(width, 128), SPLITS)
        kernel[blocks](rows_ND, *constants, out, total, width, per_split, BLOCK_R=16, BLOCK_C=128, num_warps=4)
        return out

    def output(self, rows_ND: Tensor, norm: Rectified, weight_RD: Tensor, bias_R: Tensor) -> Tensor:
        """See `Passes`."""
        total, width = rows_ND.shape
        out = torch.empty(total, len(weight_RD), device=rows_ND.device, dtype=torch.float32)
        _output[(triton.cdiv(total, 64),)](
            rows_ND, *_constants(norm), weight_RD.contiguous(), bias_R.contiguous(), out, total, width, len(weight_RD),
            BLOCK_R=64, BLOCK_C=64, PADDED=PADDED_ROWS, num_warps=4,
        )  # fmt: skip
        return out

    def output_sums(self, rows_ND: Tensor, norm: Rectified, gradient_NR: Tensor) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        total, width = rows_ND.shape
        outputs = gradient_NR.shape[1]
        per_split = triton.cdiv(total, SPLITS)
        out = torch.empty(SPLITS, 2, outputs, width, device=rows_ND.device, dtype=torch.float32)
        _output_sums[(triton.cdiv(width, 64), SPLITS)](
            rows_ND, *_constants(norm), gradient_NR.float().contiguous(), out, total, width, outputs, per_split,
            BLOCK_R=32, BLOCK_C=64, PADDED=PADDED_ROWS, num_warps=4,
        )  # fmt: skip
        plain, tilted = out.sum(0)
        return plain, tilted

    def output_back(
        self, rows_ND: Tensor, norm: Rectified, gradient_NR: Tensor, weight_RD: Tensor, constants: Sequence[Tensor]
    ) -> Tensor:
        """See `Passes`; writes over the rows."""
        total, width = rows_ND.shape
        blocks = (triton.cdiv(width, 64), triton.cdiv(total, 64))
        _output_back[blocks](
            rows_ND, *_constants(norm), gradient_NR.float().contiguous(), weight_RD.contiguous(),
            torch.stack(list(constants)), rows_ND, total, width, gradient_NR.shape[1],
            BLOCK_R=64, BLOCK_C=64, PADDED=PADDED_ROWS, num_warps=4,
        )  # fmt: skip
        return rows_ND


def _constants(norm: Rectified) -> tuple[Tensor, ...]:
    values = (norm.mean, norm.inverse_deviation, norm.gain.detach(), norm.shift.detach())
    return tuple(value.float().contiguous() for value in values)
