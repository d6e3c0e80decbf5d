"""Timelines and clips as what training and evaluation read: feature sources with annotations, and endless samples.

Nothing is written to a disk here; `timeline_set` does that, for the commands that read files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch.utils.data import Dataset

from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.batches import Batch, Sample, collate
from densevid.data.clip_collection import Clip, ClipCollection
from densevid.data.feature_source import unknown_video
from densevid.data.timeline_plan import TimelinePlan
from densevid.data.timelines import TimelineGenerator
from densevid.data.vocabulary import PAD, Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.tracks import Clock, Extent, FeatureRecipe, FeatureTrack, Streams

SENTENCE_CHOICE = 7  # sets the draw of a sample's event and sentence apart from that of its video


class ComposedFeatures:
    """The first `count` timelines of a generator: a FeatureSource that composes each video when it is asked for."""

    def __init__(self, generator: TimelineGenerator, count: int) -> None:
        self.generator = generator
        self._index = {generator.name(index): index for index in range(count)}
        self.plan = lru_cache(maxsize=1024)(self._plan)

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

    def track(self, video: str) -> FeatureTrack:
        """The features of one video."""
        return self.generator.video(self._number(video)).track

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration of one video."""
        plan: TimelinePlan = self.plan(video)
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

    def _plan(self, video: str) -> TimelinePlan:
        return self.generator.plan(self._number(video))

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


class TimelineSamples(Dataset[Sample]):
    """Samples without end: sample i is an event of timeline i with one of its sentences, both by chance.

    `len` is what one epoch shall be; any index beyond it works too, so epoch e can ask for e x len + i. Each sample
    depends on the generator's seed and its own index alone: any order, any number of workers or ranks.
    """

    def __init__(self, generator: TimelineGenerator, vocabulary: Vocabulary, config: Config, count: int) -> None:
        self.generator, self.vocabulary, self.count = generator, vocabulary, count
        self.window, self.max_words = config.model.window, config.training.max_words

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        timeline = self.generator.video(index)
        features_TF = timeline.track.values[: self.window].astype(np.float32)
        seen = [event for event in timeline.plan.events if event.start < len(features_TF)]
        rng = np.random.default_rng((self.generator.seed, SENTENCE_CHOICE, index))
        chosen = int(rng.integers(len(seen)))
        text = seen[chosen].sentences[int(rng.integers(len(seen[chosen].sentences)))]
        words = self.vocabulary.encode(text, self.max_words)
        words_L = torch.tensor(words + [PAD] * (self.max_words + 1 - len(words)))
        events_G2 = torch.tensor([(event.start, min(event.end, len(features_TF))) for event in seen]).float()
        number_P, chosen_P = torch.tensor([index]), torch.tensor([chosen])
        return Sample(number_P, timeline.video, len(features_TF), features_TF, events_G2, chosen_P, words_L[None])

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """A batch at the model's window: what a DataLoader wants as `collate_fn`."""
        return collate(samples, self.window)
