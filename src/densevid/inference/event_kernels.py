"""Triton kernels for captioning on a GPU: what stands between the matrix products, each in one pass over memory.

`attend` is the reading of an event's memory by one word (`word_decoder.py`): keys and values are the same rows, so a
tile is fetched once and used for the logits and for the weighted sum, where two products would fetch it twice.
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
def attend(
    query, memory, log_count, first_row, slots, out, query_event, query_head, HEADS,
    D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One event a program: softmax(query memory^T + log count) memory, for all heads, by running maximum and sum.

    An event's slots are rows of the memory, from its first row on; the kept steps stand first, so the maximum is finite
    from the first tile on.
    """
    event = tl.program_id(0).to(tl.int64)
    row, many = tl.load(first_row + event).to(tl.int64), tl.load(slots + event)
    head, channel = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    asked = tl.load(
        query + event * query_event + head[:, None] * query_head + channel[None, :],
        mask=(head < HEADS)[:, None] & (channel < D)[None, :],
        other=0.0,
    )
    highest = tl.full((ROWS,), -float("inf"), tl.float32)
    weights = tl.zeros((ROWS,), tl.float32)
    seen = tl.zeros((ROWS, BLOCK_D), tl.float32)
    for first in range(0, many, BLOCK_S):
        slot = first + tl.arange(0, BLOCK_S)
        there = slot < many
        wanted = there[:, None]
        if BLOCK_D != D:
            wanted = wanted & (channel < D)[None, :]
        tile = tl.load(memory + (row + slot)[:, None] * D + channel[None, :], mask=wanted, other=0.0)
        logits = tl.dot(asked, tl.trans(tile))
        logits += tl.load(log_count + row + slot, mask=there, other=-float("inf"))[None, :]
        higher = tl.maximum(highest, tl.max(logits, axis=1))
        fade = tl.exp(highest - higher)
        weight = tl.exp(logits - higher[:, None])
        weights = weights * fade + tl.sum(weight, axis=1)
        seen = tl.dot(weight.to(tile.dtype), tile, seen * fade[:, None])
        highest = higher
    seen = seen / weights[:, None]
    target = out + (event * HEADS + head)[:, None] * D + channel[None, :]
    tl.store(target, seen.to(out.dtype.element_ty), mask=(head < HEADS)[:, None] & (channel < D)[None, :])


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
