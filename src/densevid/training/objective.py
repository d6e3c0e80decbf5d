"""The objective of training: the network runs as `training.task` wants it, and the terms of the loss are added up.

`total_loss` does this for training and validation alike:

    dense      proposals, and captions of drawn positive anchors through the event mask, end to end
    proposals  score and offsets alone
    captions   captions of the true segments alone

Where clips stand beside a batch (`training.clips_per_batch`), their captions count, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from densevid.config import Config, TrainingConfig
from densevid.data.batches import Batch
from densevid.data.vocabulary import PAD
from densevid.model.caption_decoder import DecodingState
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.proposal_decoder import Proposals
from densevid.model.recurrent import RecurrentState
from densevid.model.video_encoder import Memory
from densevid.model.word_likelihood import counted_places
from densevid.training.losses import Losses, caption_loss, mask_loss, mean_word_loss, overlap_losses, proposal_losses
from densevid.training.rewards import Reward, reward_loss
from densevid.training.targets import Targets, Truth, assign, random_keys

SHORT_CLIPS = (1, 16)  # steps: pictures and storyboards are encoded apart from longer clips


class Objective(nn.Module):
    """`total_loss` as a module, so that DistributedDataParallel can wrap it."""

    def __init__(self, model: MaskedTransformer, config: Config, reward: Reward | None = None) -> None:
        super().__init__()
        self.model, self.config, self.reward = model, config, reward

    def forward(self, batch: Batch, epoch: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted sum, and its terms by name."""
        batch = with_dropped_streams(batch, self.config)
        total, losses = total_loss(self.model, batch, self.config, epoch, self.reward)
        return total, losses.detached()


def total_loss(
    model: MaskedTransformer, batch: Batch, config: Config, epoch: int = 0, reward: Reward | None = None
) -> tuple[Tensor, Losses]:
    """The weighted sum to minimise.

    Args:
        model: In training mode, captions learn from `reward` where there is one, and labels are smoothed.
        batch: Videos with their events, and perhaps clips beside them.
        config: The task and the weights.
        epoch: Which anchors are drawn, and how many words are sampled, depends on it.
        reward: Rewards sampled captions in place of the true ones; with clips in the batch, only theirs.

    Returns:
        The sum, and the terms it is made of.
    """
    settings = config.training
    clips = None if settings.task == "proposals" else batch.clips
    segment_reward = reward if clips is None else None
    if settings.task == "proposals":
        losses = proposal_only_losses(model, batch, config, epoch)
    elif settings.task == "dense":
        losses = dense_losses(model, batch, config, epoch, segment_reward)
    elif clips is not None and settings.clip_share == 1:  # the segments do not count, so their videos are not encoded
        losses = Losses.of_captions(clip_caption_loss(model, clips, config, epoch, reward))
        return losses.total(settings), losses
    else:
        losses = Losses.of_captions(segment_caption_loss(model, batch, config, epoch, segment_reward))
    if clips is not None:
        clip_loss = clip_caption_loss(model, clips, config, epoch, reward)
        losses = replace(losses, words=losses.words.lerp(clip_loss, settings.clip_share))
    return losses.total(settings), losses


def dense_losses(
    model: MaskedTransformer, batch: Batch, config: Config, epoch: int = 0, reward: Reward | None = None
) -> Losses:
    """All four terms, end to end; samples without a positive anchor have negatives only."""
    targets = draw_targets(model, batch, config, epoch)
    features_BTF, valid_BT = batch.features_BTF.float(), model.seen(batch.valid_BT)
    words_PL = batch.words_PL[:, :-1]
    predictions = model(features_BTF, valid_BT, targets.captioned_P, words_PL, batch.video_P, padded=batch.padded)
    score, offsets = _proposal_terms(predictions.proposals, batch, targets, config)
    present_P = targets.captioned_present_P
    counted_PT = batch.of_segments(valid_BT) & present_P[:, None]
    mask = mask_loss(predictions.event_mask, counted_PT, config.training)
    if reward is not None and model.training:
        words = reward_loss(model, [(predictions.memory, batch, present_P)], reward)
    else:
        words = _cross_entropy(model, predictions.word_logits_PLV, batch, present_P, config)
    return Losses(score, offsets, mask, words)


