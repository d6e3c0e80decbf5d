"""The proposals' losses beyond the paper: every anchor counts, scores learn overlap, offsets raise it.

The paper draws a few anchors and asks of each whether it is an event. Recall is judged by overlap, so here the score of
every anchor inside the video learns how much its own proposal overlaps the event it fits best, and the offsets of
anchors near an event learn to overlap it more. `training.proposal_loss = "overlap"` chooses this.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.data.batches import Batch
from densevid.intervals import temporal_iou
from densevid.model.anchors import anchor_intervals
from densevid.model.proposal_decoder import Proposals
from densevid.training.ranks import share_of_count

NEAR = 0.5  # overlap of an anchor with an event from which on its offsets learn


def overlap_losses(proposals: Proposals, batch: Batch) -> tuple[Tensor, Tensor]:
    """Quality focal loss of the scores (Li et al., 2020) and 1 - GIoU of the proposals near an event.

    L_e = sum |q - P_e|^2 BCE(P_e, q) / n, where q is the overlap of the proposal with its best event and n the number
    of anchors near one; L_r is the mean over these.
    """
    anchors_1A2 = anchor_intervals(proposals.anchors_A2)[None]
    within_BA = anchors_1A2[..., 1] <= batch.valid_BT.sum(dim=1)[:, None]
    event_valid_B1G = batch.event_valid_BG[:, None]
    overlap_BA, event_BA = (temporal_iou(anchors_1A2, batch.events_BG2) * event_valid_B1G).max(dim=-1)
    near_BA = within_BA & (overlap_BA >= NEAR)
    count = share_of_count(near_BA.sum())

    intervals_BA2 = proposals.intervals_BA2.float()
    with torch.no_grad():
        quality_BA = (temporal_iou(intervals_BA2, batch.events_BG2) * event_valid_B1G).amax(dim=-1)
    logits_BA = proposals.logits_BA.float()
    unsure_BA = (quality_BA - logits_BA.sigmoid()).abs() ** 2
    score_BA = unsure_BA * F.binary_cross_entropy_with_logits(logits_BA, quality_BA, reduction="none")

    wanted_BA2 = batch.events_BG2.gather(1, event_BA[..., None].expand(-1, -1, 2))
    missed_BA = 1 - generalised_iou(intervals_BA2, wanted_BA2)
    return torch.where(within_BA, score_BA, 0).sum() / count, torch.where(near_BA, missed_BA, 0).sum() / count


def generalised_iou(first_N2: Tensor, second_N2: Tensor) -> Tensor:
    """IoU of pairs less the share of their hull that neither covers: it has a gradient where they do not touch, too."""
    shared = torch.minimum(first_N2[..., 1], second_N2[..., 1]) - torch.maximum(first_N2[..., 0], second_N2[..., 0])
    hull = torch.maximum(first_N2[..., 1], second_N2[..., 1]) - torch.minimum(first_N2[..., 0], second_N2[..., 0])
    length = first_N2.diff(dim=-1).squeeze(-1) + second_N2.diff(dim=-1).squeeze(-1)
    union = length - shared.clamp(min=0)
    tiny = torch.finfo(union.dtype).eps
    return shared.clamp(min=0) / union.clamp(min=tiny) - (hull - union) / hull.clamp(min=tiny)
