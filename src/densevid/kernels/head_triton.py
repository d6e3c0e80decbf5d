"""Triton kernels for `head_passes_triton.py`: each reads its large tensors once, in 16-byte pieces.

Tensors are channel-last, so neighbouring lanes hold neighbouring channels everywhere; the convolutions re-read their
small input from the L1 cache, where one video's tile of channels fits. Sums are kept in float32 and added up per split.
"""

from __future__ import annotations

import triton
import triton.language as tl

SIZES = ["B", "T", "A", "A0", "A1", "A2", "A3", "K", "K0", "K1", "K2", "K3", "N", "PER_SPLIT", "tiles"]
kernel_for_any_size = triton.jit(do_not_specialize=SIZES)  # or each length and kernel size is compiled for itself


@kernel_for_any_size
def convolve(memory, kernel, bias, out, T, A, D, K, S, BLOCK_A: tl.constexpr, BLOCK_C: tl.constexpr):
    """Depthwise convolution of one head: a tile of anchors and channels a program."""
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


@kernel_for_any_size
def convolve_back_memory(
    out, g0, g1, g2, g3, k0, k1, k2, k3, T, D, A0, A1, A2, A3, K0, K1, K2, K3, S, tiles,
    FIRST: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """The memory's gradient from up to four heads of one stride, added to what is there unless FIRST."""
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


@kernel_for_any_size
def convolve_back_kernel(
    memory, gradient, out, B, T, A, D, K, S, PER_SPLIT,
    BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """The kernel's gradient of one head, added up over one split of the videos."""
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


@kernel_for_any_size
def scaled(rows, scale, shift, out, N, D, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """rows scale + shift."""
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
def _norm_constants(mean, inverse, gain, shift, channel, D):
    """The four constants of a norm for a tile of channels, as rows to be spread over the tile."""
    there = channel < D
    m = tl.load(mean + channel, mask=there, other=0.0)[None, :]
    i = tl.load(inverse + channel, mask=there, other=0.0)[None, :]
    g = tl.load(gain + channel, mask=there, other=0.0)[None, :]
    s = tl.load(shift + channel, mask=there, other=0.0)[None, :]
    return m, i, g, s


@kernel_for_any_size
def moments(rows, out, N, D, PER_SPLIT, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sums of the columns and of their squares, about the first row, over one split of the rows."""
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


@kernel_for_any_size
def rectified_sums(
    rows, mean, inverse, gain, shift, out, N, D, PER_SPLIT, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Sums of [v > 0], [v > 0] t and [v > 0] t^2 over one split of the rows."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    split = tl.program_id(1)
    there = channel < D
    m, i, g, s = _norm_constants(mean, inverse, gain, shift, channel, D)
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


@kernel_for_any_size
def output(
    rows, mean, inverse, gain, shift, weight, bias, out, N, D, R,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """max(0, v) weight^T + bias for a tile of rows."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, PADDED)
    total = tl.zeros((BLOCK_R, PADDED), tl.float32) + tl.load(bias + column, mask=column < R, other=0.0)[None, :]
    for start in range(0, D, BLOCK_C):
        channel = start + tl.arange(0, BLOCK_C)
        there = channel < D
        m, i, g, s = _norm_constants(mean, inverse, gain, shift, channel, D)
        inside = (row < N)[:, None] & there[None, :]
        values = tl.load(rows + row.to(tl.int64)[:, None] * D + channel[None, :], mask=inside, other=0.0)
        rectified = tl.maximum((values.to(tl.float32) - m) * i * g + s, 0.0)
        matrix = tl.load(
            weight + column[None, :] * D + channel[:, None], mask=there[:, None] & (column < R)[None, :], other=0.0
        )
        total += tl.dot(rectified, matrix, input_precision=PRECISION)
    target = out + row.to(tl.int64)[:, None] * R + column[None, :]
    tl.store(target, total, mask=(row < N)[:, None] & (column < R)[None, :])


@kernel_for_any_size
def output_sums(
    rows, mean, inverse, gain, shift, gradient, out, N, D, R, PER_SPLIT,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """gradient^T [v > 0] and gradient^T [v > 0] t over one split of the rows."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    split = tl.program_id(1)
    column = tl.arange(0, PADDED)
    there = channel < D
    m, i, g, s = _norm_constants(mean, inverse, gain, shift, channel, D)
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


@kernel_for_any_size
def output_back(
    rows, mean, inverse, gain, shift, gradient, weight, constants, out, N, D, R,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of the rows, from that of the output and the constants of the norms."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    row = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, PADDED)
    there = channel < D
    m, i, g, s = _norm_constants(mean, inverse, gain, shift, channel, D)
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
