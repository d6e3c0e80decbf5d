"""One batch walks through: targets, the network, losses. The same function trains and validates."""

from __future__ import annotations

from torch import Tensor

from densevid.config import Config
from densevid.data.batches import Batch
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.losses import Losses, dense_losses, proposal_losses, word_loss
from densevid.training.scheduled_sampling import mix_words, sampling_ratio
from densevid.training.targets import Targets, Truth, assign, random_keys


def batch_losses(model: MaskedTransformer, batch: Batch, config: Config, epoch: int = 0) -> Losses:
    """The losses of one batch under the task of the configuration."""
    if config.training.task == "captions":
        return caption_losses(model, batch, config, epoch)
    targets = batch_targets(model, batch, config, epoch)
    valid_BT = model.seen(batch.valid_BT)
    if config.training.task == "proposals":
        proposals = model.propose(model.encode(batch.features_BTF, valid_BT, padded=batch.padded))
        score, offsets = proposal_losses(proposals, targets, config.training)
        nothing = score.new_zeros(())
        return Losses(score, offsets, nothing, nothing)
    words_BL = batch.words_BL[:, :-1]
    predictions = model(batch.features_BTF, valid_BT, targets.captioned_B, words_BL, padded=batch.padded)
    return dense_losses(predictions, targets, valid_BT, batch.words_BL, config.training)


def batch_targets(model: MaskedTransformer, batch: Batch, config: Config, epoch: int) -> Targets:
    """Draw the anchors of this epoch for every sample."""
    anchors_A2 = model.proposal_decoder.grid.anchors(batch.features_BTF.shape[1], batch.features_BTF.device)
    length_B = batch.valid_BT.sum(dim=1)
    truth = Truth(batch.events_BG2, batch.event_valid_BG, batch.segment_B2, length_B)
    draw = random_keys(config.training.seed, epoch, batch.sample_B, len(anchors_A2))
    return assign(anchors_A2, truth, config.training, draw, released=model.released)


def caption_losses(model: MaskedTransformer, batch: Batch, config: Config, epoch: int) -> Losses:
    """Caption the true segments: no proposals, the window of the segment is the mask."""
    valid_BT = model.seen(batch.valid_BT)
    video = model.encode(batch.features_BTF, valid_BT, padded=batch.padded)
    mask_BT = model.segment_mask(batch.segment_B2, batch.features_BTF.shape[1], model.window_limit(video))
    memory = model.focus(video, mask_BT)
    words_BL = batch.words_BL[:, :-1]
    logits_BLV = model.next_words(words_BL, model.caption_decoder.begin(memory))
    ratio = sampling_ratio(config.training, epoch) if model.training else 0.0
    if ratio:
        mixed_BL = mix_words(words_BL, logits_BLV.detach(), ratio)
        logits_BLV = model.next_words(mixed_BL, model.caption_decoder.begin(memory))
    everyone_B = valid_BT.any(dim=1)
    nothing = logits_BLV.new_zeros(())
    return Losses(nothing, nothing, nothing, word_loss(logits_BLV, batch.words_BL, everyone_B, config.training))


def total_loss(model: MaskedTransformer, batch: Batch, config: Config, epoch: int = 0) -> tuple[Tensor, Losses]:
    """The weighted sum to minimise, and its parts."""
    losses = batch_losses(model, batch, config, epoch)
    return losses.total(config.training), losses
