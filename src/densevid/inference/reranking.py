"""Reranking: which sentence of a beam becomes the caption of an event.

By length-normalised log-probability; or by minimum Bayes risk (`inference.mbr_weight`): the likeliest sentence is often
an odd one, because many that are alike share the probability between them, so the candidate with the highest expected
similarity to all of them is taken (Kumar and Byrne, 2004). Where a model has a word prior (`model/priors.py`), how well
a sentence fits it is added, `inference.word_prior_weight` times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.config import InferenceConfig
from densevid.data.vocabulary import INIT, PAD, SPECIAL_TOKENS
from densevid.inference.search import Beams, State, WordStepper, search, sentence_lengths
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.priors import WordPrior

ALPHA, BETA, GAMMA = 0.85, 0.2, 0.6  # METEOR 1.5, English
EVENTS_AT_ONCE = 256  # whose comparisons, K x K x L x L each, are in memory together
UNSEEN_STEPS = 8  # of the video that is not shown
SENTENCES_AT_ONCE = 512
NO_ITEM, NO_OTHER_ITEM = -1, -2  # never equal
MORE_THAN_WORDS = 1 << 20  # than any vocabulary has, so that a pair of words is one number


@dataclass(frozen=True)
class Sentences:
    """Words of P events, padded after `<eos>`, and the mean log-probability of a word, `<eos>` included."""

    words_PL: Tensor
    log_probability_P: Tensor


@dataclass(frozen=True)
class EventFeatures:
    """Features of events: those of their videos, which have `steps_B` steps, the masks, and each event's video."""

    features_BTF: Tensor
    steps_B: Tensor
    mask_PT: Tensor
    video_P: Tensor


def rerank(
    word_prior: WordPrior | None,
    beams: Beams,
    settings: InferenceConfig,
    features: Callable[[], EventFeatures],
    model: MaskedTransformer | None = None,
) -> Sentences:
    """Choose the sentence of each event.

    Args:
        word_prior: The model's word prior, if it has one.
        beams: The candidates of each event.
        settings: The weights of the terms.
        features: Gives the events' features; called only where the word prior counts.
        model: The network; needed with `habit_weight`.

    Returns:
        One sentence for each event.
    """
    events, candidates, _ = beams.words_PKL.shape
    if candidates == 1 or not events:
        return choose_sentences(beams, settings)
    habit_PK = habit(model, beams.words_PKL) if settings.habit_weight and model is not None else None
    if word_prior is None or not settings.word_prior_weight:
        return choose_sentences(beams, settings, habit_PK=habit_PK)
    at = features()
    scores_PV = word_prior.word_scores(at.features_BTF, at.steps_B, at.mask_PT, at.video_P)
    return choose_sentences(beams, settings, word_prior.fit_of_sentences(scores_PV, beams.words_PKL), habit_PK)


@torch.inference_mode()
def habit(model: MaskedTransformer, words_PKL: Tensor) -> Tensor:
    """The log-probability of each candidate without a video: what the decoder writes out of habit, P x K."""
    unseen_BTF = torch.zeros(1, UNSEEN_STEPS, sum(model.config.features.widths), device=words_PKL.device)
    valid_BT = torch.ones(1, UNSEEN_STEPS, dtype=torch.bool, device=words_PKL.device)
    embedded = unseen_BTF.to(model.caption_decoder.words.weight.dtype)
    memory = model.encode(embedded, valid_BT, padded=False).memory
    words_NL = words_PKL.flatten(0, 1)
    before_NL = torch.cat((torch.full_like(words_NL[:, :1], INIT), words_NL[:, :-1]), dim=1)
    parts = []
    for some_NL, following_NL in zip(
        before_NL.split(SENTENCES_AT_ONCE), words_NL.split(SENTENCES_AT_ONCE), strict=True
    ):
        state = model.caption_decoder.begin(memory)
        state.branch(len(some_NL))
        log_NLV = model.next_words(some_NL, state).float().log_softmax(dim=-1)
        log_NL = log_NLV.gather(2, following_NL[..., None])[..., 0]
        parts.append((log_NL * (following_NL != PAD)).sum(dim=1))
    return torch.cat(parts).view(words_PKL.shape[:2])


