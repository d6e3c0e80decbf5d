"""Of several sentences the one that is most like all of them: what a model means rather than what it is surest to say.

The likeliest sentence is often an odd one, because many alike share the chance between them. So every candidate is
compared with all the others (minimum Bayes risk: Kumar and Byrne, 2004), by METEOR's formula over equal words as in
`training/word_matches.py`: F = P R / (.85 P + .15 R) of the m words they share, times 1 - .6 (chunks / m)^.2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from densevid.data.vocabulary import SPECIAL_TOKENS

ALPHA, BETA, GAMMA = 0.85, 0.2, 0.6  # METEOR 1.5, English
EVENTS_AT_ONCE = 256  # their comparisons, K x K x L x L each, are in memory together
NOT_SAID, NOT_TOLD = -1, -2  # never equal
MORE_THAN_WORDS = 1 << 20  # than any vocabulary has, so that a pair of words is one number


def expected_likeness(words_PKL: Tensor, log_probability_PK: Tensor, power: float) -> Tensor:
    """How like the others each of K candidates is, each counted by `power` of its probability, P x K."""
    chance_PK = (power * log_probability_PK).softmax(dim=1)
    parts = [likeness(some_PKL) for some_PKL in words_PKL.split(EVENTS_AT_ONCE)]
    expected_PK = torch.einsum("pkc,pc->pk", torch.cat(parts), chance_PK)
    return expected_PK.masked_fill(log_probability_PK.isneginf(), -torch.inf)


def likeness(words_PKL: Tensor) -> Tensor:
    """METEOR's formula for every candidate against every other and itself, P x K x K; special words do not count."""
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


def _shared(said_PKL: Tensor, real_PKL: Tensor) -> Tensor:
    """How many items two sentences share, as often as both have them: the n-th of one meets the n-th of the other."""
    longest = said_PKL.shape[-1]
    same_PKLL = (said_PKL[..., None] == said_PKL[..., None, :]) & real_PKL[..., None, :]
    numbered_PKL = said_PKL * (longest + 1) + same_PKLL.tril(-1).sum(dim=-1)
    said_PKL = torch.where(real_PKL, numbered_PKL, NOT_SAID)
    told_PKL = torch.where(real_PKL, numbered_PKL, NOT_TOLD)
    return (said_PKL[:, :, None, :, None] == told_PKL[:, None, :, None, :]).sum(dim=(-2, -1))
