"""TimelinePlan: which footage a composed video shows at every moment, where it dissolves, and what its events are.

For each event, a ring of crops of its cast; the event is a window of the ring that begins at any of its ticks with the
same chance. So the first moment of an event is any moment of its footage, and nothing seen there gives it away. Inside
an event the window crosses from shot to shot just as borders do, by a cut or by a dissolve, drawn by the same law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.data.clip_collection import Clip
from densevid.data.timeline_layout import MOST_SHOTS, Layout, Member
from densevid.data.timeline_pool import SHORTEST_CROP, Bools, Footage, FootagePool, draw_cast

ATTEMPTS = 6  # to cast one layout
TRIES = 30  # to cast one of its events
FEWEST_SENTENCES = 2  # of an event
JUMP_CUT = 0.25  # the chance that a long crop is shown in two parts, the later one first
SHORTEST_JUMP = 8.0  # seconds of a crop that may be so cut
DISSOLVE = 0.3  # the chance of a dissolve at any joint, inside an event or at its border
DISSOLVE_SECONDS = (1.0, 3.0)


@dataclass(frozen=True, slots=True)
class Shot:
    """Footage without a cut: ticks `first .. first + ticks` of a clip."""

    clip: Clip
    clip_ticks: int
    first: int
    ticks: int


@dataclass(frozen=True, slots=True)
class Dissolve:
    """A soft joint: over `ticks` from `start`, the shot before the joint gives way to shot number `shot`."""

    shot: int
    start: int
    ticks: int


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A span in ticks and all that can be said of it."""

    start: int
    end: int
    sentences: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TimelinePlan:
    """All about a composed video but its pictures; `starts` gives the tick at which each shot begins."""

    tick: float
    shots: list[Shot]
    dissolves: list[Dissolve]
    events: list[TimelineEvent]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """When each shot begins, and the end of the last."""
        return np.cumsum([0, *(shot.ticks for shot in self.shots)])

    @property
    def ticks(self) -> int:
        """Length of the video."""
        return sum(shot.ticks for shot in self.shots)


def compose(rng: np.random.Generator, pool: FootagePool, layout: Layout) -> TimelinePlan | None:
    """Fill a layout with footage; None if no cast can be found for it."""
    for _ in range(ATTEMPTS):
        casting = _Casting(rng, pool, layout)
        if not all(casting.cast(*member) for member in _in_random_order(rng, layout)):
            continue
        sentences = [casting.sentences(event) for event in range(len(layout.spans_E2))]
        if min(map(len, sentences)) >= FEWEST_SENTENCES:
            shots = casting.shots_in_order()
            spans = zip(layout.spans_E2.tolist(), sentences, strict=True)
            events = [TimelineEvent(start, end, tuple(said)) for (start, end), said in spans]
            return TimelinePlan(pool.tick, shots, _draw_dissolves(rng, shots, pool.tick), events)
    return None


def _in_random_order(rng: np.random.Generator, layout: Layout) -> list[Member]:
    """The families of a layout in any order, so that length does not decide who chooses first; parents lead theirs."""
    families: list[list[Member]] = []
    for member in layout.families:
        if member[1] is None:
            families.append([])
        families[-1].append(member)
    return [member for number in rng.permutation(len(families)) for member in families[number]]


