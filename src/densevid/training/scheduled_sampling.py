"""Scheduled sampling (Bengio et al., 2015) for caption-only training: the decoder sometimes reads its own words.

The words are guessed for all positions at once from the true sentence, then some of the true words are replaced by the
guesses and the decoder runs again: two parallel passes instead of one pass per word.
"""

from __future__ import annotations

import torch
from torch import Tensor

from densevid.config import TrainingConfig


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
