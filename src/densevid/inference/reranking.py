"""Which sentence of a beam is said of an event: what the beam agrees on, and how well it fits what features expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from densevid.config import InferenceConfig
from densevid.inference.search import Beams, Sentences, chosen
from densevid.model.priors import WordPrior


@dataclass(frozen=True)
class EventFeatures:
    """Events as features see them: those of their videos, which have `steps_B` steps, masks, and rows of the videos."""

    features_BTF: Tensor
    steps_B: Tensor
    mask_PT: Tensor
    video_P: Tensor


def rerank(
    expected: WordPrior | None, beams: Beams, settings: InferenceConfig, seen: Callable[[], EventFeatures]
) -> Sentences:
    """The sentence of each event; `seen` is asked only where expected words have a say."""
    events, candidates, _ = beams.words_PKL.shape
    if expected is None or not settings.word_prior_weight or candidates == 1 or not events:
        return chosen(beams, settings)
    at = seen()
    expected_PV = expected.of(at.features_BTF, at.steps_B, at.mask_PT, at.video_P)
    return chosen(beams, settings, expected.worth(expected_PV, beams.words_PKL))
