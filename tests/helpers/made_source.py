"""A FeatureSource of arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from densevid.tracks import Clock, Extent, FeatureRecipe, FeatureTrack, Streams

SECONDS = 0.5  # a step


class Made:
    """Features by video, two steps a second."""

    recipe: FeatureRecipe | None = None

    def __init__(self, arrays: Mapping[str, npt.NDArray[np.floating]], streams: Streams) -> None:
        self.arrays, self.streams = dict(arrays), streams

    def videos(self) -> list[str]:
        return sorted(self.arrays)

    def track(self, video: str) -> FeatureTrack:
        return FeatureTrack(self.arrays[video].astype(np.float32), Clock.uniform(SECONDS), self.streams)

    def extent(self, video: str) -> Extent:
        return self.track(video).extent

    def __contains__(self, video: object) -> bool:
        return video in self.arrays

    def __len__(self) -> int:
        return len(self.arrays)
