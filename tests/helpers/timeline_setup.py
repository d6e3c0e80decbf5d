"""Samples without end of a generated collection, with small settings."""

from __future__ import annotations

from densevid.config import Config
from densevid.data.vocabulary import Vocabulary
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataset import TimelineDataset


def settings(**training: object) -> Config:
    return Config().with_values(
        {
            "model": {"window": 120, "kernels": [1, 5]},
            "features": {"streams": ["clip"], "widths": [16]},
            "training": {"max_words": 8, "timelines": 24, **training},
        }
    )


def make(collection: ClipCollection, **training: object) -> TimelineDataset:
    generator = TimelineGenerator(collection, "train")
    return TimelineDataset(generator, Vocabulary.build(generator.sentences(), min_count=1), settings(**training))
