"""Timelines and clips as what training and evaluation read: feature sources with annotations.

Nothing is written to a disk here; `timeline_set` does that, for the commands that read files. Samples without end are
in `timeline_samples`.
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
    """The first `count` timelines of a generator: a FeatureSource that composes each video when it is asked for."""

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
        """What one video shows when, made once."""
        if video not in self._plans:
            self._plans[video] = self.generator.plan(self._number(video))
        return self._plans[video]

    def track(self, video: str) -> FeatureTrack:
        """The features of one video."""
        return self.generator.video(self._number(video)).track

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration of one video."""
        plan = self.plan(video)
        return Extent(plan.ticks, Clock.uniform(plan.tick), plan.seconds)

    def __contains__(self, video: object) -> bool:
        return video in self._index

    def __len__(self) -> int:
        return len(self._index)

    def annotations(self, annotators: int | None = None) -> Annotations:
        """The events of all videos, each as often as it has sentences, but at most `annotators` times."""
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
    """Trimmed clips as they are, each a video of its own: a FeatureSource."""

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
        """The features of one clip, a view of the collection's."""
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
        """One event as long as the clip for each of its sentences."""
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
