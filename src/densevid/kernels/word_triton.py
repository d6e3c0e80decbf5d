"""Triton kernels for generating words on a GPU (`word_decoder.py`), each one launch instead of several.

`attend` is the reading of an event's memory by one word: keys and values are the same rows, so a tile is fetched once
and used for the logits and for the weighted sum, where two products would fetch it twice. Where there are few events
the slots of one are spread over several programs, and `combine` adds up what they saw. `causal_attention` is the
attention to the words so far, `most_likely` the choice of the next one.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def attend(
    query, memory, log_count, first_row, slots, out, seen_part, state_part, query_event, query_head, HEADS,
    D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK_S: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Softmax(query memory^T + log count) memory of one event, or of a part of its slots, for all heads.

    An event's slots are rows of the memory, from its first row on. Maximum and sum run along; a part may hold none but
    slots that count nothing, whose maximum stays -inf. A tile is the left operand of both products, which shares it out
    among the warps by its rows; on the right all warps would fetch the whole query for every tile.
    """
    event, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    row, many = tl.load(first_row + event).to(tl.int64), tl.load(slots + event)
    part = tl.cdiv(tl.cdiv(many, SPLITS), BLOCK_S) * BLOCK_S
    last = tl.minimum(many, (split + 1) * part)
    head, channel = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    own = (head < HEADS)[None, :] & (channel < D)[:, None]
    queries = tl.load(query + event * query_event + head[None, :] * query_head + channel[:, None], mask=own, other=0.0)
    highest = tl.full((ROWS,), -float("inf"), tl.float32)
    weights = tl.zeros((ROWS,), tl.float32)
    seen = tl.zeros((BLOCK_D, ROWS), tl.float32)
    for first in range(split * part, last, BLOCK_S):
        slot = first + tl.arange(0, BLOCK_S)
        there = slot < last
        wanted = there[:, None]
        if BLOCK_D != D:
            wanted = wanted & (channel < D)[None, :]
        tile = tl.load(memory + (row + slot)[:, None] * D + channel[None, :], mask=wanted, other=0.0)
        logits = tl.dot(tile, queries)
        logits += tl.load(log_count + row + slot, mask=there, other=-float("inf"))[:, None]
        highest, weights, weight, fade = _weighed(logits, highest, weights)
        seen = tl.dot(tl.trans(tile), weight.to(tile.dtype), seen * fade[None, :])
    if SPLITS == 1:
        target = out + (event * HEADS + head)[None, :] * D + channel[:, None]
        tl.store(target, (seen / weights[None, :]).to(out.dtype.element_ty), mask=own)
    else:
        place = (event * SPLITS + split) * HEADS + head
        tl.store(seen_part + place[None, :] * D + channel[:, None], seen, mask=own)
        tl.store(state_part + place * 2, highest, mask=head < HEADS)
        tl.store(state_part + place * 2 + 1, weights, mask=head < HEADS)


@triton.jit
def _weighed(logits, highest, weights):
    """The maximum and the sum with a tile more, the weights of the tile, and what those before it shrink by."""
    higher = tl.maximum(highest, tl.max(logits, axis=0))
    base = tl.where(higher == -float("inf"), 0.0, higher)
    fade = tl.exp(highest - base)
    weight = tl.exp(logits - base[None, :])
    return higher, weights * fade + tl.sum(weight, axis=0), weight, fade


@triton.jit
def combine(seen_part, state_part, out, HEADS, D: tl.constexpr, BLOCK_D: tl.constexpr, SPLITS: tl.constexpr):
    """What the parts of an event saw, weighted: one head of one event a program; SPLITS is a power of two."""
    event, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    channel = tl.arange(0, BLOCK_D)
    place = (event * SPLITS + tl.arange(0, SPLITS)) * HEADS + head
    highest = tl.load(state_part + place * 2)
    factor = tl.exp(highest - tl.max(highest, axis=0))
    total = tl.sum(factor * tl.load(state_part + place * 2 + 1), axis=0)
    parts = tl.load(seen_part + place[:, None] * D + channel[None, :], mask=(channel < D)[None, :], other=0.0)
    seen = tl.sum(parts * factor[:, None], axis=0) / total
    tl.store(out + (event * HEADS + head) * D + channel, seen.to(out.dtype.element_ty), mask=channel < D)


@triton.jit
def causal_attention(projected, keys, values, position, out, HEADS, LONGEST, SCALE, d: tl.constexpr,
                     BLOCK_L: tl.constexpr, BLOCK_d: tl.constexpr):  # fmt: skip
    """Attention of a word to itself and those before it, whose keys and values it joins: one head of one event."""
    event, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    now = tl.load(position).to(tl.int32)
    channel, place = tl.arange(0, BLOCK_d), tl.arange(0, BLOCK_L)
    there = channel < d
    source = projected + event * 3 * HEADS * d + head * d + channel
    query = tl.load(source, mask=there, other=0.0).to(tl.float32)
    key = tl.load(source + HEADS * d, mask=there, other=0.0)
    value = tl.load(source + 2 * HEADS * d, mask=there, other=0.0)
    cache = (event * HEADS + head) * LONGEST * d
    tl.store(keys + cache + now * d + channel, key, mask=there)
    tl.store(values + cache + now * d + channel, value, mask=there)
    before = (place < now)[:, None] & there[None, :]
    own = (place == now)[:, None]
    rows = cache + place[:, None] * d + channel[None, :]
    all_keys = tl.where(own, key[None, :], tl.load(keys + rows, mask=before, other=0.0)).to(tl.float32)
    logits = tl.where(place <= now, tl.sum(all_keys * query[None, :], axis=1) * SCALE, -float("inf"))
    weight = tl.exp(logits - tl.max(logits, axis=0))
    all_values = tl.where(own, value[None, :], tl.load(values + rows, mask=before, other=0.0)).to(tl.float32)
    seen = tl.sum(all_values * weight[:, None], axis=0) / tl.sum(weight, axis=0)
    tl.store(out + event * HEADS * d + head * d + channel, seen.to(out.dtype.element_ty), mask=there)


@triton.jit
def most_likely(logits, word, log_probability, V, FIRST, BLOCK: tl.constexpr):
    """The best word from FIRST on and its log-probability among those: one event a program."""
    event = tl.program_id(0).to(tl.int64)
    best, highest, total = 0, -float("inf"), 0.0
    for start in range(0, V, BLOCK):
        number = start + tl.arange(0, BLOCK)
        usable = (number < V) & (number >= FIRST)
        tile = tl.load(logits + event * V + number, mask=usable, other=-float("inf"))
        higher, place = tl.max(tile, axis=0, return_indices=True)
        best = tl.where(higher > highest, start + place, best)
        base = tl.maximum(highest, higher)
        total = total * tl.exp(highest - base) + tl.sum(tl.exp(tile - base), axis=0)
        highest = base
    tl.store(word + event, best.to(tl.int64))
    tl.store(log_probability + event, -tl.log(total))
