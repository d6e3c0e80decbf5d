"""Composed timelines and single clips as feature sources with annotations, for validation and evaluation.

Nothing is written to disk; `timelines.export` does that for commands that read files, and `timelines.dataset` gives
training samples.
"""

from __future__ import annotations

from densevid.data.annotations import Annotations
from densevid.data.sources import unknown_video
from densevid.errors import InputError
from densevid.events import Event
from densevid.timelines.clips import Clip, ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.plan import TimelinePlan
from densevid.tracks import Clock, Extent, FeatureRecipe, FeatureTrack, Streams


class ComposedFeatures:
    """The first `count` timelines of a generator as a FeatureSource that composes each video on access."""

    def __init__(self, generator: TimelineGenerator, count: int) -> None:
        self.generator = generator
        self._index = {generator.name(index): index for index in range(count)}
        self._plans: dict[str, TimelinePlan] = {}

    @property
    def streams(self) -> Streams:
        """Name and width of each stream."""
        return self.generator.collection.streams

    @property
    def recipe(self) -> FeatureRecipe | None:
        """How the features were made."""
        return self.generator.collection.recipe

    def videos(self) -> list[str]:
        """All ids, sorted."""
        return sorted(self._index)

    def plan(self, video: str) -> TimelinePlan:
        """The plan of one video, cached."""
        if video not in self._plans:
            self._plans[video] = self.generator.plan(self._number(video))
        return self._plans[video]

    def track(self, video: str) -> FeatureTrack:
        """The features of one video."""
        return self.generator.track(self.plan(video))

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration of one video."""
        plan = self.plan(video)
        return Extent(plan.ticks, Clock.uniform(plan.tick), plan.seconds)

    def __contains__(self, video: object) -> bool:
        return video in self._index

    def __len__(self) -> int:
        return len(self._index)

    def annotations(self, annotators: int | None = None) -> Annotations:
        """The events of all videos, one per sentence, at most `annotators` per event."""
        plans = {video: self.plan(video) for video in self._index}
        events = {
            video: [Event(*plan.span(event), text) for event in plan.events for text in event.sentences[:annotators]]
            for video, plan in plans.items()
        }
        return Annotations(events, {video: plan.seconds for video, plan in plans.items()}, [])

    def _number(self, video: str) -> int:
        if video not in self._index:
            raise unknown_video(video, f"the timelines of {self.generator.collection.folder}", self.videos())
        return self._index[video]


class ClipFeatures:
    """The trimmed clips of a split as a FeatureSource, each clip a video of its own."""

    def __init__(self, collection: ClipCollection, split: str) -> None:
        if collection.features is None:
            raise InputError(f"{collection.folder}: has no features.npy")
        self.collection, self.values_RF = collection, collection.features
        self._clips = {clip.name: clip for clip in collection.split(split)}

    @property
    def streams(self) -> Streams:
        """Name and width of each stream."""
        return self.collection.streams

    @property
    def recipe(self) -> FeatureRecipe | None:
        """How the features were made."""
        return self.collection.recipe

    def videos(self) -> list[str]:
        """All ids, sorted."""
        return sorted(self._clips)

    def track(self, video: str) -> FeatureTrack:
        """The features of one clip, a view of the collection's array."""
        clip, extent = self._clip(video), self.extent(video)
        values_TF = self.values_RF[clip.first_row : clip.first_row + clip.rows]
        recipe = self.collection.recipe.id
        return FeatureTrack(values_TF, extent.clock, self.streams, recipe, extent.duration)

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration of one clip."""
        rows, rate = self._clip(video).rows, self.collection.seconds_per_row
        return Extent(rows, Clock.uniform(rate), round(rows * rate, 3))

    def __contains__(self, video: object) -> bool:
        return video in self._clips

    def __len__(self) -> int:
        return len(self._clips)

    def annotations(self, annotators: int | None = None) -> Annotations:
        """One event per caption, as long as the clip, at most `annotators` per clip."""
        length = {video: self.extent(video).duration or 0.0 for video in self._clips}
        events = {
            video: [Event(0.0, length[video], text) for text in clip.captions[:annotators]]
            for video, clip in self._clips.items()
        }
        return Annotations(events, dict(length), [])

    def _clip(self, video: str) -> Clip:
        if video not in self._clips:
            raise unknown_video(video, self.collection.folder, self.videos())
        return self._clips[video]
