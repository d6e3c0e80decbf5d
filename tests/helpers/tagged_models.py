"""Small models with tags, whose classifiers are made up but have the real classes: nothing has to be installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from densevid.checkpoint import LoadedModel, set_classes
from densevid.config import Config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary, tokenize
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureTrack
from densevid.video import labels
from helpers.random_models import WORDS, random_word_prior

STREAMS = (("appearance", 6), ("actions", 5))
COUNTS = {"appearance": 1000, "actions": 400}
WIDTH = sum(width for _, width in STREAMS)
Classifier = tuple[np.ndarray, np.ndarray]


def made_classifier(stream: str) -> Classifier:
    """A random classifier of a stream, the same every time."""
    if stream not in COUNTS:
        raise InputError(f"no classifier of {stream}")
    rng, width = np.random.default_rng(COUNTS[stream]), dict(STREAMS)[stream]
    weight, bias = rng.normal(size=(width, COUNTS[stream])), rng.normal(size=COUNTS[stream])
    return weight.astype(np.float32), bias.astype(np.float32)


@contextmanager
def made_classifiers(*absent: str, made: Any = made_classifier) -> Iterator[None]:
    """Inside, streams have these classifiers, and those of `absent` are not installed."""

    def find(stream: str) -> Classifier:
        if stream in absent:
            raise InputError(f"the classifier of {stream} is not installed")
        found: Classifier = made(stream)
        return found

    with patch.object(labels, "classifier", find):
        yield


def tagged_model(
    model: dict[str, Any] | None = None, inference: dict[str, Any] | None = None, *, tags: int = 3, seed: int = 0
) -> LoadedModel:
    """Random weights with which sentences have words of their own and copied ones.

    The vocabulary has the words of actions; objects have only those that are among them, many have none.
    """
    values: dict[str, Any] = {"width": 32, "hidden": 32, "heads": 4, "window": 40, "kernels": [2, 5, 9, 16, 30]}
    config = Config().with_values(
        {
            "model": values | {"stride_factor": 5, "tags": tags} | (model or {}),
            "features": {"streams": [name for name, _ in STREAMS], "widths": [width for _, width in STREAMS]},
            "inference": {"min_proposals": 8, "max_proposals": 8, "max_words": 7, "suppression_iou": 0.7}
            | (inference or {}),
        }
    )
    copied = {word for text in labels.class_texts("actions") for word in tokenize(text)}
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *WORDS, *sorted(copied - set(WORDS))))
    torch.manual_seed(seed)
    network = MaskedTransformer(config, len(vocabulary)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() > 1 and "copy_head" not in name:
                parameter.mul_(3.0 if "masking" in name or "caption_decoder" in name else 1.5)
        decoder, tagger = network.caption_decoder, network.tagger
        decoder.words.weight.normal_(std=0.25)
        decoder.words.bias.zero_()
        if tagger is not None:
            tagger.gate_SE.normal_(std=0.2)
            tagger.bias_S.normal_()
    set_classes(network, config, vocabulary)
    prior = random_word_prior(WIDTH, len(vocabulary)) if "word_prior_weight" in (inference or {}) else None
    return LoadedModel(network, config, vocabulary, None, word_prior=prior)


def tagged_track(steps: int, seed: int = 0, *, without_actions: bool = False) -> FeatureTrack:
    """Features that change slowly; zeros where there are no actions."""
    values = np.random.default_rng((seed, steps)).normal(size=(steps, WIDTH)).cumsum(axis=0).astype(np.float32)
    if without_actions:
        values[:, STREAMS[0][1] :] = 0
    return FeatureTrack(values, Clock.uniform(0.5), STREAMS)
