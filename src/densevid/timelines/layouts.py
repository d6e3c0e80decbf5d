"""Layouts: where the events of a composed timeline lie, taken from real videos and fitted to the footage.

A layout is the duration of a video and the spans of its events, without any text. The package holds those of 5,000
training videos of ActivityNet Captions (`activitynet_layouts.npz`, numbers only); any annotation file in that form
gives others. Times become ticks here: one feature row, or one frame.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.errors import InputError
from densevid.io import atomic_path, read_json

SLACK = 1.5  # seconds; shorter overlaps and gaps come from imprecise annotation and are closed
LEAST_COVERED = 0.75  # of a video by events; one real video in twenty has less
DEEPEST = 2  # events that may overlap at a moment
MOST_SHOTS = 5  # of one event
HELD_OUT = 5  # every fifth layout is kept for evaluation
ROUNDING = 0.1  # seconds by which an event may exceed its video
FRACTIONS = np.iinfo(np.uint16).max
Spans = npt.NDArray[np.float64]
Ticks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Member:
    """An event of a family of overlapping events.

    Attributes:
        event: Number of the event.
        parent: The earlier member it overlaps; the first member is its own parent.
        inside: Whether it lies inside its parent.
    """

    event: int
    parent: int
    inside: bool


@dataclass(frozen=True, eq=False)
class Layout:
    """The length of a video in ticks, and the spans of its events in order of their starts."""

    ticks: int
    spans_E2: Ticks

    @cached_property
    def edges(self) -> Ticks:
        """All starts and ends of events, and of the video."""
        return np.unique(np.concatenate([[0, self.ticks], self.spans_E2.ravel()]))

    @cached_property
    def segments(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """(start, end, events) between each edge and the next."""
        inside_EG = covered(self.spans_E2, self.edges)
        events = [tuple(np.flatnonzero(inside_E).tolist()) for inside_E in inside_EG.T]
        return list(zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), events, strict=True))

    @cached_property
    def neighbours(self) -> list[set[int]]:
        """For every event those that overlap it, or follow or precede it with at most background between."""
        overlapping = [set(events) for _, _, events in self.segments if events]
        together = [*overlapping, *(before | after for before, after in pairwise(overlapping))]
        return [set().union(*(group for group in together if e in group)) - {e} for e in range(len(self.spans_E2))]

    @cached_property
    def families(self) -> list[list[Member]]:
        """Groups of overlapping events, each event after its parent.

        As at most two events overlap at a moment, overlaps form trees: from the longest event on, each event has one
        parent and none contains its parent.
        """
        return _families(self.spans_E2)


@dataclass(frozen=True, eq=False)
class LayoutTable:
    """Layouts of many videos: seconds, and the (start, end) of each event as fractions of them."""

    seconds_V: npt.NDArray[np.float64]
    spans_V: list[Spans]

    @classmethod
    def shipped(cls) -> LayoutTable:
        """The layouts that come with the package."""
        with (files("densevid.timelines") / "activitynet_layouts.npz").open("rb") as file:
            content = np.load(file, allow_pickle=False)
            seconds, events, spans = (content[name] for name in ("seconds", "events", "spans"))
        return cls(seconds.astype(np.float64), np.split(spans / FRACTIONS, np.cumsum(events)[:-1]))

    @classmethod
    def from_annotations(cls, path: Path | str) -> LayoutTable:
        """Read the layouts of an annotation file in ActivityNet's form; videos with invalid times are left out.

        Raises:
            InputError: No video of the file can be used.
        """
        content = read_json(path)
        if not isinstance(content, Mapping):
            raise InputError(f"{path}: expected {{video: {{duration, timestamps}}}}")
        layouts = [layout for entry in content.values() if (layout := _layout_of(entry)) is not None]
        if not layouts:
            raise InputError(f"{path}: no video has a valid duration with valid timestamps")
        return cls(np.array([seconds for seconds, _ in layouts]), [spans for _, spans in layouts])

    def __len__(self) -> int:
        return len(self.seconds_V)

    @property
    def fingerprint(self) -> str:
        """A hash of the numbers, whatever file they come from."""
        digest = hashlib.sha256(np.array([len(spans_E2) for spans_E2 in self.spans_V], dtype="<i8").tobytes())
        for figures in (self.seconds_V, np.concatenate(self.spans_V)):
            digest.update(np.ascontiguousarray(figures, dtype="<f8").data)
        return f"sha256:{digest.hexdigest()}"

    def part(self, *, training: bool) -> LayoutTable:
        """The layouts for training, or the fifth that is held out for evaluation."""
        chosen = [number for number in range(len(self)) if (number % HELD_OUT > 0) == training]
        return LayoutTable(self.seconds_V[chosen], [self.spans_V[number] for number in chosen])

    def sampled(self, count: int, seed: int) -> LayoutTable:
        """A random sample of the layouts that can be composed; the shipped table is 5,000 with seed 2018."""
        pairs = zip(self.seconds_V.tolist(), self.spans_V, strict=True)
        usable = [8 <= seconds <= 300 and close_slack(seconds * spans, seconds) is not None for seconds, spans in pairs]
        chosen = np.sort(np.random.default_rng(seed).permutation(np.flatnonzero(usable))[:count]).tolist()
        return LayoutTable(self.seconds_V[chosen], [self.spans_V[number] for number in chosen])

    def save(self, path: Path | str) -> None:
        """Write the table, spans in units of 1/65535."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            spans = np.round(np.concatenate(self.spans_V) * FRACTIONS).astype(np.uint16)
            events = np.array([len(spans) for spans in self.spans_V], dtype=np.uint8)
            np.savez_compressed(file, seconds=self.seconds_V.astype(np.float32), events=events, spans=spans)

    def fitted(self, number: int, longest: float, tick: float) -> Layout | None:
        """Fit one layout; see `fit`."""
        return fit(float(self.seconds_V[number]), self.spans_V[number], longest, tick)


