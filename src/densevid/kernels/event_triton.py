"""Triton kernels for finding and encoding events on a GPU: what stands between the products, in one pass over memory.

`suppress` decides in one launch what would take a round of launches, and a look at the device, for every link of the
longest chain of overlaps.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def masked_rows(rows, row, mask, out, D, BLOCK: tl.constexpr):
    """One slot a program: the row that stands in it, times its mask."""
    slot = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, BLOCK)
    there = channel < D
    values = tl.load(rows + tl.load(row + slot) * D + channel, mask=there, other=0.0)
    tl.store(out + slot * D + channel, values * tl.load(mask + slot), mask=there)


@triton.jit
def masked_norm(
    output, residual, mask, gain, shift, out, D, EPS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr
):
    """LayerNorm(output + residual), times the slot's mask: one slot a program."""
    slot = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, BLOCK)
    there = channel < D
    first = tl.load(output + slot * D + channel, mask=there, other=0.0).to(tl.float32)
    total = first + tl.load(residual + slot * D + channel, mask=there, other=0.0).to(tl.float32)
    centred = tl.where(there, total - tl.sum(total, axis=0) / D, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / D + EPS)
    weight = tl.load(gain + channel, mask=there, other=0.0).to(tl.float32)
    normed = centred * scale * weight + tl.load(shift + channel, mask=there, other=0.0).to(tl.float32)
    if MASKED:
        normed *= tl.load(mask + slot).to(tl.float32)
    tl.store(out + slot * D + channel, normed.to(out.dtype.element_ty), mask=there)


@triton.jit
def suppress(overlapping, keep, C, BLOCK: tl.constexpr):
    """One video a program: candidate i stays unless an earlier one that stays overlaps it, in one walk over them."""
    video = tl.program_id(0).to(tl.int64)
    other = tl.arange(0, BLOCK)
    kept = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, C, 8):
        for step in tl.static_range(8):  # eight rows are on their way together
            candidate = first + step
            seen = (other < candidate) & (other * 0 + candidate < C)
            loses = tl.load(overlapping + (video * C + candidate) * C + other, mask=seen, other=0).to(tl.int32)
            stays = tl.max(loses * kept, axis=0) == 0
            kept = tl.where((other == candidate) & stays, 1, kept)
    tl.store(keep + video * C + other, kept.to(tl.int8), mask=other < C)