class _Casting:
    """One attempt at a layout: event after event gets a meaning and footage, parents before those they overlap."""

    def __init__(self, rng: np.random.Generator, pool: FootagePool, layout: Layout) -> None:
        self.rng, self.pool, self.layout = rng, pool, layout
        self.stretches: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for start, end, seen in layout.segments:
            self.stretches.setdefault(seen, []).append((start, end))
        self.outer = {event: parent for event, parent, inside in layout.families if inside}
        self.meaning: dict[int, int] = {}
        self.shown: dict[tuple[int, ...], Ring] = {}
        self.clips: list[int] = []
        self.taken_N = np.zeros(len(pool.events), dtype=bool)  # of a source that is shown already
        self.claims_N = np.zeros(len(pool.events), dtype=np.int64)  # how many events' meanings hold for a clip

    def cast(self, event: int, parent: int | None, inside: bool) -> bool:
        """A meaning for one event, footage of its own, and footage that it shares with its parent."""
        own, shared = (event,), () if parent is None else tuple(sorted((event, parent)))
        for _ in range(TRIES):
            pivot, meaning = self._draw_meaning(parent, shared, inside)
            if meaning is None or self.pool.holds_MN[meaning, self.clips].any():
                continue
            found: dict[tuple[int, ...], Ring | None] = {}
            holds_N = self.pool.holds_MN[meaning] & ~self.taken_N
            if own in self.stretches:
                floor = self.pool.floor_ticks if parent is None else 0
                found[own] = self._footage(holds_N & (self.claims_N == 0), own, floor, pivot)
            if parent is not None and found.get(own, ()) is not None:
                holds_N[self.pool.events_of(found.get(own, []))] = False
                both_N = holds_N & self.pool.holds_MN[self.meaning[parent]] & (self.claims_N == 1)
                found[shared] = self._footage(both_N, shared, 0, None)
            if None not in found.values():
                self._accept(event, meaning, found)
                return True
        return False

    def _draw_meaning(self, parent: int | None, shared: tuple[int, ...], inside: bool) -> tuple[int | None, int | None]:
        if parent is None:
            pivot, meaning = self.pool.draw_meaning(self.rng)
            return (None, None) if self.taken_N[pivot] or self.claims_N[pivot] else (pivot, meaning)
        ticks = self._ticks(shared)
        return None, self.pool.draw_partner(self.rng, self.meaning[parent], ticks, inside=inside)

    def _footage(self, free_N: Bools, seen: tuple[int, ...], floor: int, pivot: int | None) -> Ring | None:
        """A window of a ring of free clips, as long as the stretches need; None if they have not so much footage."""
        ticks = self._ticks(seen)
        cast = draw_cast(self.rng, self.pool.events, free_N, max(ticks, floor), MOST_SHOTS, pivot)
        if cast is None:
            return None
        shown = _window(self.rng, _ring(self.rng, self.pool.events, cast, self.pool.tick), ticks, MOST_SHOTS)
        return shown if self._shots(seen, shown) <= MOST_SHOTS else None

    def _accept(self, event: int, meaning: int, found: dict[tuple[int, ...], Ring]) -> None:
        self.meaning[event] = meaning
        self.claims_N += self.pool.holds_MN[meaning]
        self.shown |= found
        for clip in {clip for ring in found.values() for clip, _, _ in ring}:
            self.clips.append(clip)
            self.taken_N[self.pool.events.siblings[clip]] = True

    def sentences(self, event: int) -> list[str]:
        """What holds for all footage of an event; inside another event, not what holds for that one's own too."""
        clips = sorted({clip for seen, ring in self.shown.items() if event in seen for clip, _, _ in ring})
        without = [clip for clip, _, _ in self.shown.get((self.outer.get(event, -1),), [])]
        said = self.pool.said.common(clips, without, self.meaning[event])
        return [said[number] for number in self.rng.permutation(len(said))]

    def shots_in_order(self) -> list[Shot]:
        """The whole video."""
        placed = [pair for seen, ring in self.shown.items() for pair in self._laid(seen, ring, self.pool.events)]
        if () in self.stretches:
            placed += self._laid((), self._background(), self.pool.background)
        return [shot for _, shots in sorted(placed, key=lambda pair: pair[0]) for shot in shots]

    def _background(self) -> Ring:
        footage, ticks = self.pool.background, self._ticks(())
        anyone_N = np.ones(len(footage), dtype=bool)
        cast = draw_cast(self.rng, footage, anyone_N, ticks, len(footage)) or list(range(len(footage)))
        return _window(self.rng, _ring(self.rng, footage, cast, self.pool.tick), ticks)

    def _laid(self, seen: tuple[int, ...], ring: Ring, footage: Footage) -> list[tuple[int, list[Shot]]]:
        """What is shown, laid over the stretches it is for, one after the other."""
        shots = [Shot(footage.clips[clip], int(footage.ticks_N[clip]), first, ticks) for clip, first, ticks in ring]
        placed = []
        for start, end in self.stretches[seen]:
            here, shots = _split(shots, end - start)
            placed.append((start, here))
        return placed

    def _shots(self, seen: tuple[int, ...], shown: Ring) -> int:
        """How many shots that makes: a stretch that ends inside one makes it two."""
        ends = np.cumsum([end - start for start, end in self.stretches[seen]])
        return len(np.union1d(ends, np.cumsum([ticks for _, _, ticks in shown])))

    def _ticks(self, seen: tuple[int, ...]) -> int:
        return sum(end - start for start, end in self.stretches.get(seen, ()))


