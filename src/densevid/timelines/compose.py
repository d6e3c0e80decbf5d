"""TimelineGenerator: composes untrimmed videos with events from trimmed captioned clips, reproducibly and without end.

`TimelineGenerator(collection, split, seed).video(index)` depends on these four values alone, so training can use ever
higher indices, in any order and in any process, and validation the same first hundred in every epoch.
`negative_video(index)` is a video without events, for collections that have clips without captions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from densevid.errors import InputError
from densevid.timelines.casting import compose
from densevid.timelines.clips import ClipCollection, share_of
from densevid.timelines.footage import FEWEST_TEXTS, FootagePool
from densevid.timelines.layouts import Layout, LayoutTable
from densevid.timelines.plan import Shot, TimelinePlan, draw_dissolves, draw_ring, draw_window
from densevid.tracks import Clock, FeatureTrack, FloatArray

FRAME_RATE = 25
LAYOUTS_TRIED = 200
NEGATIVE_DRAWS = 11  # seed: videos without events
MOST_NEGATIVE_CLIPS = 3  # of one video


@dataclass(frozen=True, eq=False)
class Timeline:
    """A composed video: its feature track, and the plan it was composed by, which holds its events."""

    video: str
    track: FeatureTrack
    plan: TimelinePlan


class TimelineGenerator:
    """Composed videos by index.

    Args:
        collection: The clips.
        split: The split of the collection whose clips are used.
        seed: Another seed gives other videos.
        layouts: Where events lie; by default layouts of real videos that come with the package, those for training or
            those held out, depending on the split.

    Raises:
        InputError: The split does not exist or has too few clips with captions.
    """

    def __init__(
        self, collection: ClipCollection, split: str, seed: int = 0, *, layouts: LayoutTable | None = None
    ) -> None:
        if not re.fullmatch(r"[\w.-]+", split):
            raise InputError(f"split {split!r}: it names files, so it may hold letters, digits, '-', '_' and '.'")
        if seed < 0:
            raise InputError(f"the seed must not be negative, got {seed}")
        self.collection, self.split, self.seed = collection, split, seed
        self.tick = 1 / FRAME_RATE if collection.features is None else collection.seconds_per_row
        self.pool = FootagePool(collection.split(split), self.tick, split)
        training = split.startswith("train") and not split.endswith("-dev")
        self.layouts = layouts or LayoutTable.shipped().part(training=training)
        self._entropy = (seed, int(share_of(split, "split") * 2**32))
        self._fitted: dict[int, Layout | None] = {}

    def name(self, index: int) -> str:
        """The id of a video."""
        return f"{self.split}-{self.seed}-{index:06d}"

    def sentences(self) -> list[str]:
        """The captions of all clips that events are made of, to build a vocabulary from."""
        return [caption for clip in self.pool.events.clips for caption in clip.captions]

    def estimated_ticks(self, index: int, *, negative: bool = False) -> int:
        """The length of a video without planning it, which would take far longer.

        This is the length of the first layout drawn for it. If that one cannot be filled with clips, the video gets
        another layout and has another length.
        """
        rng = np.random.default_rng((*self._entropy, NEGATIVE_DRAWS, index) if negative else (*self._entropy, index))
        return self._first_layout(rng).ticks

    def plan(self, index: int) -> TimelinePlan:
        """Plan a video; no features are read.

        Raises:
            InputError: The split has not enough clips to fill any layout.
        """
        rng = np.random.default_rng((*self._entropy, index))
        for _ in range(LAYOUTS_TRIED):
            layout = self._layout(int(rng.integers(len(self.layouts))))
            plan = compose(rng, self.pool, layout) if layout else None
            if plan:
                return plan
        raise self._unfilled()

    def negative_plan(self, index: int) -> TimelinePlan:
        """Plan a video without events: clips without captions in a loop, as long as a video with events.

        Raises:
            InputError: The split has no clips without captions.
        """
        clips = self.pool.negatives
        if not len(clips):
            raise InputError(f"split {self.split!r} of {self.collection.folder}: no clip is without captions")
        rng = np.random.default_rng((*self._entropy, NEGATIVE_DRAWS, index))
        ticks = self._first_layout(rng).ticks
        cast = rng.permutation(len(clips))[: int(rng.integers(1, MOST_NEGATIVE_CLIPS + 1))].tolist()
        ring = draw_ring(rng, clips, cast, float(clips.ticks_N.max()), mixed=True)
        shown = draw_window(rng, ring, ticks)
        shots = [Shot(clips.clips[clip], int(clips.ticks_N[clip]), first, length) for clip, first, length in shown]
        return TimelinePlan(self.tick, shots, draw_dissolves(rng, shots, self.tick), [])

    def planned(self, index: int, *, negative: bool = False) -> tuple[str, TimelinePlan]:
        """The id and the plan of a video with events, or of one without."""
        if negative:
            return f"{self.name(index)}-negative", self.negative_plan(index)
        return self.name(index), self.plan(index)

    def video(self, index: int) -> Timeline:
        """Compose a video with events."""
        return self._timeline(*self.planned(index))

    def negative_video(self, index: int) -> Timeline:
        """Compose a video without events."""
        return self._timeline(*self.planned(index, negative=True))

    @property
    def footage(self) -> FloatArray:
        """The features of all clips, rows x width.

        Raises:
            InputError: The collection has videos alone.
        """
        if self.collection.features is None:
            raise InputError(f"{self.collection.folder}: has no features.npy; its timelines are made of pictures")
        return self.collection.features

    def track(self, plan: TimelinePlan) -> FeatureTrack:
        """Compose the features of a plan."""
        values_TF, clock = plan.feature_rows().blended(self.footage), Clock.uniform(self.tick)
        return FeatureTrack(values_TF, clock, self.collection.streams, self.collection.recipe.id, plan.seconds)

    def _timeline(self, name: str, plan: TimelinePlan) -> Timeline:
        return Timeline(name, self.track(plan), plan)

    def _unfilled(self) -> InputError:
        """The error for a split that cannot fill any layout."""
        where, clips = f"split {self.split!r} of {self.collection.folder}", self.pool.events.clips
        if scarce := sum(len(clip.captions) < FEWEST_TEXTS for clip in clips):
            short = f"{scarce} of the {len(clips)} clips that are not background have fewer"
            need = f"an event needs {FEWEST_TEXTS} sentences"
            return InputError(f"{where}: {need}, and {short}; the others cannot fill a timeline")
        return InputError(f"{where}: its clips are too few to fill a timeline")

    def _first_layout(self, rng: np.random.Generator) -> Layout:
        fitted = (self._layout(int(rng.integers(len(self.layouts)))) for _ in range(LAYOUTS_TRIED))
        layout = next((layout for layout in fitted if layout), None)
        if layout is None:
            raise self._unfilled()
        return layout

    def _layout(self, number: int) -> Layout | None:
        if number not in self._fitted:
            self._fitted[number] = self.layouts.fitted(number, self.pool.longest, self.tick)
        return self._fitted[number]
