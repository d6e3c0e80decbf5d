"""TimelinePlan: which footage a composed video shows at every moment, where it dissolves, and what its events are.

The shots of an event come from a ring: pieces of the event's clips in a circle, of which a window of the event's length
is shown. The window starts at a uniformly random tick of the ring, so that an event can begin at any moment of its
footage and its first frame does not give the boundary away. Inside an event, shots follow each other by cuts and
dissolves as often as at event boundaries, for the same reason. Times are in ticks: one feature row, or one frame.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from densevid.data.feature_rows import FeatureRows
from densevid.timelines.clips import Clip
from densevid.timelines.footage import SHORTEST_CROP, Footage

DISSOLVE = 0.3  # probability of a dissolve between two shots that are long enough
DISSOLVE_AT_BORDER = 0.357  # where an event starts or ends; shots are shorter there and fewer dissolves fit
DISSOLVE_SECONDS = (1.0, 3.0)
AROUND_THE_JOINT = 0.35  # share of dissolves that are centred on the joint; the others end there
Ring = list[tuple[int, int, int]]  # (number of the clip, first tick, ticks) of each crop


@dataclass(frozen=True, slots=True)
class Shot:
    """Uncut footage: ticks `first .. first + ticks` of a clip that is `clip_ticks` long."""

    clip: Clip
    clip_ticks: int
    first: int
    ticks: int


@dataclass(frozen=True, slots=True)
class Dissolve:
    """A cross-fade into shot number `shot`, over `ticks` from tick `start` of the video."""

    shot: int
    start: int
    ticks: int


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An annotated event: its span in ticks, and its sentences in random order."""

    start: int
    end: int
    sentences: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TimelinePlan:
    """A composed video without its features or frames: shots, dissolves and events. `tick` is in seconds."""

    tick: float
    shots: list[Shot]
    dissolves: list[Dissolve]
    events: list[TimelineEvent]

    @property
    def starts(self) -> list[int]:
        """Start of each shot in ticks, and the end of the last."""
        return [0, *accumulate(shot.ticks for shot in self.shots)]

    @property
    def ticks(self) -> int:
        """Length of the video in ticks."""
        return sum(shot.ticks for shot in self.shots)

    @property
    def seconds(self) -> float:
        """Length of the video in seconds."""
        return round(self.ticks * self.tick, 3)

    def span(self, event: TimelineEvent) -> tuple[float, float]:
        """Start and end of an event in seconds."""
        return round(event.start * self.tick, 3), round(event.end * self.tick, 3)

    def feature_rows(self) -> FeatureRows:
        """The rows of the clips' feature table that the video shows at each step."""
        shown = [shot.clip.first_row + np.arange(shot.first, shot.first + shot.ticks) for shot in self.shots]
        return FeatureRows(np.concatenate(shown), *_dissolve_rows(self))


