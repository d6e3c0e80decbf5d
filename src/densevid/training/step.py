"""Scheduled sampling (Bengio et al., 2015) for caption-only training: the decoder sometimes reads its own words.

The words are guessed for all positions at once from the true sentence, then some of the true words are replaced by the
guesses and the decoder runs again: two parallel passes instead of one pass per word.

One batch walks through: targets, the network, losses. The same function trains and validates.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from densevid.config import Config, TrainingConfig
from densevid.data.batches import Batch
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.proposal_decoder import Proposals
from densevid.model.video_encoder import Memory
from densevid.training.losses import Losses, mask_loss, overlap_losses, proposal_losses, word_loss
from densevid.training.rewards import Reward, reward_loss
from densevid.training.targets import Targets, Truth, assign, random_keys


def sampling_ratio(config: TrainingConfig, epoch: int) -> float:
    """The share of words to replace: a start value that rises by a step every few epochs up to an end value."""
    if config.sampling_end == 0:
        return 0.0
    rises = epoch // config.sampling_every
    return min(config.sampling_end, config.sampling_start + rises * config.sampling_step)


def mix_words(words_BL: Tensor, logits_BLV: Tensor, ratio: float, generator: torch.Generator | None = None) -> Tensor:
    """Replace words by the most likely ones at the same position with probability `ratio`; never the first word."""
    guessed_BL = torch.cat((words_BL[:, :1], logits_BLV[:, :-1].argmax(dim=-1)), dim=1)
    chance_BL = torch.rand(words_BL.shape, generator=generator, device=words_BL.device)
    chance_BL[:, 0] = 1
    return torch.where(chance_BL < ratio, guessed_BL, words_BL)


class Objective(nn.Module):
    """What is minimised, as a module, so that DistributedDataParallel can stand around it.

    With a reward, sentences learn from it instead of from the true words, while training.
    """

    def __init__(self, model: MaskedTransformer, config: Config, reward: Reward | None = None) -> None:
        super().__init__()
        self.model, self.config, self.reward = model, config, reward

    def forward(self, batch: Batch, epoch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted sum, and its parts by name."""
        total, losses = total_loss(self.model, batch, self.config, epoch, self.reward)
        return total, losses.detached()


def total_loss(
    model: MaskedTransformer, batch: Batch, config: Config, epoch: int = 0, reward: Reward | None = None
) -> tuple[Tensor, Losses]:
    """The weighted sum to minimise, and its parts.

    Where clips stand beside a batch, they alone are rewarded: the segments of composed videos have no document. Where
    they alone teach words, and nothing but words is learnt, composed videos are not read.
    """
    settings = config.training
    if batch.clips is None or settings.task == "proposals":
        losses = batch_losses(model, batch, config, epoch, reward)
    elif settings.task == "captions" and settings.clip_share == 1:
        losses = words_alone(clip_loss(model, batch.clips, config, epoch, reward))
    else:
        losses = batch_losses(model, batch, config, epoch)
        words = clip_loss(model, batch.clips, config, epoch, reward)
        losses = replace(losses, words=losses.words.lerp(words, settings.clip_share))
    return losses.total(settings), losses


def batch_losses(
    model: MaskedTransformer, batch: Batch, config: Config, epoch: int = 0, reward: Reward | None = None
) -> Losses:
    """The losses of one batch under the task of the configuration."""
    if config.training.task == "captions":
        return caption_losses(model, batch, config, epoch, reward)
    targets = batch_targets(model, batch, config, epoch)
    if config.training.task == "proposals":
        return only_proposal_losses(model, batch, targets, config)
    return dense_losses(model, batch, targets, config, reward)


def dense_losses(
    model: MaskedTransformer, batch: Batch, targets: Targets, config: Config, reward: Reward | None = None
) -> Losses:
    """All four, end to end; samples without a positive anchor have negatives only."""
    features_BTF, valid_BT = batch.features_BTF.float(), model.seen(batch.valid_BT)
    words_PL = batch.words_PL[:, :-1]
    predictions = model(features_BTF, valid_BT, targets.captioned_P, words_PL, batch.video_P, padded=batch.padded)
    score, offsets = _proposal_losses(predictions.proposals, batch, targets, config)
    present_P = targets.captioned_present_P
    counted_PT = batch.of_segments(valid_BT) & present_P[:, None]
    mask = mask_loss(predictions.event_mask, counted_PT, config.training)
    if reward is not None and model.training:
        words = reward_loss(model, predictions.memory, batch, present_P, reward)
    else:
        words = _word_loss(model, predictions.word_logits_PLV, batch, present_P, config)
    return Losses(score, offsets, mask, words)


