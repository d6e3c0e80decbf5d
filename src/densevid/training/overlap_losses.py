"""The proposals' losses beyond the paper: every anchor counts, and scores learn overlap.

The paper draws a few anchors and asks of each whether it is an event. Recall is judged by overlap, so here the score of
every anchor inside the video learns how much its own proposal overlaps the event it fits best, and the offsets of
all anchors near an event are learned. `training.proposal_loss = "overlap"` chooses this.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.data.batches import Batch
from densevid.intervals import temporal_iou
from densevid.model.anchors import anchor_intervals, offsets_to
from densevid.model.proposal_decoder import Proposals
from densevid.training.ranks import share_of_count

NEAR = 0.5  # overlap of an anchor with an event from which on its offsets learn


def overlap_losses(proposals: Proposals, batch: Batch, beta: float = 1.0) -> tuple[Tensor, Tensor]:
    """Quality focal loss of the scores (Li et al., 2020) and smooth L1 of the offsets of anchors near an event.

    L_e = sum |q - P_e|^2 BCE(P_e, q) / n, where q is the overlap of the proposal with its best event and n the number
    of anchors near one; L_r is the mean over these. (1 - IoU in its place does not learn: a proposal that is far too
    long has no gradient, and the captioner is shown it.)
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

    event_BA2 = batch.events_BG2.gather(1, event_BA[..., None].expand(-1, -1, 2))
    wanted_BA2 = torch.where(near_BA[..., None], offsets_to(proposals.anchors_A2, event_BA2), 0)
    distance_BA2 = F.smooth_l1_loss(proposals.offsets_BA2.float(), wanted_BA2, reduction="none", beta=beta)
    distance_BA = distance_BA2.mean(dim=-1)
    return torch.where(within_BA, score_BA, 0).sum() / count, torch.where(near_BA, distance_BA, 0).sum() / count
