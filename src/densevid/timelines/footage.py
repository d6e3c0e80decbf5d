"""FootagePool: the clips of one split as footage, those set aside for background, and who can be cast together.

A meaning is a set of clips for which the same can be said: a shared sentence, or all that was said of one clip alone.
The cast of an event is up to four clips, each of another source, for which its meaning holds, with so much footage
that an event of any length could be cut from it. The length is drawn without regard to the cast and the cast without
regard to the length, so what is seen says nothing about where in an event one is.

A clip without captions is quiet: black, a still, slides, footage in which nothing happens. It is background too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from densevid.errors import InputError
from densevid.timelines.clips import Clip, share_of
from densevid.timelines.layouts import MOST_SHOTS
from densevid.timelines.sentences import SharedSentences, find_shared_sentences

BACKGROUND_SHARE = 0.12  # of the sources
FEWEST_SOURCES = 8
LARGEST_CAST = MOST_SHOTS - 1  # a window of a ring may end in the crop it began in, which makes one shot more
LONGEST_EVENT = 55.0  # seconds; less where a split has not enough footage for it
MOST_CLIPS = 0.65  # of a split can be cast for any event up to a length that does not show what is cast
SOME_CLIPS = 0.2  # of a split can be cast for the longest events
COMMONEST = 0.2  # a meaning that holds for more of the clips is too general to be an event
SHORTEST_CROP = 0.85  # of a clip
FEWEST_TEXTS = 2  # of an event
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Footage:
    """Clips in the order in which they are numbered, with their lengths in ticks and the numbers of their sources."""

    clips: tuple[Clip, ...]
    ticks_N: Indices
    source_N: Indices

    @classmethod
    def of(cls, clips: Sequence[Clip], tick: float) -> Footage:
        """Measure clips; the ticks of a clip with features are its rows."""
        ticks_N = np.array([clip.rows or max(1, int(clip.seconds / tick)) for clip in clips], dtype=np.int64)
        source_N = np.unique([clip.source for clip in clips], return_inverse=True)[1]
        return cls(tuple(clips), ticks_N, source_N)

    def __len__(self) -> int:
        return len(self.clips)

    @cached_property
    def siblings(self) -> list[Indices]:
        """For every clip all clips of the same source, itself included."""
        return [np.flatnonzero(self.source_N == source) for source in self.source_N]


class FootagePool:
    """A split's footage: `events` for what is captioned, `background` for what never is, `quiet` ones among it."""

    def __init__(self, clips: Sequence[Clip], tick: float, name: str) -> None:
        self.tick = tick
        aside = _set_aside([clip for clip in clips if clip.captions], name)
        self.quiet = Footage.of([clip for clip in clips if not clip.captions], tick)
        self.background = Footage.of([clip for clip in clips if clip.source in aside or not clip.captions], tick)
        self.events = Footage.of([clip for clip in clips if clip.source not in aside and clip.captions], tick)
        if len(set(self.events.source_N.tolist())) < FEWEST_SOURCES // 2:
            raise InputError(f"split {name!r}: too few of its clips have captions to compose timelines from them")
        captions = [clip.captions for clip in self.events.clips]
        self.said: SharedSentences = find_shared_sentences(captions, [clip.source for clip in self.events.clips])
        self.holds_MN: Bools = np.concatenate([self.said.holds_KN, np.eye(len(self.events), dtype=bool)])
        self._measure()

    def _measure(self) -> None:
        """How much footage each meaning has, how long events may be, and which meanings each clip can stand for."""
        count_M = self.holds_MN.sum(axis=1)
        self.telling_M: Bools = np.concatenate([self.said.telling_K, np.ones(len(self.events), dtype=bool)])
        self.telling_M &= (count_M <= max(COMMONEST * len(self.events), MOST_SHOTS)) & (self._texts() >= FEWEST_TEXTS)
        self.weight_M = np.where(self.telling_M, 1 / count_M, 0.0)
        reach_M = np.where(self.telling_M, self._reach(), 0) * SHORTEST_CROP
        reach_N = np.array([reach_M[holds_M].max() for holds_M in self.holds_MN.T])
        self.floor_ticks, longest = np.quantile(reach_N, (1 - MOST_CLIPS, 1 - SOME_CLIPS)).astype(np.int64).tolist()
        self.longest = min(LONGEST_EVENT, longest * self.tick)
        self.floor_ticks = min(self.floor_ticks, int(self.longest / self.tick))
        self.told_N = [np.flatnonzero(holds_M & self.telling_M) for holds_M in self.holds_MN.T]
        self.choices_N = [np.flatnonzero(holds_M & (reach_M >= self.floor_ticks)) for holds_M in self.holds_MN.T]
        self.chances_N = [np.cumsum(self.weight_M[choices]) for choices in self.choices_N]
        self.pivots = np.array([clip for clip, choices in enumerate(self.choices_N) if len(choices)])

    def _texts(self) -> Indices:
        """How many different sentences each meaning can be told with."""
        said = self.said
        shared = [len({said.sentences[i] for i in said.with_meaning[k]}) for k in range(len(said.holds_KN))]
        return np.array([*shared, *(len(clip.captions) for clip in self.events.clips)])

    def _reach(self) -> Indices:
        """Ticks of the longest clips that a meaning can be cast with, of different sources."""
        longest_first = np.argsort(-self.events.ticks_N, kind="stable")
        reach = []
        for holds_N in self.holds_MN[:, longest_first]:
            clips = longest_first[holds_N]
            _, first = np.unique(self.events.source_N[clips], return_index=True)
            reach.append(self.events.ticks_N[clips[np.sort(first)[:LARGEST_CAST]]].sum())
        return np.array(reach)

    def draw_meaning(self, rng: np.random.Generator) -> tuple[int, int]:
        """A clip, each as likely as any other, and a meaning it can stand for, the more specific the likelier."""
        pivot = int(self.pivots[rng.integers(len(self.pivots))])
        chances = self.chances_N[pivot]
        return pivot, int(self.choices_N[pivot][np.searchsorted(chances, rng.random() * chances[-1], side="right")])

    def draw_meaning_of(
        self, rng: np.random.Generator, clips: Sequence[int], without: Sequence[int], *, able: bool
    ) -> int | None:
        """A meaning that holds for all these clips and for none `without`; `able`: one that could fill any event."""
        meanings = self.choices_N[clips[0]] if able else self.told_N[clips[0]]
        fits = self.holds_MN[meanings[:, None], list(clips)].all(axis=1)
        fits &= ~self.holds_MN[meanings[:, None], list(without)].any(axis=1)
        chances = np.cumsum(self.weight_M[meanings] * fits)
        if not len(chances) or not chances[-1]:
            return None
        return int(meanings[np.searchsorted(chances, rng.random() * chances[-1], side="right")])


