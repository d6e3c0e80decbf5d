"""The terms of the loss: event score, boundary offsets, event mask and captions.

L = 10 L_r + 1 sum_i L_m^i + 1 L_e + .25 sum_t L_c^t. The paper writes sums over steps and words, the release (whose
weights these are) takes means; `training.reduction` chooses, means by default. A mean is over what all ranks together
count, so the losses do not depend on how many ranks share a batch. Nothing here waits for the device.

`objective.total_loss` runs the network on a batch, computes the terms here and adds them up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.config import TrainingConfig
from densevid.data.batches import Batch
from densevid.data.vocabulary import PAD
from densevid.intervals import temporal_iou
from densevid.model.anchors import anchor_intervals, offsets_to
from densevid.model.event_mask import EventMask
from densevid.model.proposal_decoder import Proposals
from densevid.training.distributed import share_of_count
from densevid.training.targets import Targets

NEAR = 0.5  # IoU with an event from which on the offsets of an anchor learn


@dataclass(frozen=True)
class Losses:
    """Each term before its weight; one that a task does not train is zero. The names are columns of metrics.csv."""

    score: Tensor
    offsets: Tensor
    mask: Tensor
    words: Tensor  # the caption loss

    @classmethod
    def of_captions(cls, words: Tensor) -> Losses:
        """The caption loss alone."""
        zero = words.new_zeros(())
        return cls(zero, zero, zero, words)

    def total(self, config: TrainingConfig) -> Tensor:
        """The weighted sum."""
        return (
            config.offset_weight * self.offsets
            + config.mask_weight * self.mask
            + config.score_weight * self.score
            + config.word_weight * self.words
        )

    def detached(self) -> dict[str, Tensor]:
        """The four terms by name, for logging."""
        return {name: getattr(self, name).detach() for name in ("score", "offsets", "mask", "words")}


def proposal_losses(
    proposals: Proposals, targets: Targets, config: TrainingConfig, video_P: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """L_e: BCE over drawn positives and negatives. L_r: smooth L1 over both offsets of the positives.

    Args:
        proposals: Scores and offsets of all anchors of B videos.
        targets: The anchors drawn for each of P samples.
        config: Gives `reduction`.
        video_P: The row of each sample's video among the proposals; by default they correspond one to one.

    Returns:
        The score loss and the offset loss.
    """
    drawn_PN = torch.cat((targets.positive_PU, targets.negative_PU), dim=1)
    present_PN = torch.cat((targets.positive_present_PU, targets.negative_present_PU), dim=1)
    label_PN = torch.zeros_like(present_PN, dtype=proposals.logits_BA.dtype)
    label_PN[:, : targets.positive_PU.shape[1]] = 1
    logits_PN = _drawn(proposals.logits_BA[..., None], drawn_PN, video_P).squeeze(-1)
    score = _mean(F.binary_cross_entropy_with_logits(logits_PN, label_PN, reduction="none"), present_PN)

    predicted_PU2 = _drawn(proposals.offsets_BA2, targets.positive_PU, video_P)
    wanted_PU2 = targets.offsets_PU2.to(predicted_PU2.dtype)
    distance_PU2 = F.smooth_l1_loss(predicted_PU2, wanted_PU2, reduction="none")
    distance_PU = distance_PU2.sum(dim=-1) if config.reduction == "sum" else distance_PU2.mean(dim=-1)
    return score, _mean(distance_PU, targets.positive_present_PU)


def _drawn(values_BAK: Tensor, anchor_PN: Tensor, video_P: Tensor | None) -> Tensor:
    """The values of drawn anchors, P x N x K: one gather from the flat table of all videos."""
    videos, anchors, outputs = values_BAK.shape
    row_P = torch.arange(videos, device=anchor_PN.device) if video_P is None else video_P
    place_N1 = (row_P[:, None] * anchors + anchor_PN).flatten()[:, None]
    return values_BAK.reshape(-1, outputs).gather(0, place_N1.expand(-1, outputs)).view(*anchor_PN.shape, outputs)


def mask_loss(event_mask: EventMask, counted_PT: Tensor, config: TrainingConfig) -> Tensor:
    """L_m: BCE between the learned mask and the window of the predicted proposal, over the steps of the video."""
    if event_mask.soft_logits_PT is None:
        return event_mask.window_PT.new_zeros(())
    loss_PT = F.binary_cross_entropy_with_logits(event_mask.soft_logits_PT, event_mask.window_PT, reduction="none")
    return _over_sequence(loss_PT, counted_PT, config)


def caption_loss(
    logits_PLV: Tensor, words_PL: Tensor, present_P: Tensor, config: TrainingConfig, smoothing: float = 0.0
) -> Tensor:
    """L_c: cross-entropy of every next word of the true sentences, which start with `<init>`; `<pad>` is left out.

    Args:
        logits_PLV: Scores of the next word after each word but the last.
        words_PL: The true words.
        present_P: Which samples count.
        config: Gives `reduction`.
        smoothing: Label smoothing; 0 in validation, so that losses compare.
    """
    next_PL = words_PL[:, 1:]
    loss_PL = F.cross_entropy(
        logits_PLV.flatten(0, 1).float(), next_PL.flatten(), reduction="none", label_smoothing=smoothing
    ).view_as(next_PL)
    return mean_word_loss(loss_PL, words_PL, present_P, config)


def mean_word_loss(loss_PL: Tensor, words_PL: Tensor, present_P: Tensor, config: TrainingConfig) -> Tensor:
    """L_c from the loss of every next word, of which those that are `<pad>` or absent do not count."""
    return _over_sequence(loss_PL, (words_PL[:, 1:] != PAD) & present_P[:, None], config)


def _over_sequence(loss_PT: Tensor, counted_PT: Tensor, config: TrainingConfig) -> Tensor:
    """Mean over all counted positions, or the sum over each row's, averaged over the rows that have any."""
    if config.reduction == "mean":
        return _mean(loss_PT, counted_PT)
    return torch.where(counted_PT, loss_PT, 0).sum() / share_of_count(counted_PT.any(dim=1).sum())


