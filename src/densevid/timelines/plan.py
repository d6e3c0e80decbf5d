"""TimelinePlan: which footage a composed video shows at every moment, where it dissolves, and what its events are.

What an event shows is a window of a ring: pieces of its cast, one after the other, the last followed by the first. The
window begins at any tick of the ring with the same chance. So the first moment of an event is any moment of its
footage, and nothing seen there gives it away; inside, the window goes from shot to shot just as at borders, by a cut
or by a dissolve, one as often as at borders.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from densevid.timelines.clips import Clip
from densevid.timelines.footage import SHORTEST_CROP, Footage

DISSOLVE = 0.3  # the chance of a dissolve at a joint, if there is room for it
DISSOLVE_AT_BORDER = 0.357  # where an event begins or ends; borders cut shots short, so fewer of these find room
DISSOLVE_SECONDS = (1.0, 3.0)
AROUND_THE_JOINT = 0.35  # of the dissolves; the others end there
Ring = list[tuple[int, int, int]]  # (number of the clip, first tick, ticks) of each crop


@dataclass(frozen=True, slots=True)
class Shot:
    """Footage without a cut: ticks `first .. first + ticks` of a clip, which has `clip_ticks` in all."""

    clip: Clip
    clip_ticks: int
    first: int
    ticks: int


@dataclass(frozen=True, slots=True)
class Dissolve:
    """A soft joint: over `ticks` from tick `start` of the video, the shot before gives way to shot number `shot`."""

    shot: int
    start: int
    ticks: int


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A span in ticks and all that can be said of it, in random order."""

    start: int
    end: int
    sentences: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TimelinePlan:
    """All about a composed video but its pictures."""

    tick: float
    shots: list[Shot]
    dissolves: list[Dissolve]
    events: list[TimelineEvent]

    @property
    def starts(self) -> list[int]:
        """The tick at which each shot begins, and the end of the last."""
        return [0, *accumulate(shot.ticks for shot in self.shots)]

    @property
    def ticks(self) -> int:
        """Length of the video."""
        return sum(shot.ticks for shot in self.shots)

    @property
    def seconds(self) -> float:
        """Length of the video in seconds."""
        return round(self.ticks * self.tick, 3)

    def span(self, event: TimelineEvent) -> tuple[float, float]:
        """An event's start and end in seconds."""
        return round(event.start * self.tick, 3), round(event.end * self.tick, 3)


def draw_ring(
    rng: np.random.Generator, footage: Footage, cast: Sequence[int], shot_ticks: float, *, mixed: bool
) -> Ring:
    """A random crop of each clip of the cast, cut into pieces of at least `shot_ticks` where it is long enough.

    The pieces stand in random order: `mixed`, or clip after clip, which makes jump cuts.
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
    """What is seen for `ticks` from a random place of the ring on, round and round if need be."""
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
        if shown and shown[-1][0] == clip and sum(shown[-1][1:]) == first + skip:  # goes on where it was: no joint
            shown[-1] = (clip, shown[-1][1], shown[-1][2] + seen)
        else:
            shown.append((clip, first + skip, seen))
        ticks, skip, number = ticks - seen, 0, number + 1
    return shown


def lay(shown: Ring, stretches: Sequence[tuple[int, int]]) -> list[tuple[int, Ring]]:
    """Lay what is shown over stretches of the video, one after the other: (start, what is seen from there on)."""
    laid, rest = [], list(shown)
    for start, end in stretches:
        here, left = [], end - start
        while left > 0:
            clip, first, ticks = rest.pop(0)
            here.append((clip, first, min(ticks, left)))
            if ticks > left:
                rest.insert(0, (clip, first + left, ticks - left))
            left -= ticks
        laid.append((start, here))
    return laid


def draw_dissolves(
    rng: np.random.Generator, shots: Sequence[Shot], tick: float, borders: Collection[int] = ()
) -> list[Dissolve]:
    """At every joint perhaps a dissolve, never longer than half of either of its shots leaves room for.

    Of the joints inside events .888 have room, of those at `borders` .746 (6,000 timelines of MSVD's train split). So
    there are two chances, and what comes of them is the same. Most dissolves end with the joint, some lie around it, so
    that the first step after a joint is in a dissolve about as often as any other step.
    """
    joint, dissolves = 0, []
    shortest, longest = DISSOLVE_SECONDS
    chances = rng.random((len(shots), 3)).tolist()
    for number, (before, after) in enumerate(pairwise(shots), start=1):
        joint += before.ticks
        chance, stretch, place = chances[number]
        around = place < AROUND_THE_JOINT
        room = min(before.ticks, after.ticks) if around else before.ticks // 2
        ticks = min(round((shortest + (longest - shortest) * stretch) / tick), room)
        if chance < (DISSOLVE_AT_BORDER if joint in borders else DISSOLVE) and ticks * tick >= shortest:
            dissolves.append(Dissolve(number, joint - (ticks // 2 if around else ticks), ticks))
    return dissolves
