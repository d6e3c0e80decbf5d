"""Small models with random weights that generate varied captions, and tracks of any length for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from densevid.checkpoint import LoadedModel
from densevid.config import Config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.priors import Actionness, WordPrior
from densevid.tracks import Clock, FeatureTrack

WIDTH = 10
WORDS = (
    "a",
    "dog",
    "runs",
    "two",
    "people",
    "dance",
    "in",
    "the",
    "garden",
    "slowly",
    *(f"word{number}" for number in range(20)),
)


def random_model(
    model: dict[str, Any] | None = None, inference: dict[str, Any] | None = None, seed: int = 0
) -> LoadedModel:
    """Weights large enough that masks, scores and words differ from event to event.

    With `word_prior_weight` among the settings it has a word prior, too.
    """
    torch.manual_seed(seed)
    values: dict[str, Any] = {"width": 32, "hidden": 32, "heads": 4, "window": 40, "kernels": [2, 5, 9, 16, 30]}
    config = Config().with_values(
        {
            "model": values | {"stride_factor": 5} | (model or {}),
            "features": {"streams": ["one"], "widths": [WIDTH]},
            "inference": {"min_proposals": 12, "max_words": 8, "suppression_iou": 0.7} | (inference or {}),
        }
    )
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *WORDS))
    network = MaskedTransformer(config, len(vocabulary)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0 if "masking" in name or "caption_decoder" in name else 1.5)
        network.caption_decoder.words.weight.normal_(std=0.05)  # so that a word does not predict itself
        network.caption_decoder.words.bias.zero_()
    word_prior = random_word_prior(WIDTH, len(vocabulary)) if "word_prior_weight" in (inference or {}) else None
    return LoadedModel(network, config, vocabulary, None, word_prior=word_prior)


def random_word_prior(features: int, words: int, rank: int = 3) -> WordPrior:
    """A word prior of random numbers; special words have none, as in a fit."""
    generator = torch.Generator().manual_seed(0)
    sizes = ((features,), (features, rank), (rank, words))
    mean, directions, words_RV = (torch.randn(size, generator=generator) for size in sizes)
    rarity = torch.rand(words, generator=generator) * 5
    words_RV[:, : len(SPECIAL_TOKENS)], rarity[: len(SPECIAL_TOKENS)] = 0, 0
    return WordPrior(mean, directions, words_RV, rarity)


def random_track(steps: int, seed: int = 0, seconds_per_step: float = 0.5) -> FeatureTrack:
    """Features that change slowly, so that steps differ."""
    values = np.random.default_rng((seed, steps)).normal(size=(steps, WIDTH)).cumsum(axis=0)
    return FeatureTrack(values.astype(np.float32), Clock.uniform(seconds_per_step), (("one", WIDTH),))


def random_actionness(features: int) -> Actionness:
    """An actionness of random numbers."""
    generator = torch.Generator().manual_seed(5)
    return Actionness(*(torch.randn(size, generator=generator) for size in (features, features, 1)))
