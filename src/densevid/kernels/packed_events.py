"""Packed events: only the steps that an event's mask lets through are encoded, with the numbers of the plain encoding.

Under an event mask the steps outside are zero vectors, and they stay zero from layer to layer. As keys they have logit
0 and value 0, so T - n of them act in every attention, of the encoder and of the decoder, as ONE key of zeros with
logit log(T - n):

    sum_j exp(l_j) v_j / (sum_j exp(l_j) + (T - n) e^0)  =  the same with one more key of l = log(T - n), v = 0.

An event of n steps therefore needs n slots and one for that key, not T. Events are sorted by length, and those of about
the same length share a batch; slots that are left over have logit -inf. Nothing is approximated. Events that keep every
step (a gated mask is nowhere zero) need neither: they share a batch with their equals, without any attention mask.

`EventEncoder` computes what does not depend on the event once per video: embedding, positions, and, because a mask m_t
scales a step and so commutes with a linear layer, the first layer's queries, keys and values: W (m_t x_t) is
m_t (W x_t). Of the later layers the three projections are one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.kernels.fused import Fused
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.recurrent import BiLSTMEncoder
from densevid.model.video_encoder import EncoderLayer, Memory

ZERO_SLOTS = 2  # see `_log_counts`
WORTH_JOINING = 0.02  # empty slots, as a share of the others, that are worth one batch fewer
Sizes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Packing:
    """How events are batched: slots encoded at once, empty ones that never matter, and what slots are a multiple of.

    Steps whose mask is at most `floor` are left out.
    """

    slots_at_once: int
    allowance: int
    aligned: int = 1
    floor: float = 0.0

    def slots(self, counts: Sizes) -> Sizes:
        """For so many steps and the zeros."""
        return -(-(counts + ZERO_SLOTS) // self.aligned) * self.aligned


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
    order = torch.from_numpy(np.concatenate([events for events, _, _ in groups]))
    order_PT: Tensor | None = None
    if not all(full for _, _, full in groups):
        order_PT = kept_PT.byte().argsort(dim=1, descending=True, stable=True)  # the kept first, in order of time
    packed = []
    pieces = order.to(mask_PT.device, non_blocking=True).split([len(events) for events, _, _ in groups])
    for event_P, (_, slots, full) in zip(pieces, groups, strict=True):
        slot_S = torch.arange(slots, device=mask_PT.device)
        if full or order_PT is None:
            step_PS, mask_PS, log_count_PS = slot_S.expand(len(event_P), -1), mask_PT[event_P, :slots], None
        else:
            step_PS = order_PT[event_P[:, None], slot_S.clamp(max=mask_PT.shape[1] - 1)]
            mask_PS = mask_PT[event_P[:, None], step_PS] * (slot_S < count_P[event_P, None])
            log_count_PS = _log_counts(count_P[event_P], length_P[event_P], slots)
        packed.append(PackedEvents(event_P, video_P[event_P, None] * mask_PT.shape[1] + step_PS, mask_PS, log_count_PS))
    return packed


def distinct_windows(window_PT: Tensor, video_P: Tensor) -> tuple[Tensor, Tensor]:
    """Proposals that differ by less than a step have one window: one row of each, and the number of every row's."""
    steps = window_PT.shape[1]
    start_P, count_P = window_PT.argmax(dim=1), window_PT.sum(dim=1).long()
    key_P = (video_P * steps + start_P) * (steps + 1) + count_P
    keys_Q, number_P = key_P.unique(return_inverse=True)
    one_Q = torch.empty_like(keys_Q).scatter_(0, number_P, torch.arange(len(key_P), device=key_P.device))
    return one_Q, number_P


