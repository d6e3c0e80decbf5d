"""Composed timelines: trimmed captioned clips become untrimmed videos with events, without end and reproducible.

`TimelineGenerator(collection, split, seed).video(index)` depends on these four alone: training asks for ever higher
indices, in any order and on any rank, and validation for the same first hundred again and again.
`quiet_video(index)` is one in which nothing happens, where the collection has footage for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.data.clip_collection import ClipCollection, share_of
from densevid.data.timeline_casting import compose
from densevid.data.timeline_layout import Layout, LayoutTable
from densevid.data.timeline_plan import Shot, TimelinePlan, draw_dissolves, draw_ring, draw_window
from densevid.data.timeline_pool import FEWEST_TEXTS, FootagePool
from densevid.errors import InputError
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

    def video(self, index: int) -> Timeline:
        """A video at feature level."""
        return self._composed(self.name(index), self.plan(index))

    def quiet_video(self, index: int) -> Timeline:
        """A video without events at feature level."""
        return self._composed(f"{self.name(index)}-quiet", self.quiet_plan(index))

    def _composed(self, name: str, plan: TimelinePlan) -> Timeline:
        if self.collection.features is None:
            raise InputError(f"{self.collection.folder}: has no features.npy; its timelines are made of pictures")
        clock, recipe = Clock.uniform(self.tick), self.collection.recipe.id
        values_TF = blended(self.collection.features, plan)
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


def blended(features: FloatArray, plan: TimelinePlan) -> FloatArray:
    """The features of a plan, in the precision of the footage."""
    row_T = np.concatenate(
        [shot.clip.first_row + np.arange(shot.first, shot.first + shot.ticks) for shot in plan.shots]
    )
    values_TF = features[row_T]
    if plan.dissolves:
        step, other, weight = _ghosts(plan)
        values_TF[step] = blend(values_TF[step], features[other], weight).astype(values_TF.dtype)
    return values_TF


def blend(main_TF: FloatArray, ghost_TF: FloatArray, weight_T: npt.NDArray[np.float64]) -> FloatArray:
    """Between two feature vectors, with the length that lies between theirs.

    A plain mean of two unlike vectors is shorter than both, and its length would give the dissolve away.
    """
    main, ghost, weight = main_TF.astype(np.float32), ghost_TF.astype(np.float32), weight_T[:, None].astype(np.float32)
    mixed = (1 - weight) * main + weight * ghost
    wanted = (1 - weight) * _length(main) + weight * _length(ghost)
    return np.asarray(mixed * (wanted / np.maximum(_length(mixed), np.finfo(np.float32).tiny)))


def _length(values_TF: FloatArray) -> FloatArray:
    return np.sqrt(np.einsum("tf,tf->t", values_TF, values_TF))[:, None]


def _ghosts(plan: TimelinePlan) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """For every step of a dissolve: the step, the row of the other shot that shines through, and its weight.

    Before the joint that is the next shot before its beginning, after it the last one beyond its end; a clip that has
    no more footage there goes on at its other end.
    """
    starts = plan.starts
    steps, rows, weights = [], [], []
    for dissolve in plan.dissolves:
        before, after, joint = plan.shots[dissolve.shot - 1], plan.shots[dissolve.shot], starts[dissolve.shot]
        step = np.arange(dissolve.start, dissolve.start + dissolve.ticks)
        arrived = (step - dissolve.start + 0.5) / dissolve.ticks
        coming = after.clip.first_row + (after.first + step - joint) % after.clip_ticks
        going = before.clip.first_row + (before.first + before.ticks + step - joint) % before.clip_ticks
        steps.append(step)
        rows.append(np.where(step < joint, coming, going))
        weights.append(np.where(step < joint, arrived, 1 - arrived))
    return np.concatenate(steps), np.concatenate(rows), np.concatenate(weights)
