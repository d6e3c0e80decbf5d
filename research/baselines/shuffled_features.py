"""Shuffled features: every video with another video's features, to see how much a model scores without looking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from densevid.data.sources import FeatureSource, unknown_video
from densevid.errors import InputError
from densevid.tracks import Extent, FeatureRecipe, FeatureTrack, Streams


def derangement(videos: Sequence[str], seed: int = 0) -> dict[str, str]:
    """Another video for each: the next in one random cycle, so that none of two or more gets itself."""
    cycle = [videos[index] for index in np.random.default_rng(seed).permutation(len(videos)).tolist()]
    return dict(zip(cycle, [*cycle[1:], *cycle[:1]], strict=True))


class ShuffledFeatures:
    """A FeatureSource that gives each video the features of another, stretched over its own length.

    The videos form one random cycle (`derangement`), so that none keeps its own; the nearest step is taken, never a
    mean.
    """

    def __init__(self, source: FeatureSource, seed: int = 0) -> None:
        self.source = source
        videos = source.videos()
        if len(videos) < 2:
            raise InputError(f"{source}: shuffling needs the features of at least two videos")
        self.other = derangement(videos, seed)

    @property
    def streams(self) -> Streams:
        """Name and width of each stream."""
        return self.source.streams

    @property
    def recipe(self) -> FeatureRecipe | None:
        """How the features were made."""
        return self.source.recipe

    def videos(self) -> list[str]:
        """All ids, sorted."""
        return self.source.videos()

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration are the video's own."""
        return self.source.extent(video)

    def track(self, video: str) -> FeatureTrack:
        """Another video's features on this video's clock."""
        if video not in self.other:
            raise unknown_video(video, self.source, self.videos())
        extent, other = self.source.extent(video), self.source.track(self.other[video])
        place = np.minimum(
            ((np.arange(extent.steps) + 0.5) * len(other) / extent.steps).astype(np.int64), len(other) - 1
        )
        return FeatureTrack(other.values[place], extent.clock, other.streams, other.recipe, extent.duration)

    def __contains__(self, video: object) -> bool:
        return video in self.other

    def __len__(self) -> int:
        return len(self.other)