Ring = list[tuple[int, int, int]]  # (clip number, first tick, ticks) of each crop


def _ring(rng: np.random.Generator, footage: Footage, cast: list[int], tick: float) -> Ring:
    """A random crop of each clip of the cast, in random order; some long ones in two parts, the later part first."""
    ring: Ring = []
    for clip in rng.permutation(cast).tolist():
        whole = int(footage.ticks_N[clip])
        ticks = min(whole, int(np.ceil(whole * rng.uniform(SHORTEST_CROP, 1.0))))
        first = int(rng.integers(whole - ticks + 1))
        if len(cast) < MOST_SHOTS and ticks * tick >= SHORTEST_JUMP and rng.random() < JUMP_CUT:
            part = int(ticks * rng.uniform(0.25, 0.75))
            ring += [(clip, first + part, ticks - part), (clip, first, part)]
        else:
            ring.append((clip, first, ticks))
    return ring


def _window(rng: np.random.Generator, ring: Ring, ticks: int, most: int | None = None) -> Ring:
    """What is seen for `ticks` from a random place of the ring on, round and round if need be.

    Where that would take more than `most` shots, because the window comes back to the crop it began in, it begins at
    that crop's start.
    """
    place = int(rng.integers(sum(length for _, _, length in ring)))
    while place >= ring[0][2]:
        place -= ring[0][2]
        ring = [*ring[1:], ring[0]]
    shown = _walk(ring, place, ticks)
    return _walk(ring, 0, ticks) if most is not None and len(shown) > most else shown


def _walk(ring: Ring, skip: int, ticks: int) -> Ring:
    shown: Ring = []
    number = 0
    while ticks > 0:
        clip, first, length = ring[number % len(ring)]
        seen = min(length - skip, ticks)
        shown.append((clip, first + skip, seen))
        ticks, skip, number = ticks - seen, 0, number + 1
    return shown


def _split(shots: list[Shot], ticks: int) -> tuple[list[Shot], list[Shot]]:
    """The first `ticks` of a row of shots, and the rest."""
    here: list[Shot] = []
    for number, shot in enumerate(shots):
        if ticks < shot.ticks:
            rest = Shot(shot.clip, shot.clip_ticks, shot.first + ticks, shot.ticks - ticks)
            if ticks:
                here.append(Shot(shot.clip, shot.clip_ticks, shot.first, ticks))
            return here, [rest, *shots[number + 1 :]]
        here.append(shot)
        ticks -= shot.ticks
    return here, []


def _draw_dissolves(rng: np.random.Generator, shots: list[Shot], tick: float) -> list[Dissolve]:
    """At every joint alike: perhaps a dissolve, not longer than the shorter of its two shots."""
    start, dissolves = 0, []
    for number, (before, after) in enumerate(zip(shots[:-1], shots[1:], strict=True), start=1):
        start += before.ticks
        chosen, seconds = rng.random() < DISSOLVE, rng.uniform(*DISSOLVE_SECONDS)
        ticks = min(round(seconds / tick), before.ticks, after.ticks)
        if chosen and ticks * tick >= DISSOLVE_SECONDS[0]:
            dissolves.append(Dissolve(number, start - ticks // 2, ticks))
    return dissolves