def proposal_only_losses(model: MaskedTransformer, batch: Batch, config: Config, epoch: int = 0) -> Losses:
    """Score and offsets."""
    targets = draw_targets(model, batch, config, epoch)
    proposals = model.propose(model.encode(batch.features_BTF.float(), model.seen(batch.valid_BT), padded=batch.padded))
    score, offsets = _proposal_terms(proposals, batch, targets, config)
    zero = score.new_zeros(())
    return Losses(score, offsets, zero, zero)


def segment_caption_loss(
    model: MaskedTransformer, batch: Batch, config: Config, epoch: int, reward: Reward | None = None
) -> Tensor:
    """The caption loss of the true segments: the window of the segment is the mask."""
    memory = segment_memory(model, batch)
    return _caption_loss(model, memory, batch, batch.sample_P >= 0, config, epoch, reward)


def clip_caption_loss(
    model: MaskedTransformer, clips: Batch, config: Config, epoch: int, reward: Reward | None = None
) -> Tensor:
    """The caption loss of whole clips: their mask is one everywhere, so a clip is encoded once for all its captions."""
    parts = _of_similar_length(model, clips)
    read = [(part, _clip_memory(model, part)) for part in parts]
    if reward is not None and model.training:
        return reward_loss(model, [(memory, part, part.valid_BT.any(dim=1)) for part, memory in read], reward)
    losses = [
        _word_losses(model, partial(_begin_clips, model, memory, part), part, config, epoch) for part, memory in read
    ]
    loss_PL = torch.cat(losses)
    return mean_word_loss(loss_PL, clips.words_PL, clips.sample_P >= 0, config.training)


def _of_similar_length(model: MaskedTransformer, clips: Batch) -> list[Batch]:
    """Pictures, storyboards and clips apart, where they are sorted: pictures need not be padded to the longest clip."""
    steps_B = clips.steps_B
    if model.released or any(before > after for before, after in pairwise(steps_B)):
        return [clips]
    edges = sorted({0, *(bisect_right(steps_B, longest) for longest in SHORT_CLIPS), len(steps_B)})
    return [clips] if len(edges) < 3 else [clips.part(first, last) for first, last in pairwise(edges)]


def _clip_memory(model: MaskedTransformer, clips: Batch) -> Memory:
    """What the caption decoder reads of each clip."""
    video = model.encode(clips.features_BTF.float(), model.seen(clips.valid_BT), padded=clips.padded)
    given = None if clips.label_BN is None or clips.value_BN is None else (clips.label_BN, clips.value_BN)
    return replace(video.memory, tags=model.tags(video, clips.valid_BT, given=given))


def _begin_clips(model: MaskedTransformer, memory: Memory, clips: Batch) -> DecodingState | RecurrentState:
    """The decoder before the first word of every sentence; those of a clip read one memory."""
    if clips.video_P is None:
        return model.caption_decoder.begin(memory)
    if not clips.segments_alike:
        return model.caption_decoder.begin(memory.select(clips.video_P))
    state = model.caption_decoder.begin(memory)
    state.branch(clips.segments_B[0])
    return state


def draw_targets(model: MaskedTransformer, batch: Batch, config: Config, epoch: int) -> Targets:
    """The anchors of this epoch for every sample."""
    anchors_A2 = model.proposal_decoder.grid.anchors(batch.valid_BT.shape[1], batch.valid_BT.device)
    events_PG2, event_valid_PG = batch.of_segments(batch.events_BG2), batch.of_segments(batch.event_valid_BG)
    length_P = batch.of_segments(batch.valid_BT.sum(dim=1))
    truth = Truth(events_PG2, event_valid_PG, batch.segment_P2, length_P)
    draw = random_keys(config.training.seed, epoch, batch.sample_P, len(anchors_A2))
    return assign(anchors_A2, truth, config.training, draw, released=model.released)


def segment_memory(model: MaskedTransformer, batch: Batch) -> Memory:
    """What the caption decoder reads of each true segment."""
    video = model.encode(batch.features_BTF.float(), model.seen(batch.valid_BT), padded=batch.padded)
    shown = video if batch.video_P is None else video.select(batch.video_P)
    mask_PT = model.segment_mask(batch.segment_P2, batch.valid_BT.shape[1], model.window_limit(shown))
    return model.focus(shown, mask_PT, model.tags(video, mask_PT, batch.video_P))