def plan(counts: Sizes, lengths: Sizes, packing: Packing) -> list[tuple[Sizes, int, bool]]:
    """(numbers of the events, slots, whether all their steps are kept) of every batch, those with most slots first.

    Neighbours in length are put together while there are few empty slots.
    """
    full = counts == lengths
    slots = np.where(full, lengths, packing.slots(counts))
    order = np.lexsort((full, -slots))
    new_kind = (np.diff(slots[order]) != 0) | (np.diff(full[order]) != 0)
    groups: list[Sizes] = []
    for kind in np.split(order, np.flatnonzero(new_kind) + 1):
        together = np.concatenate((groups[-1], kind)) if groups else kind
        empty = int((packing.slots(counts[together]).max() - slots[together]).sum())
        share = 0.0 if full[together].all() else WORTH_JOINING  # those would lose attention without a mask
        if groups and empty <= packing.allowance + share * slots[together].sum():
            groups[-1] = together
        else:
            groups.append(kind)
    batches = []
    for events in groups:
        alike = bool(full[events].all()) and slots[events].min() == slots[events].max()
        most = int(slots[events[0]] if alike else packing.slots(counts[events]).max())
        pieces = np.array_split(events, -(-len(events) // max(1, packing.slots_at_once // most)))
        batches += [(piece, most, alike) for piece in pieces]
    return sorted(batches, key=lambda batch: -batch[1])


def _log_counts(count_P: Tensor, length_P: Tensor, slots: int) -> Tensor:
    """0 for a step, then the log of how many steps are zeros, then -inf.

    A bfloat16 logit is too coarse for that number: the first slot of zeros takes what bfloat16 can hold, rounded down,
    the second the rest.
    """
    left_P = (length_P - count_P).float()
    coarse_P = (left_P.log() * (1 - 2**-8)).bfloat16().float()
    rest_P = (left_P - coarse_P.exp()).clamp(min=0).log()
    place_PS = torch.arange(slots, device=count_P.device) - count_P[:, None]
    table_P3 = torch.stack((torch.zeros_like(left_P), coarse_P, rest_P, torch.full_like(left_P, -torch.inf)), dim=1)
    return table_P3.gather(1, (place_PS + 1).clamp(0, 3))


@dataclass(frozen=True)
class SharedSteps:
    """What all events of some videos share, one row per step of every video, the videos one after another."""

    rows: tuple[Tensor, ...]


class EventEncoder:
    """Encodes packed events with the self-attention encoder of a model, whose weights it puts side by side."""

    def __init__(self, model: MaskedTransformer, fused: Fused) -> None:
        assert not isinstance(model.encoder, BiLSTMEncoder)
        self.encoder, self.fused = model.encoder, fused
        self.layers: list[EncoderLayer] = list(model.encoder.layers)  # type: ignore[arg-type]
        parts = [(layer.attention.query, layer.attention.key, layer.attention.value) for layer in self.layers]
        self.projections = [torch.cat([part.weight for part in three]).detach() for three in parts]

    def share(self, video: EncodedVideo) -> SharedSteps:
        """Steps with their positions, and the first layer's queries, keys and values."""
        placed_NE = self.encoder.place(video.embedded_BTD).flatten(0, 1).to(self.projections[0].dtype)
        return SharedSteps((placed_NE, F.linear(placed_NE, self.projections[0])))

    def __call__(self, shared: SharedSteps, events: PackedEvents, out: Sequence[Tensor | None] | None = None) -> Memory:
        """F-hat of every layer, P x S x D, written to `out` where that is given; what a slot of zeros holds is zero."""
        mask_PS1 = events.mask_PS[..., None].to(shared.rows[0].dtype)
        steps_PSD, projected_PSE = (self.fused.masked_rows(rows, events.row_PS, mask_PS1) for rows in shared.rows)
        attended = events.of(()).attended
        attended = None if attended is None else attended.to(steps_PSD.dtype)
        outputs: list[Tensor] = []
        targets = out or [None] * len(self.layers)
        for layer, projection_ED, target in zip(self.layers, self.projections, targets, strict=True):
            if outputs:
                projected_PSE = F.linear(steps_PSD, projection_ED)
            steps_PSD = self._layer(layer, (steps_PSD, projected_PSE), attended, mask_PS1, target)
            outputs.append(steps_PSD)
        return events.of(tuple(outputs))

    def _layer(
        self,
        layer: EncoderLayer,
        steps: tuple[Tensor, Tensor],
        attended: Tensor | None,
        mask_PS1: Tensor,
        out: Tensor | None,
    ) -> Tensor:
        """V(F) of `EncoderLayer`, then the mask; `steps` are F and its queries, keys and values."""
        attention, fused, (steps_PSD, projected_PSE) = layer.attention, self.fused, steps
        seen_PSD = fused.self_attention(projected_PSE, attention.heads, attention.scale, attended)
        gamma_PSD = fused.residual_norm(layer.attention_norm.norm, attention.output(seen_PSD), steps_PSD)
        contracted = layer.feed_forward.contract(fused.linear_relu(layer.feed_forward.expand, gamma_PSD))
        return fused.residual_norm(layer.feed_forward_norm.norm, contracted, gamma_PSD, mask_PS1, out)


class RecurrentEventEncoder:
    """A recurrent encoder's memory, the same for all events, under each one's mask."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def share(self, video: EncodedVideo) -> SharedSteps:
        """The encoded video; its layers are one and the same."""
        return SharedSteps(tuple(layer.flatten(0, 1).to(self.dtype) for layer in video.memory.layers))

    def __call__(self, shared: SharedSteps, events: PackedEvents, out: Sequence[Tensor | None] | None = None) -> Memory:
        """Every layer times the mask."""
        mask_PS1 = events.mask_PS[..., None].to(self.dtype)
        layers = tuple(rows[events.row_PS] * mask_PS1 for rows in shared.rows)
        for layer, target in zip(layers, out or (), strict=False):
            assert target is not None
            target.copy_(layer)
        return events.of(layers)
