"""Hashes of what a dataset teaches, by which a run that goes on knows its data again.

Features enter by their recipe, streams and lengths, whatever they weigh; those of clips, which are read whole, as they
are.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from densevid.artifacts import hash_of
from densevid.data.feature_source import FeatureSource
from densevid.data.timelines import TimelineGenerator
from densevid.events import Event


def hash_of_segments(told: Sequence[Event], segments_N2: Tensor, source: FeatureSource) -> str:
    """Of all sentences, where they are said, in seconds and in steps, and how the features were made."""
    return hash_of(
        {
            "told": [(event.start, event.end, event.sentence) for event in told],
            "segments": segments_N2.tolist(),
            "streams": source.streams,
            "recipe": None if source.recipe is None else source.recipe.id,
        }
    )


def hash_of_clips(generator: TimelineGenerator) -> str:
    """Of all that is said of the clips of the generator's split, and of the collection's features."""
    collection = generator.collection
    clips = collection.split(generator.split)
    return hash_of(
        {
            "clips": [(clip.name, clip.source, clip.seconds, clip.captions, clip.rows) for clip in clips],
            "seconds_per_step": generator.tick,
            "streams": collection.streams,
            "recipe": collection.recipe.id,
            "features": collection.fingerprint,
        }
    )