def only_proposal_losses(model: MaskedTransformer, batch: Batch, targets: Targets, config: Config) -> Losses:
    """Score and offsets: nothing is captioned."""
    proposals = model.propose(model.encode(batch.features_BTF.float(), model.seen(batch.valid_BT), padded=batch.padded))
    score, offsets = _proposal_losses(proposals, batch, targets, config)
    nothing = score.new_zeros(())
    return Losses(score, offsets, nothing, nothing)


def _proposal_losses(proposals: Proposals, batch: Batch, targets: Targets, config: Config) -> tuple[Tensor, Tensor]:
    """Of the score and of the offsets: over the drawn anchors as in the paper, or over all of them."""
    if config.training.proposal_loss == "overlap":
        return overlap_losses(proposals, batch, config.training.offset_beta)
    return proposal_losses(proposals, targets, config.training, batch.video_P)


def batch_targets(model: MaskedTransformer, batch: Batch, config: Config, epoch: int) -> Targets:
    """Draw the anchors of this epoch for every sample."""
    anchors_A2 = model.proposal_decoder.grid.anchors(batch.valid_BT.shape[1], batch.valid_BT.device)
    events_PG2, event_valid_PG = batch.of_segments(batch.events_BG2), batch.of_segments(batch.event_valid_BG)
    length_P = batch.of_segments(batch.valid_BT.sum(dim=1))
    truth = Truth(events_PG2, event_valid_PG, batch.segment_P2, length_P)
    draw = random_keys(config.training.seed, epoch, batch.sample_P, len(anchors_A2))
    return assign(anchors_A2, truth, config.training, draw, released=model.released)


def caption_losses(
    model: MaskedTransformer, batch: Batch, config: Config, epoch: int, reward: Reward | None = None
) -> Losses:
    """Caption the true segments: no proposals, the window of the segment is the mask."""
    memory = segment_memory(model, batch)
    everyone_P = batch.sample_P >= 0
    if reward is not None and model.training:
        words = reward_loss(model, memory, batch, everyone_P, reward)
    else:
        logits_PLV = _sampled_logits(model, memory, batch.words_PL[:, :-1], config, epoch)
        words = _word_loss(model, logits_PLV, batch, everyone_P, config)
    return words_alone(words)


def words_alone(words: Tensor) -> Losses:
    """The losses where nothing else is learnt."""
    nothing = words.new_zeros(())
    return Losses(nothing, nothing, nothing, words)


def clip_loss(
    model: MaskedTransformer, clips: Batch, config: Config, epoch: int, reward: Reward | None = None
) -> Tensor:
    """Words of whole clips: the mask of a whole clip is one everywhere, so it is encoded once for all its sentences."""
    memory = model.encode(clips.features_BTF.float(), model.seen(clips.valid_BT), padded=clips.padded).memory
    if reward is not None and model.training:
        return reward_loss(model, memory, clips, clips.valid_BT.any(dim=1), reward)
    told = memory if clips.video_P is None else memory.select(clips.video_P)
    logits_PLV = _sampled_logits(model, told, clips.words_PL[:, :-1], config, epoch)
    return _word_loss(model, logits_PLV, clips, clips.sample_P >= 0, config)


def segment_memory(model: MaskedTransformer, batch: Batch) -> Memory:
    """What the caption decoder reads of each true segment."""
    video = model.encode(batch.features_BTF.float(), model.seen(batch.valid_BT), padded=batch.padded)
    shown = video if batch.video_P is None else video.select(batch.video_P)
    mask_PT = model.segment_mask(batch.segment_P2, batch.valid_BT.shape[1], model.window_limit(shown))
    return model.focus(shown, mask_PT)


def _sampled_logits(model: MaskedTransformer, memory: Memory, words_PL: Tensor, config: Config, epoch: int) -> Tensor:
    """Next words after the true ones or, while training with scheduled sampling, after some guessed ones."""
    logits_PLV = model.next_words(words_PL, model.caption_decoder.begin(memory))
    ratio = sampling_ratio(config.training, epoch) if model.training else 0.0
    if not ratio:
        return logits_PLV
    mixed_PL = mix_words(words_PL, logits_PLV.detach(), ratio)
    return model.next_words(mixed_PL, model.caption_decoder.begin(memory))


def _word_loss(model: MaskedTransformer, logits_PLV: Tensor, batch: Batch, present_P: Tensor, config: Config) -> Tensor:
    """Labels are smoothed while training alone, so that validation losses compare."""
    smoothing = config.training.label_smoothing if model.training else 0.0
    return word_loss(logits_PLV, batch.words_PL, present_P, config.training, smoothing)
