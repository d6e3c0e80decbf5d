"""Where the events of a composed timeline lie: layouts of real videos, fitted to the footage at hand.

A layout is the duration of a video and the spans of its events, without a word of what happens. The package holds
those of some thousand training videos of ActivityNet Captions, figures alone (`activitynet_layouts.npz`); any
annotation file in that form gives others. Times become ticks here, the unit in which footage is cut: one row of
features, or one frame.
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

SLACK = 1.5  # seconds: overlaps and gaps shorter than this are how exactly people click, not how events lie
LEAST_COVERED = 0.75  # of a video by events; one video in twenty has less, and shows mostly what nobody described
DEEPEST = 2  # so many events may share a moment
MOST_SHOTS = 5  # of one event
HELD_OUT = 5  # every fifth layout is for evaluation alone
ROUNDING = 0.1  # seconds that an event may end after its video
FRACTIONS = np.iinfo(np.uint16).max
Spans = npt.NDArray[np.float64]
Ticks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Member:
    """An event of a family, the earlier member it overlaps (the first member: itself), and whether it lies inside."""

    event: int
    parent: int
    inside: bool


@dataclass(frozen=True, eq=False)
class Layout:
    """One video's plan in ticks: its length, and the spans of its events in order of their starts."""

    ticks: int
    spans_E2: Ticks

    @cached_property
    def edges(self) -> Ticks:
        """Where something begins or ends, the ends of the video included."""
        return np.unique(np.concatenate([[0, self.ticks], self.spans_E2.ravel()]))

    @cached_property
    def segments(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """(start, end, the events seen there) between each edge and the next, in order of time."""
        inside_EG = covered(self.spans_E2, self.edges)
        seen = [tuple(np.flatnonzero(inside_E).tolist()) for inside_E in inside_EG.T]
        return list(zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), seen, strict=True))

    @cached_property
    def neighbours(self) -> list[set[int]]:
        """For every event those that are seen with it, or next to it with nothing but background between."""
        seen = [set(events) for _, _, events in self.segments if events]
        together = [*seen, *(before | after for before, after in pairwise(seen))]
        return [set().union(*(group for group in together if e in group)) - {e} for e in range(len(self.spans_E2))]

    @cached_property
    def families(self) -> list[list[Member]]:
        """Events that overlap, together, each after its parent.

        Where at most two events share a moment, overlaps form trees: from the longest event outwards, each event has
        one parent, and none contains its parent.
        """
        return _families(self.spans_E2)


@dataclass(frozen=True, eq=False)
class LayoutTable:
    """Layouts of many videos: seconds, and for each event (start, end) as fractions of them."""

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
        """The layouts of an annotation file in ActivityNet's form; videos with impossible times are left out."""
        content = read_json(path)
        if not isinstance(content, Mapping):
            raise InputError(f"{path}: expected {{video: {{duration, timestamps}}}}")
        layouts = [layout for entry in content.values() if (layout := _layout_of(entry)) is not None]
        if not layouts:
            raise InputError(f"{path}: no video in it has a duration and timestamps that can be used")
        return cls(np.array([seconds for seconds, _ in layouts]), [spans for _, spans in layouts])

    def __len__(self) -> int:
        return len(self.seconds_V)

    @property
    def fingerprint(self) -> str:
        """A hash of the figures, however the file was written that they come from."""
        digest = hashlib.sha256(np.array([len(spans_E2) for spans_E2 in self.spans_V], dtype="<i8").tobytes())
        for figures in (self.seconds_V, np.concatenate(self.spans_V)):
            digest.update(np.ascontiguousarray(figures, dtype="<f8").data)
        return f"sha256:{digest.hexdigest()}"

    def part(self, *, training: bool) -> LayoutTable:
        """Those for training, or the fifth that is held out for evaluation."""
        chosen = [number for number in range(len(self)) if (number % HELD_OUT > 0) == training]
        return LayoutTable(self.seconds_V[chosen], [self.spans_V[number] for number in chosen])

    def sampled(self, count: int, seed: int) -> LayoutTable:
        """A random part of the layouts that can be composed at all; the shipped ones are 5,000 with the seed 2018."""
        pairs = zip(self.seconds_V.tolist(), self.spans_V, strict=True)
        usable = [8 <= seconds <= 300 and close_slack(seconds * spans, seconds) is not None for seconds, spans in pairs]
        chosen = np.sort(np.random.default_rng(seed).permutation(np.flatnonzero(usable))[:count]).tolist()
        return LayoutTable(self.seconds_V[chosen], [self.spans_V[number] for number in chosen])

    def save(self, path: Path | str) -> None:
        """Write the table compactly, as fractions of 1/65535."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            spans = np.round(np.concatenate(self.spans_V) * FRACTIONS).astype(np.uint16)
            events = np.array([len(spans) for spans in self.spans_V], dtype=np.uint8)
            np.savez_compressed(file, seconds=self.seconds_V.astype(np.float32), events=events, spans=spans)

    def fitted(self, number: int, longest: float, tick: float) -> Layout | None:
        """One layout as it can be filled with footage where an event can last `longest` seconds, in ticks."""
        return fit(float(self.seconds_V[number]), self.spans_V[number], longest, tick)


def fit(seconds: float, spans_E2: Spans, longest: float, tick: float) -> Layout | None:
    """Shrink a layout as a whole until its longest event can be filled, close slack, round to ticks.

    None if an event would vanish, events cover too little, or more of them share a moment than can be composed.
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
    """Bring edges less than SLACK apart together; None if that ends an event or three still share a moment."""
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
    """Event x gap between one edge and the next: whether the event covers the gap."""
    return (spans_E2[:, :1] <= edges[:-1]) & (edges[1:] <= spans_E2[:, 1:])


def _scale(spans_E2: Spans, seconds: float, longest: float) -> float:
    """At most 1, and so small that footage reaches.

    What an event shows alone is at most MOST_SHOTS shots, less one for every time another event interrupts it; what
    two events share is found in fewer clips, so half the length must do.
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
        for member in family:  # grows while it is walked
            near = [other for other in waiting if touching_EE[member.event, other]]
            family += [Member(other, member.event, bool(inside_EE[other, member.event])) for other in near]
            waiting = [other for other in waiting if other not in near]
        families.append(family)
    return families


def _layout_of(entry: Any) -> tuple[float, Spans] | None:
    """The duration and the spans as fractions of it, if the entry has them and they are possible."""
    try:
        seconds = float(entry["duration"])
        spans_E2 = np.asarray(entry["timestamps"], dtype=np.float64).reshape(-1, 2)
    except (KeyError, TypeError, ValueError):
        return None
    possible = 0 < seconds < np.inf and len(spans_E2) and np.isfinite(spans_E2).all()
    if not possible or spans_E2.min() < 0 or spans_E2.max() > seconds + ROUNDING or (np.diff(spans_E2) <= 0).any():
        return None
    return seconds, np.minimum(spans_E2 / seconds, 1.0)