def generate_sentences(stepper: WordStepper, state: State, events: int, config: InferenceConfig) -> Sentences:
    """Search, then choose without a word prior: what validation during training does."""
    return choose_sentences(search(stepper, state, events, config), config)


def choose_sentences(
    beams: Beams, config: InferenceConfig, prior_PK: Tensor | None = None, habit_PK: Tensor | None = None
) -> Sentences:
    """The candidate of each event with the highest expected similarity, or the likeliest.

    Args:
        beams: The candidates of each event.
        config: `mbr_weight`, `length_penalty` and `word_prior_weight`.
        prior_PK: How well each candidate fits the word prior; added `word_prior_weight` times.
        habit_PK: The log-probability of each candidate without a video; subtracted `habit_weight` times.

    Returns:
        One sentence for each event.
    """
    words_PKL, mean_PK = beams.words_PKL, beams.log_probability_PK
    if mean_PK.shape[1] == 1:
        return Sentences(words_PKL[:, 0], mean_PK[:, 0])
    length_PK = sentence_lengths(words_PKL)
    log_PK = mean_PK * length_PK
    if habit_PK is not None:
        log_PK = log_PK - config.habit_weight * habit_PK
    if config.mbr_weight:
        value_PK = expected_similarity(words_PKL, log_PK, config.mbr_weight)
    else:
        value_PK = log_PK / length_PK**config.length_penalty
    if prior_PK is not None:
        value_PK = value_PK + config.word_prior_weight * prior_PK
    row_P, best_P = torch.arange(len(words_PKL), device=words_PKL.device), value_PK.argmax(dim=1)
    return Sentences(words_PKL[row_P, best_P], mean_PK[row_P, best_P])


def expected_similarity(words_PKL: Tensor, log_probability_PK: Tensor, power: float) -> Tensor:
    """The expected similarity of each candidate to all of them, P x K, weighted by `power` of their probability."""
    weight_PK = (power * log_probability_PK).softmax(dim=1)
    parts = [similarity(some_PKL) for some_PKL in words_PKL.split(EVENTS_AT_ONCE)]
    expected_PK = torch.einsum("pkc,pc->pk", torch.cat(parts), weight_PK)
    return expected_PK.masked_fill(log_probability_PK.isneginf(), -torch.inf)


def similarity(words_PKL: Tensor) -> Tensor:
    """METEOR's formula over equal words for every pair of candidates, P x K x K; special words do not count.

    F = P R / (.85 P + .15 R) of the m words that two sentences share, times 1 - .6 (chunks / m)^.2.
    """
    real_PKL = words_PKL >= len(SPECIAL_TOKENS)
    length_PK = real_PKL.sum(dim=-1)
    matched_PKK = _shared(words_PKL, real_PKL)
    pair_PKL = words_PKL[..., :-1] * MORE_THAN_WORDS + words_PKL[..., 1:]
    joined_PKK = _shared(pair_PKL, real_PKL[..., :-1] & real_PKL[..., 1:])
    chunks_PKK = (matched_PKK - joined_PKK).clamp(min=1)
    precision_PKK = matched_PKK / length_PK[:, :, None].clamp(min=1)
    recall_PKK = matched_PKK / length_PK[:, None, :].clamp(min=1)
    mean_PKK = precision_PKK * recall_PKK / (ALPHA * precision_PKK + (1 - ALPHA) * recall_PKK).clamp(min=1e-9)
    return mean_PKK * (1 - GAMMA * (chunks_PKK / matched_PKK.clamp(min=1)) ** BETA)


def _shared(items_PKL: Tensor, real_PKL: Tensor) -> Tensor:
    """How many items two sentences share, as often as both have them: the n-th of one meets the n-th of the other."""
    longest = items_PKL.shape[-1]
    same_PKLL = (items_PKL[..., None] == items_PKL[..., None, :]) & real_PKL[..., None, :]
    numbered_PKL = items_PKL * (longest + 1) + same_PKLL.tril(-1).sum(dim=-1)
    first_PKL = torch.where(real_PKL, numbered_PKL, NO_ITEM)
    second_PKL = torch.where(real_PKL, numbered_PKL, NO_OTHER_ITEM)
    return (first_PKL[:, :, None, :, None] == second_PKL[:, None, :, None, :]).sum(dim=(-2, -1))