def _mean(loss: Tensor, counted: Tensor) -> Tensor:
    """Mean where counted; 0 where nothing is. Uncounted entries are replaced, so a non-finite one cannot leak."""
    return torch.where(counted, loss, 0).sum() / share_of_count(counted.sum())


def overlap_losses(proposals: Proposals, batch: Batch) -> tuple[Tensor, Tensor]:
    """The proposals' losses with `training.proposal_loss = "overlap"`, beyond the paper: all anchors in a video count.

    Recall is measured by overlap, so the score of an anchor learns how much its own proposal overlaps its best event,
    by the quality focal loss (Li et al., 2020), and the offsets of all anchors near an event learn by smooth L1: L_e =
    sum |q - P_e|^2 BCE(P_e, q) / n, where q is the overlap of the proposal with its best event and n the number of
    anchors near one; L_r is the mean over these. (1 - IoU in place of L_r does not learn: a proposal that is far too
    long has no gradient.)

    Args:
        proposals: Scores, offsets and intervals of all anchors of B videos.
        batch: The true events and lengths of these videos.

    Returns:
        The score loss and the offset loss.
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
    error_BA = (quality_BA - logits_BA.sigmoid()).abs() ** 2
    score_BA = error_BA * F.binary_cross_entropy_with_logits(logits_BA, quality_BA, reduction="none")

    event_BA2 = batch.events_BG2.gather(1, event_BA[..., None].expand(-1, -1, 2))
    wanted_BA2 = torch.where(near_BA[..., None], offsets_to(proposals.anchors_A2, event_BA2), 0)
    distance_BA2 = F.smooth_l1_loss(proposals.offsets_BA2.float(), wanted_BA2, reduction="none")
    distance_BA = distance_BA2.mean(dim=-1)
    return torch.where(within_BA, score_BA, 0).sum() / count, torch.where(near_BA, distance_BA, 0).sum() / count