def fit(seconds: float, spans_E2: Spans, longest: float, tick: float) -> Layout | None:
    """Scale a layout down until its longest event can be filled, close slack, and round to ticks.

    Args:
        seconds: Duration of the video.
        spans_E2: Events as fractions of it.
        longest: Seconds of the longest event that there is footage for.
        tick: Seconds per tick.

    Returns:
        The layout; None if an event would vanish, events cover too little of it, or more than two overlap.
    """
    tidy_E2 = close_slack(seconds * spans_E2, seconds)
    if tidy_E2 is None:
        return None
    scale = _scale(tidy_E2, seconds, longest)
    tidy_E2 = close_slack(scale * tidy_E2, scale * seconds)
    if tidy_E2 is None:
        return None
    edges = np.unique(np.concatenate([[0.0, scale * seconds], tidy_E2.ravel()]))
    if covered(tidy_E2, edges).any(axis=0) @ np.diff(edges) < LEAST_COVERED * scale * seconds:
        return None
    in_order = np.lexsort((-tidy_E2[:, 1], tidy_E2[:, 0]))
    return Layout(round(scale * seconds / tick), np.round(tidy_E2[in_order] / tick).astype(np.int64))


def close_slack(spans_E2: Spans, seconds: float) -> Spans | None:
    """Merge edges less than SLACK apart; None if an event vanishes or three still overlap."""
    edges, place = np.unique(np.concatenate([[0.0, seconds], spans_E2.ravel()]), return_inverse=True)
    group = np.concatenate([[0], np.cumsum(np.diff(edges) >= SLACK)])
    if group[-1] == 0:
        return None
    middle = np.bincount(group, edges) / np.bincount(group)
    middle[0], middle[-1] = 0.0, seconds
    tidy_E2 = middle[group][place[2:]].reshape(spans_E2.shape)
    vanished = (np.diff(tidy_E2, axis=1) <= 0).any()
    return None if vanished or covered(tidy_E2, middle).sum(axis=0).max() > DEEPEST else tidy_E2


def covered(spans_E2: npt.NDArray[Any], edges: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Event x interval between adjacent edges: whether the event covers the interval."""
    return (spans_E2[:, :1] <= edges[:-1]) & (edges[1:] <= spans_E2[:, 1:])


def _scale(spans_E2: Spans, seconds: float, longest: float) -> float:
    """The scale, at most 1, at which there is footage for every event.

    The part of an event that overlaps no other has at most MOST_SHOTS shots, one less for every interruption; fewer
    clips fit two events at once, so overlaps must do with half the length.
    """
    edges = np.unique(np.concatenate([[0.0, seconds], spans_E2.ravel()]))
    inside_EG, width_G = covered(spans_E2, edges), np.diff(edges)
    depth_G = inside_EG.sum(axis=0)
    alone_EG = inside_EG & (depth_G == 1)
    parts_E = np.clip(alone_EG.sum(axis=1), 1, MOST_SHOTS)
    reach_E = longest * (MOST_SHOTS + 1 - parts_E) / MOST_SHOTS
    alone = (reach_E / np.maximum(alone_EG @ width_G, SLACK)).min()
    shared = longest / 2 / max(width_G[depth_G == 2].max(initial=0.0), SLACK)
    return float(min(1.0, alone, shared))


def _families(spans_E2: Ticks) -> list[list[Member]]:
    start_E, end_E = spans_E2.T
    touching_EE = (start_E[:, None] < end_E) & (start_E < end_E[:, None])
    inside_EE = (start_E <= start_E[:, None]) & (end_E[:, None] <= end_E)
    families = []
    waiting = sorted(range(len(spans_E2)), key=lambda event: start_E[event] - end_E[event])
    while waiting:
        family = [Member(waiting[0], waiting.pop(0), False)]
        for member in family:  # grows during the loop
            near = [other for other in waiting if touching_EE[member.event, other]]
            family += [Member(other, member.event, bool(inside_EE[other, member.event])) for other in near]
            waiting = [other for other in waiting if other not in near]
        families.append(family)
    return families


def _layout_of(entry: Any) -> tuple[float, Spans] | None:
    """The duration and the spans as fractions of it; None if one is missing or invalid."""
    try:
        seconds = float(entry["duration"])
        spans_E2 = np.asarray(entry["timestamps"], dtype=np.float64).reshape(-1, 2)
    except (KeyError, TypeError, ValueError):
        return None
    possible = 0 < seconds < np.inf and len(spans_E2) and np.isfinite(spans_E2).all()
    if not possible or spans_E2.min() < 0 or spans_E2.max() > seconds + ROUNDING or (np.diff(spans_E2) <= 0).any():
        return None
    return seconds, np.minimum(spans_E2 / seconds, 1.0)
