"""Assigns anchors to true segments, by geometry alone, before the network runs.

A sample is one true segment. Anchors that overlap it with an IoU of 70% or more are positive, anchors that overlap
every segment of the video with less than 30% are negative; up to U of each are drawn. The draw is a hash of (seed,
epoch, sample, anchor), so it is the same on any device and for any number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.config import TrainingConfig
from densevid.intervals import temporal_iou
from densevid.model.anchors import AnchorGrid, anchor_intervals, offsets_to


@dataclass(frozen=True)
class Targets:
    """Drawn anchors of each sample, in random order; `*_present` is False where a pool had fewer than U."""

    positive_PU: Tensor
    positive_present_PU: Tensor
    offsets_PU2: Tensor
    negative_PU: Tensor
    negative_present_PU: Tensor

    @property
    def captioned_P(self) -> Tensor:
        """The anchor to caption: a random positive, which the first drawn one is."""
        return self.positive_PU[:, 0]

    @property
    def captioned_present_P(self) -> Tensor:
        """Whether the sample has a positive anchor at all."""
        return self.positive_present_PU[:, 0]


@dataclass(frozen=True)
class Truth:
    """The geometry of a batch, in steps: all events of each video, the sample's own segment, the video's length."""

    events_PG2: Tensor
    event_valid_PG: Tensor
    segment_P2: Tensor
    length_P: Tensor


@dataclass(frozen=True)
class Pools:
    """Which anchors may be drawn as positives and negatives."""

    positive_PA: Tensor
    negative_PA: Tensor


def pools(anchors_A2: Tensor, truth: Truth, config: TrainingConfig, *, released: bool = False) -> Pools:
    """Positive: IoU with the sample's segment >= .7; negative: IoU with every segment < .3.

    An anchor that ends beyond the video is in neither pool; in the release it counts as a negative.
    """
    intervals_1A2 = anchor_intervals(anchors_A2)[None]
    within_PA = intervals_1A2[..., 1] <= truth.length_P[:, None]
    own_PA = temporal_iou(intervals_1A2, truth.segment_P2[:, None]).squeeze(-1)
    all_PAG = temporal_iou(intervals_1A2, truth.events_PG2) * truth.event_valid_PG[:, None]
    far_PA = torch.maximum(all_PAG.amax(dim=-1), own_PA) < config.negative_iou
    negative_PA = far_PA | ~within_PA if released else far_PA & within_PA
    return Pools((own_PA >= config.positive_iou) & within_PA, negative_PA)


def assign(
    anchors_A2: Tensor, truth: Truth, config: TrainingConfig, draw: Sequence[Tensor], *, released: bool = False
) -> Targets:
    """Draw U positives and U negatives for each sample.

    Args:
        anchors_A2: Centers and lengths of all anchors, in steps.
        truth: The true segments and the lengths of the videos.
        config: Gives both U and the IoU thresholds.
        draw: Two P x A tables of random keys, see `random_keys`.
        released: Whether anchors beyond the video count as negatives, as in the release.
    """
    available = pools(anchors_A2, truth, config, released=released)
    positive_PU, positive_present_PU = _draw(available.positive_PA, draw[0], config.positives)
    negative_PU, negative_present_PU = _draw(available.negative_PA, draw[1], config.negatives)
    offsets_PU2 = offsets_to(anchors_A2[positive_PU], truth.segment_P2[:, None].expand(*positive_PU.shape, 2))
    return Targets(positive_PU, positive_present_PU, offsets_PU2, negative_PU, negative_present_PU)


def random_keys(seed: int, epoch: int, sample_P: Tensor, anchors: int) -> tuple[Tensor, Tensor]:
    """Two P x A tables of non-negative random integers that depend on (seed, epoch, sample, anchor) alone."""
    anchor_A = torch.arange(anchors, device=sample_P.device)
    tables = []
    for salt in (1, 2):
        start = _mix(_mix(_mix(sample_P.long() + salt) + epoch) + seed)
        tables.append(_mix(start[:, None] + anchor_A) >> 1 & 0x3FFFFFFFFFFFFFFF)
    return tables[0], tables[1]


def _draw(pool_PA: Tensor, keys_PA: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` members of each pool with the largest keys, and whether there were so many."""
    best = torch.where(pool_PA, keys_PA, -1).topk(min(count, pool_PA.shape[1]), dim=1)
    return best.indices, best.values >= 0


def _mix(values: Tensor) -> Tensor:
    """The finaliser of splitmix64, in wrapping 64-bit integers."""
    values = values + -7046029254386353131
    values = (values ^ (values >> 30 & 0x3FFFFFFFF)) * -4658895280553007687
    values = (values ^ (values >> 27 & 0x1FFFFFFFFF)) * -7723592293110705685
    return values ^ (values >> 31 & 0x1FFFFFFFF)


def count_without_positive(
    grid: AnchorGrid, steps: int, segments_S2: Tensor, length_S: Tensor, config: TrainingConfig
) -> int:
    """How many segments no anchor overlaps enough: they train scores with negatives, nothing else.

    Of the anchors of one kernel the nearest to the segment overlaps it most, so two of each kernel are enough.

    Args:
        grid: The anchors.
        steps: The length of the window.
        segments_S2: Starts and ends of S segments, in steps.
        length_S: The length of the video of each.
        config: Gives the IoU of positives.
    """
    kernel_K = torch.tensor(grid.kernels, dtype=segments_S2.dtype)
    stride_K = torch.tensor(grid.strides, dtype=segments_S2.dtype)
    last_SK = ((length_S.clamp(max=steps)[:, None] - kernel_K) / stride_K).floor()
    wanted_SK = (segments_S2.mean(dim=1, keepdim=True) - kernel_K / 2) / stride_K
    best_S = torch.zeros(len(segments_S2))
    for place_SK in (wanted_SK.floor(), wanted_SK.ceil()):
        start_SK = torch.minimum(place_SK.clamp(min=0), last_SK) * stride_K
        intervals_SK2 = torch.stack((start_SK, start_SK + kernel_K), dim=-1)
        overlap_SK = temporal_iou(intervals_SK2, segments_S2[:, None]).squeeze(-1)
        best_S = torch.maximum(best_S, (overlap_SK * (last_SK >= 0)).amax(dim=1))
    return int((best_S < config.positive_iou).sum())
