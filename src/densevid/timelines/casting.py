"""A layout becomes a plan: each event gets a meaning, and footage for which that and no other event's meaning holds.

Events that share time share footage. Where one lies inside another, the outer event's sentence holds for all of its
shots and the inner one's for some of them; where two overlap in part, both sentences hold for the shots in between.
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
    draw_dissolves,
    draw_ring,
    draw_window,
    lay,
)

ATTEMPTS = 8  # to cast one layout
TRIES = 30  # to cast one of its events
SHORTEST_SHOT = 2.0  # seconds; less only where a clip is shorter, or a border cuts a shot
LONGEST_BACKGROUND_SHOT = 8.0  # seconds, or a little more
MIXED = 0.5  # the chance that the pieces of all clips of an event follow each other in any order
EventFeatures = tuple[int, ...]  # the events that are seen in a stretch of the video


def compose(rng: np.random.Generator, pool: FootagePool, layout: Layout) -> TimelinePlan | None:
    """Fill a layout with footage; None if no cast can be found for it."""
    for _ in range(ATTEMPTS):
        casting = _Casting(rng, pool, layout)
        # In any order, so that length does not decide who chooses first.
        families = [layout.families[number] for number in rng.permutation(len(layout.families)).tolist()]
        if not all(map(casting.cast, families)):
            continue
        sentences = [casting.sentences(event) for event in range(len(layout.spans_E2))]
        if min(map(len, sentences)) >= FEWEST_TEXTS:
            shots = casting.shots()
            spans = zip(layout.spans_E2.tolist(), sentences, strict=True)
            events = [TimelineEvent(start, end, tuple(said)) for (start, end), said in spans]
            borders = set(layout.spans_E2.ravel().tolist())
            return TimelinePlan(pool.tick, shots, draw_dissolves(rng, shots, pool.tick, borders), events)
    return None


class _Casting:
    """One attempt at a layout, family after family."""

    def __init__(self, rng: np.random.Generator, pool: FootagePool, layout: Layout) -> None:
        self.rng, self.pool, self.neighbours = rng, pool, layout.neighbours
        self.stretches: dict[EventFeatures, list[tuple[int, int]]] = {}
        for start, end, seen in layout.segments:
            self.stretches.setdefault(seen, []).append((start, end))
        self.outer = {member.event: member.parent for family in layout.families for member in family if member.inside}
        self.meaning: dict[int, int] = {}
        self.shown: dict[EventFeatures, Ring] = {}
        self.taken_N = np.zeros(len(pool.events), dtype=bool)  # of a source that is shown already

    def cast(self, family: Sequence[Member]) -> bool:
        """Find meanings and footage for events that overlap each other; most families have one event alone."""
        before = dict(self.meaning), dict(self.shown), self.taken_N.copy()
        for _ in range(TRIES):
            if self._cast_once(family):
                return True
            self.meaning, self.shown, self.taken_N = dict(before[0]), dict(before[1]), before[2].copy()
        return False

    def _cast_once(self, family: Sequence[Member]) -> bool:
        """The first event chooses a meaning, then come those that share its footage, then its own footage."""
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
        """An event that shares time with its parent: footage of the parent's meaning, a meaning of that, the rest."""
        event, parent = member.event, member.parent
        near, both = self._near(event), (min(event, parent), max(event, parent))
        if not self._take(both, self._free_for(parent, [other for other in near if other != parent])):
            return False
        shared = [clip for clip, _, _ in self.shown[both]]
        elsewhere = [clip for clip in self._clips_of(near) if clip not in shared]
        meaning = self.pool.draw_meaning_of(self.rng, shared, elsewhere, able=not member.inside)
        if meaning is None or meaning in self.meaning.values():
            return False
        self.meaning[event] = meaning
        return (event,) not in self.stretches or self._take((event,), self._free_for(event, near))

    def _near(self, event: int) -> list[int]:
        """The neighbours that have been cast already."""
        return [other for other in self.neighbours[event] if other in self.meaning]

    def _free_for(self, event: int, others: list[int]) -> Bools:
        """The clips that could be shown for an event: its meaning holds for them and the others' do not."""
        return self.pool.holds_MN[self.meaning[event]] & ~self.taken_N & ~self._said_of(others)

    def _said_of(self, events: list[int]) -> Bools:
        """The clips for which the meaning of any of these events holds."""
        return np.asarray(self.pool.holds_MN[[self.meaning[event] for event in events]].any(axis=0))

    def _clips_of(self, events: list[int]) -> list[int]:
        """The clips that any of these events shows."""
        return [clip for seen, ring in self.shown.items() if not set(events).isdisjoint(seen) for clip, _, _ in ring]

    def _take(self, seen: EventFeatures, free_N: Bools, pivot: int | None = None) -> bool:
        """Show a window of a ring of free clips, as long as the stretches are, if they have so much footage.

        An event that overlaps no other has a pivot, and a cast for as long an event as could be, however short it is
        itself: see `timeline_pool`.
        """
        ticks = self._ticks(seen)
        wanted = ticks if pivot is None else max(ticks, self.pool.floor_ticks)
        if pivot is not None and not free_N[pivot]:
            return False
        cast = draw_cast(self.rng, self.pool.events, free_N, wanted, LARGEST_CAST, pivot)
        if cast is None:
            return False
        shown = draw_window(self.rng, self._ring(seen, ticks, cast), ticks)
        if sum(len(here) for _, here in lay(shown, self.stretches[seen])) > MOST_SHOTS:
            return False
        self.shown[seen] = shown
        for clip in {clip for clip, _, _ in shown}:
            self.taken_N[self.pool.events.siblings[clip]] = True
        return True

    def _ring(self, seen: EventFeatures, ticks: int, cast: list[int]) -> Ring:
        """Pieces so long that the stretches take a random number of shots, at most as many as an event may have.

        A window of k pieces' length touches at most k + 1 of them, and the end of a stretch cuts one more.
        """
        most = max(1, MOST_SHOTS - len(self.stretches[seen]))
        shots = 1 + int(most * np.sqrt(self.rng.random()))  # more of them more often
        shortest = SHORTEST_SHOT / self.pool.tick
        mixed = self.rng.random() < MIXED
        return draw_ring(self.rng, self.pool.events, cast, max(ticks / shots, shortest), mixed=mixed)

    def sentences(self, event: int) -> list[str]:
        """What holds for all footage of an event; inside another event, not what holds for that one's own too."""
        clips = sorted({clip for seen, ring in self.shown.items() if event in seen for clip, _, _ in ring})
        without = [clip for clip, _, _ in self.shown.get((self.outer.get(event, -1),), [])]
        said = self.pool.said.common(clips, without, self.meaning[event])
        return [said[number] for number in self.rng.permutation(len(said)).tolist()]

    def shots(self) -> list[Shot]:
        """The whole video, with background where no event is."""
        footage = self.pool.events
        placed = [part for seen, ring in self.shown.items() for part in self._placed(seen, ring, footage)]
        if () in self.stretches:
            placed += self._placed((), self._background(), self.pool.background)
        return [shot for _, shots in sorted(placed, key=lambda part: part[0]) for shot in shots]

    def _background(self) -> Ring:
        """Footage that nobody describes, with cuts of its own."""
        footage, ticks = self.pool.background, self._ticks(())
        anyone_N = np.ones(len(footage), dtype=bool)
        cast = draw_cast(self.rng, footage, anyone_N, ticks, len(footage)) or list(range(len(footage)))
        seconds = SHORTEST_SHOT + self.rng.random() * (LONGEST_BACKGROUND_SHOT - SHORTEST_SHOT)
        return draw_window(self.rng, draw_ring(self.rng, footage, cast, seconds / self.pool.tick, mixed=True), ticks)

    def _placed(self, seen: EventFeatures, ring: Ring, footage: Footage) -> list[tuple[int, list[Shot]]]:
        laid = lay(ring, self.stretches[seen])
        clips, ticks_N = footage.clips, footage.ticks_N
        return [
            (start, [Shot(clips[n], int(ticks_N[n]), first, ticks) for n, first, ticks in here]) for start, here in laid
        ]

    def _ticks(self, seen: EventFeatures) -> int:
        return sum(end - start for start, end in self.stretches[seen])
