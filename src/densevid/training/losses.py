"""The four losses: event score, boundary offsets, event mask, words; and their weighted sum.

L = 10 L_r + 1 sum_i L_m^i + 1 L_e + .25 sum_t L_c^t. The paper writes sums over steps and words, the release (whose
weights these are) takes means; `training.reduction` chooses, means by default. Nothing here waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.config import TrainingConfig
from densevid.data.vocabulary import PAD
from densevid.model.event_mask import EventMask
from densevid.model.masked_transformer import Predictions
from densevid.model.proposal_decoder import Proposals
from densevid.training.targets import Targets


@dataclass(frozen=True)
class Losses:
    """Each loss before its weight; a part that a task does not train is zero."""

    score: Tensor
    offsets: Tensor
    mask: Tensor
    words: Tensor

    def total(self, config: TrainingConfig) -> Tensor:
        """The weighted sum."""
        return (
            config.offset_weight * self.offsets
            + config.mask_weight * self.mask
            + config.score_weight * self.score
            + config.word_weight * self.words
        )

    def detached(self) -> dict[str, Tensor]:
        """The four by name, for logging."""
        return {name: getattr(self, name).detach() for name in ("score", "offsets", "mask", "words")}


def dense_losses(
    predictions: Predictions, targets: Targets, valid_BT: Tensor, words_BL: Tensor, config: TrainingConfig
) -> Losses:
    """All four, for end-to-end training; samples without a positive anchor have negatives only."""
    score, offsets = proposal_losses(predictions.proposals, targets, config)
    present_B = targets.captioned_present_B
    mask = mask_loss(predictions.event_mask, valid_BT & present_B[:, None], config)
    words = word_loss(predictions.word_logits_BLV, words_BL, present_B, config)
    return Losses(score, offsets, mask, words)


def proposal_losses(proposals: Proposals, targets: Targets, config: TrainingConfig) -> tuple[Tensor, Tensor]:
    """L_e: BCE over drawn positives and negatives. L_r: smooth L1 over both offsets of the positives."""
    drawn_BN = torch.cat((targets.positive_BU, targets.negative_BU), dim=1)
    present_BN = torch.cat((targets.positive_present_BU, targets.negative_present_BU), dim=1)
    label_BN = torch.zeros_like(present_BN, dtype=proposals.logits_BA.dtype)
    label_BN[:, : targets.positive_BU.shape[1]] = 1
    logits_BN = proposals.logits_BA.gather(1, drawn_BN)
    score = _mean(F.binary_cross_entropy_with_logits(logits_BN, label_BN, reduction="none"), present_BN)

    predicted_BU2 = proposals.offsets_BA2.gather(1, targets.positive_BU[..., None].expand(-1, -1, 2))
    distance_BU2 = F.smooth_l1_loss(predicted_BU2, targets.offsets_BU2.to(predicted_BU2.dtype), reduction="none")
    distance_BU = distance_BU2.sum(dim=-1) if config.reduction == "sum" else distance_BU2.mean(dim=-1)
    return score, _mean(distance_BU, targets.positive_present_BU)


def mask_loss(event_mask: EventMask, counted_BT: Tensor, config: TrainingConfig) -> Tensor:
    """L_m: BCE between the learned mask and the window of the predicted proposal, over the steps of the video."""
    if event_mask.soft_logits_PT is None:
        return event_mask.window_PT.new_zeros(())
    loss_BT = F.binary_cross_entropy_with_logits(event_mask.soft_logits_PT, event_mask.window_PT, reduction="none")
    return _over_sequence(loss_BT, counted_BT, config)


def word_loss(
    logits_BLV: Tensor, words_BL: Tensor, present_B: Tensor, config: TrainingConfig, smoothing: float = 0.0
) -> Tensor:
    """L_c: cross-entropy of every next word of the true sentences, which start with `<init>`; `<pad>` is left out."""
    next_BL = words_BL[:, 1:]
    loss_BL = F.cross_entropy(
        logits_BLV.flatten(0, 1).float(), next_BL.flatten(), reduction="none", label_smoothing=smoothing
    ).view_as(next_BL)
    return _over_sequence(loss_BL, (next_BL != PAD) & present_B[:, None], config)


def _over_sequence(loss_BT: Tensor, counted_BT: Tensor, config: TrainingConfig) -> Tensor:
    """Mean over all counted positions, or the sum over each row's, averaged over the rows that have any."""
    if config.reduction == "mean":
        return _mean(loss_BT, counted_BT)
    return torch.where(counted_BT, loss_BT, 0).sum() / counted_BT.any(dim=1).sum().clamp(min=1)


def _mean(loss: Tensor, counted: Tensor) -> Tensor:
    """Mean where counted; 0 where nothing is. Uncounted entries are replaced, so a non-finite one cannot leak."""
    return torch.where(counted, loss, 0).sum() / counted.sum().clamp(min=1)
