"""Events of any length, packed: only the steps that their mask lets through are encoded.

Under an event mask the steps outside are zero vectors, and they stay zero from layer to layer. As keys they have logit
0 and value 0, so T - n of them act in every attention, of the encoder and of the decoder, as ONE key of zeros with
logit log(T - n):

    sum_j exp(l_j) v_j / (sum_j exp(l_j) + (T - n) e^0)  =  the same with one more key of l = log(T - n), v = 0.

An event of n steps therefore needs n slots and one for that key, not T. Events are sorted by length, and those of about
the same length share a batch; slots that are left over have logit -inf. Nothing is approximated. Events that keep every
step (a gated mask is nowhere zero) need neither: they share a batch with their equals, without any attention mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.model.video_encoder import Memory

ALIGNED = 16
ZERO_SLOTS = 2  # see `_log_counts`
Sizes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Packing:
    """How events are batched: slots encoded at once, and empty slots that are worth one batch fewer."""

    slots_at_once: int
    allowance: int
    floor: float = 0.0


@dataclass(frozen=True)
class PackedEvents:
    """P events with S slots each: their numbers, the step in every slot as a row of all videos' steps, its mask.

    `log_count_PS` is the log of how many steps a slot stands for; None: one each.
    """

    event_P: Tensor
    row_PS: Tensor
    mask_PS: Tensor
    log_count_PS: Tensor | None

    def of(self, layers: tuple[Tensor, ...]) -> Memory:
        """The memory that a decoder reads: all slots are there, and each counts as much as it stands for."""
        valid_PS = torch.ones_like(self.mask_PS, dtype=torch.bool)
        return Memory(layers, valid_PS, False, self.mask_PS, self.log_count_PS)


def pack(mask_PT: Tensor, video_P: Tensor, length_P: Tensor, packing: Packing) -> list[PackedEvents]:
    """Pack the events with these masks, longest first; video `video_P` has `length_P` steps, and no mask beyond."""
    kept_PT = mask_PT.abs() > packing.floor
    count_P = kept_PT.sum(dim=1)
    counts, lengths = torch.stack((count_P, length_P.to(count_P.dtype))).cpu().numpy()  # the one look at the device
    groups = plan(counts, lengths, packing)
    if all(full for _, _, full in groups):
        step_PT = torch.arange(mask_PT.shape[1], device=mask_PT.device).expand_as(mask_PT)
    else:
        step_PT = kept_PT.byte().argsort(dim=1, descending=True, stable=True)  # the kept first, in order of time
    packed = []
    for events, slots, full in groups:
        event_P = torch.from_numpy(events).to(mask_PT.device, non_blocking=True)
        slot_S = torch.arange(slots, device=mask_PT.device)
        step_PS = step_PT[event_P[:, None], slot_S.clamp(max=mask_PT.shape[1] - 1)]
        mask_PS = mask_PT[event_P[:, None], step_PS]
        if not full:
            mask_PS = mask_PS * (slot_S < count_P[event_P, None])
        log_count_PS = None if full else _log_counts(count_P[event_P], length_P[event_P], slots)
        packed.append(PackedEvents(event_P, video_P[event_P, None] * mask_PT.shape[1] + step_PS, mask_PS, log_count_PS))
    return packed


def plan(counts: Sizes, lengths: Sizes, packing: Packing) -> list[tuple[Sizes, int, bool]]:
    """(numbers of the events, slots, whether all their steps are kept) of every batch, those with most slots first.

    Neighbours in length are put together while the empty slots stay within the allowance.
    """
    full = counts == lengths
    slots = np.where(full, lengths, -(-(counts + ZERO_SLOTS) // ALIGNED) * ALIGNED)
    order = np.lexsort((~full, -slots))
    kind_changes = (np.diff(slots[order]) != 0) | (np.diff(full[order]) != 0)
    together = [[part] for part in np.split(order, np.flatnonzero(kind_changes) + 1) if len(part)]
    merged: list[list[Sizes]] = []
    for (part,) in together:
        if merged and _wasted(slots, [*merged[-1], part]) <= packing.allowance:
            merged[-1].append(part)
        else:
            merged.append([part])
    batches = []
    for parts in merged:
        events = np.concatenate(parts)
        alone = len(parts) == 1 and bool(full[events[0]])
        most = int(slots[events[0]])
        most = most if alone else -(-int(counts[events].max() + ZERO_SLOTS) // ALIGNED) * ALIGNED
        at_once = max(1, packing.slots_at_once // most)
        pieces = np.array_split(events, -(-len(events) // at_once))
        batches += [(piece, most, alone) for piece in pieces]
    return batches


def _wasted(slots: Sizes, parts: list[Sizes]) -> int:
    return sum((int(slots[parts[0][0]]) - int(slots[part[0]])) * len(part) for part in parts)


def _log_counts(count_P: Tensor, length_P: Tensor, slots: int) -> Tensor:
    """0 for a step, then the log of how many steps are zeros, then -inf.

    A bfloat16 logit is too coarse for that number: the first slot of zeros takes what bfloat16 can say, rounded down,
    the second the rest.
    """
    left_P = (length_P - count_P).float()
    coarse_P = (left_P.log() * (1 - 2**-8)).bfloat16().float()
    rest_P = (left_P - coarse_P.exp()).clamp(min=0).log()
    place_PS = torch.arange(slots, device=count_P.device) - count_P[:, None]
    table_P3 = torch.stack((torch.zeros_like(left_P), coarse_P, rest_P, torch.full_like(left_P, -torch.inf)), dim=1)
    return table_P3.gather(1, (place_PS + 1).clamp(0, 3))


def joined(memories: list[Memory]) -> Memory:
    """Memories with different numbers of slots as one; added slots count for nothing."""
    if len(memories) == 1:
        return memories[0]
    slots = max(memory.valid_BT.shape[1] for memory in memories)
    alike = all(memory.log_count_BT is None and memory.valid_BT.shape[1] == slots for memory in memories)
    counts = [_widened(_counts(memory), slots, -torch.inf) for memory in memories]
    masks = [_widened(memory.event_mask_BT, slots, 0) for memory in memories if memory.event_mask_BT is not None]
    layers = tuple(
        torch.cat([F.pad(layer, (0, 0, 0, slots - layer.shape[1])) for layer in parts])
        for parts in zip(*(memory.layers for memory in memories), strict=True)
    )
    valid_PS = torch.cat([_widened(memory.valid_BT, slots, 1) for memory in memories])
    return Memory(layers, valid_PS, False, torch.cat(masks), None if alike else torch.cat(counts))


def _counts(memory: Memory) -> Tensor:
    one = torch.zeros(memory.valid_BT.shape, device=memory.valid_BT.device)
    return one if memory.log_count_BT is None else memory.log_count_BT


def _widened(values_PS: Tensor, slots: int, value: float) -> Tensor:
    return F.pad(values_PS, (0, slots - values_PS.shape[1]), value=value)