def with_dropped_streams(batch: Batch, config: Config) -> Batch:
    """The batch with streams left out by chance, as where they are absent, and some of its clips unseen.

    `training.stream_dropout` leaves the first stream of a video alone; `training.video_dropout` makes all features of a
    clip zero, so that the decoder learns what it would write of any video.
    """
    settings = config.training
    clips = batch.clips and _dropped(batch.clips, config, settings.video_dropout)
    return replace(_dropped(batch, config, 0.0), clips=clips)


def _dropped(batch: Batch, config: Config, whole: float) -> Batch:
    features_BTF, first = batch.features_BTF, config.features.widths[0]
    chance = config.training.stream_dropout
    if not features_BTF.numel() or not (chance or whole):
        return batch
    chance_2B = torch.rand(2, len(features_BTF), device=features_BTF.device)
    kept_BF = features_BTF.new_ones(len(features_BTF), features_BTF.shape[2])
    kept_BF[:, first:] = (chance_2B[0] >= chance).to(kept_BF.dtype)[:, None]
    seen_B1 = (chance_2B[1] >= whole)[:, None]
    kept_BF = kept_BF * seen_B1.to(kept_BF.dtype)
    label_BN = None if batch.label_BN is None else batch.label_BN.where(seen_B1, -1)
    return replace(batch, features_BTF=features_BTF * kept_BF[:, None], label_BN=label_BN)


def sampling_ratio(config: TrainingConfig, epoch: int) -> float:
    """The share of words that scheduled sampling replaces: it rises by a step every few epochs up to an end value."""
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


def _proposal_terms(proposals: Proposals, batch: Batch, targets: Targets, config: Config) -> tuple[Tensor, Tensor]:
    """Score and offsets: over the drawn anchors as in the paper, or over all of them."""
    if config.training.proposal_loss == "overlap":
        return overlap_losses(proposals, batch)
    return proposal_losses(proposals, targets, config.training, batch.video_P)


def _caption_loss(
    model: MaskedTransformer,
    memory: Memory,
    batch: Batch,
    present_P: Tensor,
    config: Config,
    epoch: int,
    reward: Reward | None,
) -> Tensor:
    """The reward of sampled captions, or the cross-entropy of the true ones with scheduled sampling."""
    if reward is not None and model.training:
        return reward_loss(model, [(memory, batch, present_P)], reward)
    loss_PL = _word_losses(model, partial(model.caption_decoder.begin, memory), batch, config, epoch)
    return mean_word_loss(loss_PL, batch.words_PL, present_P, config.training)


def _word_losses(
    model: MaskedTransformer,
    begin: Callable[[], DecodingState | RecurrentState],
    batch: Batch,
    config: Config,
    epoch: int,
) -> Tensor:
    """The loss of every next word, P x L, after the true ones; while training with scheduled sampling, mixed ones.

    Scheduled sampling (Bengio et al., 2015): the words are guessed for all positions at once, then some of the true
    words are replaced by the guesses and the decoder runs again: two parallel passes instead of one pass per word.
    """
    words_PL, next_PL = batch.words_PL[:, :-1], batch.words_PL[:, 1:]
    ratio = sampling_ratio(config.training, epoch) if model.training else 0.0
    if ratio:
        words_PL = mix_words(words_PL, model.next_words(words_PL, begin()).detach(), ratio)
    place_N = counted_places(next_PL != PAD)
    loss_N = model.likelihood(words_PL, begin(), next_PL, place_N).loss(_smoothing(model, config))
    return loss_N.new_zeros(next_PL.numel()).index_put((place_N,), loss_N).view_as(next_PL)


def _cross_entropy(
    model: MaskedTransformer, logits_PLV: Tensor, batch: Batch, present_P: Tensor, config: Config
) -> Tensor:
    return caption_loss(logits_PLV, batch.words_PL, present_P, config.training, _smoothing(model, config))


def _smoothing(model: MaskedTransformer, config: Config) -> float:
    """Labels are smoothed in training alone, so that validation losses compare."""
    return config.training.label_smoothing if model.training else 0.0
