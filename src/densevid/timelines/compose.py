"""Composed timelines: trimmed captioned clips become untrimmed videos with events, without end and reproducible.

`TimelineGenerator(collection, split, seed).video(index)` depends on these four alone: training asks for ever higher
indices, in any order and on any rank, and validation for the same first hundred again and again.
`quiet_video(index)` is one in which nothing happens, where the collection has footage for it.
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
from densevid.timelines.rows import FootageRows
from densevid.tracks import Clock, FeatureTrack, FloatArray

FRAME_RATE = 25
LAYOUTS_TRIED = 200
QUIET = 11  # sets the draws of quiet videos apart from those of videos with events
MOST_QUIET_CLIPS = 3  # of one video


@dataclass(frozen=True, eq=False)
class Timeline:
    """One composed video at feature level: its track, and the plan it was made by with its events."""

    video: str
    track: FeatureTrack
    plan: TimelinePlan


class TimelineGenerator:
    """Composed videos by index."""

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
        """All that people said of the clips that events are made of: what a vocabulary is built from."""
        return [caption for clip in self.pool.events.clips for caption in clip.captions]

    def usual_ticks(self, index: int, *, quiet: bool = False) -> int:
        """How long a video is, without planning it, which takes far longer.

        That is the length of the first layout that is drawn for it. Where no cast is found for that one, another is
        taken, and the video has another length.
        """
        rng = np.random.default_rng((*self._entropy, QUIET, index) if quiet else (*self._entropy, index))
        return self._first_layout(rng).ticks

    def plan(self, index: int) -> TimelinePlan:
        """What a video shows and when; no footage is touched."""
        rng = np.random.default_rng((*self._entropy, index))
        for _ in range(LAYOUTS_TRIED):
            layout = self._layout(int(rng.integers(len(self.layouts))))
            plan = compose(rng, self.pool, layout) if layout else None
            if plan:
                return plan
        raise self._unfilled()

    def quiet_plan(self, index: int) -> TimelinePlan:
        """A video as long as any other that shows quiet clips alone, each as it is, round and round."""
        quiet = self.pool.quiet
        if not len(quiet):
            raise InputError(f"split {self.split!r} of {self.collection.folder}: no clip is without captions")
        rng = np.random.default_rng((*self._entropy, QUIET, index))
        ticks = self._first_layout(rng).ticks
        cast = rng.permutation(len(quiet))[: int(rng.integers(1, MOST_QUIET_CLIPS + 1))].tolist()
        ring = draw_ring(rng, quiet, cast, float(quiet.ticks_N.max()), mixed=True)
        shown = draw_window(rng, ring, ticks)
        shots = [Shot(quiet.clips[clip], int(quiet.ticks_N[clip]), first, length) for clip, first, length in shown]
        return TimelinePlan(self.tick, shots, draw_dissolves(rng, shots, self.tick), [])

    def planned(self, index: int, *, quiet: bool = False) -> tuple[str, TimelinePlan]:
        """The id of a video, with or without events, and its plan."""
        return (f"{self.name(index)}-quiet", self.quiet_plan(index)) if quiet else (self.name(index), self.plan(index))

    def video(self, index: int) -> Timeline:
        """A video at feature level."""
        return self._composed(*self.planned(index))

    def quiet_video(self, index: int) -> Timeline:
        """A video without events at feature level."""
        return self._composed(*self.planned(index, quiet=True))

    @property
    def footage(self) -> FloatArray:
        """The features of all clips."""
        if self.collection.features is None:
            raise InputError(f"{self.collection.folder}: has no features.npy; its timelines are made of pictures")
        return self.collection.features

    def _composed(self, name: str, plan: TimelinePlan) -> Timeline:
        values_TF, clock = FootageRows.of(plan).blended(self.footage), Clock.uniform(self.tick)
        recipe = self.collection.recipe.id
        return Timeline(name, FeatureTrack(values_TF, clock, self.collection.streams, recipe, plan.seconds), plan)

    def _unfilled(self) -> InputError:
        """The error for clips that no timeline can be made of."""
        where, clips = f"split {self.split!r} of {self.collection.folder}", self.pool.events.clips
        if untold := sum(len(clip.captions) < FEWEST_TEXTS for clip in clips):
            short = f"{untold} of the {len(clips)} clips that are not background have fewer"
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