def _dissolve_rows(
    plan: TimelinePlan,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """For every step in a dissolve: the step, the row of the other shot, and the weight of that row.

    Before the joint the other shot is the next one, before its first tick; after the joint it is the previous one,
    beyond its last tick. A clip that has no footage there wraps around.
    """
    starts, empty = plan.starts, np.empty(0, dtype=np.int64)
    steps, rows, weights = [empty], [empty], [np.empty(0)]
    for dissolve in plan.dissolves:
        before, after, joint = plan.shots[dissolve.shot - 1], plan.shots[dissolve.shot], starts[dissolve.shot]
        step = np.arange(dissolve.start, dissolve.start + dissolve.ticks)
        progress = (step - dissolve.start + 0.5) / dissolve.ticks
        next_row = after.clip.first_row + (after.first + step - joint) % after.clip_ticks
        previous_row = before.clip.first_row + (before.first + before.ticks + step - joint) % before.clip_ticks
        steps.append(step)
        rows.append(np.where(step < joint, next_row, previous_row))
        weights.append(np.where(step < joint, progress, 1 - progress))
    return np.concatenate(steps), np.concatenate(rows), np.concatenate(weights).astype(np.float32)


def draw_ring(
    rng: np.random.Generator, footage: Footage, cast: Sequence[int], shot_ticks: float, *, mixed: bool
) -> Ring:
    """Crop each clip at random and cut it into pieces of at least `shot_ticks`, if it is long enough.

    Args:
        rng: Source of randomness.
        footage: The clips.
        cast: Indices of the clips to use.
        shot_ticks: Shortest piece.
        mixed: Shuffle the pieces of all clips; otherwise keep those of one clip together, which makes jump cuts.
    """
    ring, order = [], []
    chances = rng.random((len(cast), 3)).tolist()
    for (turn, crop, where), clip in zip(chances, cast, strict=True):
        whole = int(footage.ticks_N[clip])
        ticks = whole - int(whole * (1 - SHORTEST_CROP) * crop)
        first = int((whole - ticks + 1) * where)
        pieces = max(1, int(ticks / shot_ticks))
        edges = [first + ticks * piece // pieces for piece in range(pieces + 1)]
        ring += [(clip, start, end - start) for start, end in pairwise(edges)]
        order += [(0.0 if mixed else turn, chance) for chance in rng.random(pieces).tolist()]
    return [piece for _, piece in sorted(zip(order, ring, strict=True))]


def draw_window(rng: np.random.Generator, ring: Ring, ticks: int) -> Ring:
    """Show the ring for `ticks` from a random place on, as many times round as necessary."""
    place = int(rng.random() * sum(length for _, _, length in ring))
    while place >= ring[0][2]:
        place -= ring[0][2]
        ring = [*ring[1:], ring[0]]
    return _walk(ring, place, ticks)


def _walk(ring: Ring, skip: int, ticks: int) -> Ring:
    shown: Ring = []
    number = 0
    while ticks > 0:
        clip, first, length = ring[number % len(ring)]
        seen = min(length - skip, ticks)
        if shown and shown[-1][0] == clip and sum(shown[-1][1:]) == first + skip:  # continues it: no joint
            shown[-1] = (clip, shown[-1][1], shown[-1][2] + seen)
        else:
            shown.append((clip, first + skip, seen))
        ticks, skip, number = ticks - seen, 0, number + 1
    return shown


def distribute(shown: Ring, stretches: Sequence[tuple[int, int]]) -> list[tuple[int, Ring]]:
    """Distribute shots over stretches of the video: for each stretch its start and the shots in it."""
    placed, rest = [], list(shown)
    for start, end in stretches:
        here, left = [], end - start
        while left > 0:
            clip, first, ticks = rest.pop(0)
            here.append((clip, first, min(ticks, left)))
            if ticks > left:
                rest.insert(0, (clip, first + left, ticks - left))
            left -= ticks
        placed.append((start, here))
    return placed


def draw_dissolves(
    rng: np.random.Generator, shots: Sequence[Shot], tick: float, borders: Collection[int] = ()
) -> list[Dissolve]:
    """Draw dissolves between shots, at most as long as half of either shot allows.

    A dissolve fits at .888 of the joints inside events and at .746 of those at `borders` (6,000 timelines
    of MSVD's train split); the two probabilities make dissolves equally frequent at both. Most dissolves end at the
    joint and some are centred on it, so that the first step after a joint is in a dissolve as often as any other step.

    Args:
        rng: Source of randomness.
        shots: The shots of the video.
        tick: Seconds per tick.
        borders: Ticks at which events start or end.
    """
    joint, dissolves = 0, []
    shortest, longest = DISSOLVE_SECONDS
    chances = rng.random((len(shots), 3)).tolist()
    for number, (before, after) in enumerate(pairwise(shots), start=1):
        joint += before.ticks
        chance, stretch, place = chances[number]
        around = place < AROUND_THE_JOINT
        longest_here = min(before.ticks, after.ticks) if around else before.ticks // 2
        ticks = min(round((shortest + (longest - shortest) * stretch) / tick), longest_here)
        if chance < (DISSOLVE_AT_BORDER if joint in borders else DISSOLVE) and ticks * tick >= shortest:
            dissolves.append(Dissolve(number, joint - (ticks // 2 if around else ticks), ticks))
    return dissolves
