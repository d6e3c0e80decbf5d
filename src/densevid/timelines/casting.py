"""Casting: a layout becomes a plan; each event gets a meaning, and clips that fit it and no neighbouring event.

Events that overlap share footage. If one lies inside another, the outer sentence holds for all shots of the outer event
and the inner one for some of them; if two overlap in part, both sentences hold for the shots in the overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from densevid.timelines.footage import FEWEST_TEXTS, LARGEST_CAST, Bools, Footage, FootagePool, draw_cast
from densevid.timelines.layouts import MOST_SHOTS, Layout, Member
from densevid.timelines.plan import (
    Ring,
    Shot,
    TimelineEvent,
    TimelinePlan,
    distribute,
    draw_dissolves,
    draw_ring,
    draw_window,
)

ATTEMPTS = 8  # to cast one layout
TRIES = 30  # to cast one family of overlapping events
SHORTEST_SHOT = 2.0  # seconds; less only if a clip is shorter or an event boundary cuts a shot
LONGEST_BACKGROUND_SHOT = 8.0  # seconds, roughly
MIXED = 0.5  # probability that the pieces of all clips of an event are shuffled
EventSet = tuple[int, ...]  # the events that a stretch of the video belongs to


def compose(rng: np.random.Generator, pool: FootagePool, layout: Layout) -> TimelinePlan | None:
    """Fill a layout with footage.

    Args:
        rng: Source of randomness.
        pool: The footage.
        layout: Where the events lie.

    Returns:
        The plan, None if no clips were found for the layout.
    """
    for _ in range(ATTEMPTS):
        casting = _Casting(rng, pool, layout)
        # In random order, so that long events do not always choose first.
        families = [layout.families[number] for number in rng.permutation(len(layout.families)).tolist()]
        if not all(map(casting.cast, families)):
            continue
        sentences = [casting.sentences(event) for event in range(len(layout.spans_E2))]
        if min(map(len, sentences)) >= FEWEST_TEXTS:
            shots = casting.shots()
            spans = zip(layout.spans_E2.tolist(), sentences, strict=True)
            events = [TimelineEvent(start, end, tuple(texts)) for (start, end), texts in spans]
            borders = set(layout.spans_E2.ravel().tolist())
            return TimelinePlan(pool.tick, shots, draw_dissolves(rng, shots, pool.tick, borders), events)
    return None


class _Casting:
    """One attempt at a layout, family after family of overlapping events."""

    def __init__(self, rng: np.random.Generator, pool: FootagePool, layout: Layout) -> None:
        self.rng, self.pool, self.neighbours = rng, pool, layout.neighbours
        self.stretches: dict[EventSet, list[tuple[int, int]]] = {}
        for start, end, events in layout.segments:
            self.stretches.setdefault(events, []).append((start, end))
        self.outer = {member.event: member.parent for family in layout.families for member in family if member.inside}
        self.meaning: dict[int, int] = {}
        self.shown: dict[EventSet, Ring] = {}
        self.taken_N = np.zeros(len(pool.events), dtype=bool)  # clips of a source that is shown already

    def cast(self, family: Sequence[Member]) -> bool:
        """Find meanings and footage for a family; most families are a single event."""
        before = dict(self.meaning), dict(self.shown), self.taken_N.copy()
        for _ in range(TRIES):
            if self._cast_once(family):
                return True
            self.meaning, self.shown, self.taken_N = dict(before[0]), dict(before[1]), before[2].copy()
        return False

    def _cast_once(self, family: Sequence[Member]) -> bool:
        """Choose a meaning for the first event, cast those that overlap it, then the rest of the first."""
        first = family[0].event
        pivot: int | None
        pivot, self.meaning[first] = self.pool.draw_meaning(self.rng)
        if self.pool.holds_MN[self.meaning[first], self._clips_of(self._near(first))].any():
            return False
        if not all(self._cast_next(member) for member in family[1:]):
            return False
        pivot = pivot if len(family) == 1 else None
        return (first,) not in self.stretches or self._take((first,), self._free_for(first, self._near(first)), pivot)

    def _cast_next(self, member: Member) -> bool:
        """Cast an event that overlaps its parent: shared footage, a meaning for that, then the rest of the event."""
        event, parent = member.event, member.parent
        near, both = self._near(event), (min(event, parent), max(event, parent))
        if not self._take(both, self._free_for(parent, [other for other in near if other != parent])):
            return False
        shared = [clip for clip, _, _ in self.shown[both]]
        elsewhere = [clip for clip in self._clips_of(near) if clip not in shared]
        meaning = self.pool.draw_meaning_of(self.rng, shared, elsewhere, any_length=not member.inside)
        if meaning is None or meaning in self.meaning.values():
            return False
        self.meaning[event] = meaning
        return (event,) not in self.stretches or self._take((event,), self._free_for(event, near))

    def _near(self, event: int) -> list[int]:
        """The neighbours that are cast already."""
        return [other for other in self.neighbours[event] if other in self.meaning]

    def _free_for(self, event: int, others: list[int]) -> Bools:
        """The clips that fit an event: its meaning holds for them and no meaning of the others does."""
        return self.pool.holds_MN[self.meaning[event]] & ~self.taken_N & ~self._fitting(others)

    def _fitting(self, events: list[int]) -> Bools:
        """The clips for which the meaning of any of these events holds."""
        return np.asarray(self.pool.holds_MN[[self.meaning[event] for event in events]].any(axis=0))

    def _clips_of(self, events: list[int]) -> list[int]:
        """The clips that any of these events shows."""
        return [clip for shown, ring in self.shown.items() if not set(events).isdisjoint(shown) for clip, _, _ in ring]

    def _take(self, events: EventSet, free_N: Bools, pivot: int | None = None) -> bool:
        """Cast the stretches of a set of events from free clips; False if these have not enough footage.

        An event that overlaps no other has a pivot, and a cast with footage for an event of any length, however short
        it is itself (see `footage`).
        """
        ticks = self._ticks(events)
        wanted = ticks if pivot is None else max(ticks, self.pool.floor_ticks)
        if pivot is not None and not free_N[pivot]:
            return False
        cast = draw_cast(self.rng, self.pool.events, free_N, wanted, LARGEST_CAST, pivot)
        if cast is None:
            return False
        shown = draw_window(self.rng, self._ring(events, ticks, cast), ticks)
        if sum(len(here) for _, here in distribute(shown, self.stretches[events])) > MOST_SHOTS:
            return False
        self.shown[events] = shown
        for clip in {clip for clip, _, _ in shown}:
            self.taken_N[self.pool.events.siblings[clip]] = True
        return True

    def _ring(self, events: EventSet, ticks: int, cast: list[int]) -> Ring:
        """Cut the cast into pieces so long that the stretches have a random number of shots, at most MOST_SHOTS.

        (A window as long as k pieces touches at most k + 1 of them, and the end of a stretch cuts one more.)
        """
        most = max(1, MOST_SHOTS - len(self.stretches[events]))
        shots = 1 + int(most * np.sqrt(self.rng.random()))  # many shots with higher probability
        shortest = SHORTEST_SHOT / self.pool.tick
        mixed = self.rng.random() < MIXED
        return draw_ring(self.rng, self.pool.events, cast, max(ticks / shots, shortest), mixed=mixed)

    def sentences(self, event: int) -> list[str]:
        """The sentences that hold for all footage of an event; of an inner event, none that fits the outer one too."""
        clips = sorted({clip for events, ring in self.shown.items() if event in events for clip, _, _ in ring})
        without = [clip for clip, _, _ in self.shown.get((self.outer.get(event, -1),), [])]
        texts = self.pool.shared.common(clips, without, self.meaning[event])
        return [texts[number] for number in self.rng.permutation(len(texts)).tolist()]

    def shots(self) -> list[Shot]:
        """The shots of the whole video, with background between events."""
        footage = self.pool.events
        placed = [part for events, ring in self.shown.items() for part in self._placed(events, ring, footage)]
        if () in self.stretches:
            placed += self._placed((), self._background(), self.pool.background)
        return [shot for _, shots in sorted(placed, key=lambda part: part[0]) for shot in shots]

    def _background(self) -> Ring:
        """Background footage with cuts of its own."""
        footage, ticks = self.pool.background, self._ticks(())
        all_N = np.ones(len(footage), dtype=bool)
        cast = draw_cast(self.rng, footage, all_N, ticks, len(footage)) or list(range(len(footage)))
        seconds = SHORTEST_SHOT + self.rng.random() * (LONGEST_BACKGROUND_SHOT - SHORTEST_SHOT)
        return draw_window(self.rng, draw_ring(self.rng, footage, cast, seconds / self.pool.tick, mixed=True), ticks)

    def _placed(self, events: EventSet, ring: Ring, footage: Footage) -> list[tuple[int, list[Shot]]]:
        placed = distribute(ring, self.stretches[events])
        clips, ticks_N = footage.clips, footage.ticks_N
        return [
            (start, [Shot(clips[n], int(ticks_N[n]), first, ticks) for n, first, ticks in here])
            for start, here in placed
        ]

    def _ticks(self, events: EventSet) -> int:
        return sum(end - start for start, end in self.stretches[events])
