"""Proposals of one video become the few that are captioned: threshold, drop, suppress, count. Whole tensors, no loops.

The paper: proposals scored over the threshold, those that overlap a better one by 90% or more removed, at least 50
and at most 500 left. The release takes the best max(count over threshold, 200), drops what reaches outside the
video, and compares each candidate's real interval with the rounded windows of those kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.config import InferenceConfig
from densevid.intervals import suppress, temporal_iou
from densevid.model.anchors import anchor_intervals
from densevid.model.event_mask import rounded_windows
from densevid.model.proposal_decoder import Proposals

SHORTEST = 1e-3


@dataclass(frozen=True)
class Selection:
    """The chosen anchors of one video, best first, with their score and the interval to report, in steps."""

    anchor_P: Tensor
    score_P: Tensor
    reported_P2: Tensor


def select(proposals: Proposals, video: int, steps: int, config: InferenceConfig) -> Selection:
    """The paper's selection for row `video` of a batch, whose video has `steps` steps; intervals are cut to it."""
    clipped_A2 = proposals.intervals_BA2[video].clamp(min=0, max=steps)
    fits_A = anchor_intervals(proposals.anchors_A2)[:, 1] <= steps
    fits_A &= clipped_A2[:, 1] - clipped_A2[:, 0] > SHORTEST
    score_A = torch.where(fits_A, proposals.logits_BA[video].sigmoid(), -1)
    ranked = score_A.sort(descending=True, stable=True)
    usable = int(fits_A.sum())
    entering = max(int((score_A > config.score_threshold).sum()), config.min_before_suppression)

    considered = max(entering, 4 * config.min_proposals)
    while True:
        order_P = ranked.indices[: min(considered, usable)]
        overlap_PP = temporal_iou(clipped_A2[order_P], clipped_A2[order_P])
        kept_P = suppress(overlap_PP >= config.suppression_iou)
        if int(kept_P.sum()) >= config.min_proposals or considered >= usable:
            break
        considered *= 4
    rank_P = torch.arange(len(order_P), device=kept_P.device)
    kept_P &= (rank_P < entering) | (kept_P.cumsum(0) <= config.min_proposals)
    order_P = order_P[kept_P][: config.max_proposals]
    return Selection(order_P, score_A[order_P], clipped_A2[order_P])


def released_end(steps: int, seconds_per_step: float) -> float:
    """Where the release lets a video of `steps` steps end: it adds two steps in seconds, not in steps."""
    return steps + 2 * seconds_per_step


def select_released(
    proposals: Proposals, video: int, steps: int, config: InferenceConfig, seconds_per_step: float
) -> Selection:
    """The release's selection, mixed-up units of `released_end` included.

    Kernels longer than the video take no part. Its minimum of 50 never has an effect, so `min_proposals` has none here.
    """
    limit = released_end(steps, seconds_per_step)
    intervals_A2 = proposals.intervals_BA2[video]
    score_A = proposals.logits_BA[video].sigmoid()
    usable_A = proposals.anchors_A2[:, 1] <= steps
    count = max(int(((score_A > config.score_threshold) & usable_A).sum()), config.min_before_suppression)
    ranked = torch.where(usable_A, score_A, -1).sort(descending=True, stable=True)
    order_P = ranked.indices[: min(count, int(usable_A.sum()))]

    start_P, end_P = intervals_A2[order_P].unbind(-1)
    order_P = order_P[(start_P < end_P) & (start_P >= 0) & (end_P < limit)]
    windows_P2 = rounded_windows(intervals_A2[order_P], intervals_A2.new_tensor(min(limit, proposals.steps)))
    loses_PP = temporal_iou(intervals_A2[order_P].double(), windows_P2.double()) > config.suppression_iou
    kept_P = suppress(loses_PP).nonzero()[: config.max_proposals, 0]
    return Selection(order_P[kept_P], score_A[order_P[kept_P]], windows_P2[kept_P])