def draw_cast(
    rng: np.random.Generator, footage: Footage, free_N: Bools, ticks: int, most: int, pivot: int | None = None
) -> list[int] | None:
    """Up to `most` clips of different sources among the free ones, with at least `ticks` of footage after cropping.

    Long clips are drawn more often, and more so the harder it is to reach the length; None if it cannot be reached.
    Casts around a `pivot` must reach far and so hold long clips; those without one take long clips to look alike.
    """
    candidates = np.flatnonzero(free_N)
    if not len(candidates):
        return None
    length = footage.ticks_N[candidates].astype(np.float64)
    for power in (2.0, 4.0, 9.0) if pivot is None else (1.0, 3.0, 9.0):
        chance = np.log(rng.random(len(candidates))) / length**power
        order = candidates[np.argsort(-chance)].tolist()
        cast = _first_of_each_source(footage, order if pivot is None else [pivot, *order], ticks, most)
        if cast is not None:
            return cast
    return None


def _first_of_each_source(footage: Footage, order: Sequence[int], ticks: int, most: int) -> list[int] | None:
    cast: list[int] = []
    sources: set[int] = set()
    enough, total = ticks / SHORTEST_CROP, 0
    for clip in order:
        source = int(footage.source_N[clip])
        if source in sources:
            continue
        cast.append(clip)
        sources.add(source)
        total += int(footage.ticks_N[clip])
        if total >= enough:
            return cast
        if len(cast) == most:
            return None
    return None


def _set_aside(clips: Sequence[Clip], name: str) -> set[str]:
    """The sources of a split that are background for ever, whatever the seed."""
    sources = sorted({clip.source for clip in clips}, key=lambda source: share_of(source, "background"))
    if len(sources) < FEWEST_SOURCES:
        raise InputError(
            f"split {name!r} has clips of {len(sources)} sources; timelines need at least {FEWEST_SOURCES}"
        )
    return set(sources[: max(2, round(BACKGROUND_SHARE * len(sources)))])
