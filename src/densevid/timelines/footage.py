"""FootagePool: the clips of a split, divided into events and background, and which clips can form one event.

A meaning stands for the clips that one sentence describes: a sentence shared by several clips, or all captions of a
single clip. The cast of an event is up to four clips of different sources that share its meaning, with enough footage
for an event of any length. Cast and length are drawn independently of each other, so the footage does not give away
how far into an event one is.

Clips without captions (black, stills, slides, scenes without action) serve as background, and make up the videos
without events ("negatives").
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

BACKGROUND_SHARE = 0.12  # of the sources that are set aside as background
FEWEST_SOURCES = 8
LARGEST_CAST = MOST_SHOTS - 1  # a window of a ring may end in the piece it began in, which is one more shot
LONGEST_EVENT = 55.0  # seconds; less if a split has not enough footage
MOST_CLIPS = 0.65  # share of the clips that must be able to fill an event of the minimal reach (`floor_ticks`)
SOME_CLIPS = 0.2  # share of the clips that must be able to fill the longest events
COMMONEST = 0.2  # a meaning shared by more than this share of the clips is too general to be an event
SHORTEST_CROP = 0.85  # of a clip
FEWEST_TEXTS = 2  # sentences per event
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Footage:
    """Clips by number, with their lengths in ticks and the numbers of their sources."""

    clips: tuple[Clip, ...]
    ticks_N: Indices
    source_N: Indices

    @classmethod
    def of(cls, clips: Sequence[Clip], tick: float) -> Footage:
        """Measure clips; a clip with features has one tick per row."""
        ticks_N = np.array([clip.rows or max(1, int(clip.seconds / tick)) for clip in clips], dtype=np.int64)
        source_N = np.unique([clip.source for clip in clips], return_inverse=True)[1]
        return cls(tuple(clips), ticks_N, source_N)

    def __len__(self) -> int:
        return len(self.clips)

    @cached_property
    def siblings(self) -> list[Indices]:
        """For every clip, all clips of the same source including itself."""
        return [np.flatnonzero(self.source_N == source) for source in self.source_N]


class FootagePool:
    """The footage of a split.

    Attributes:
        events: Clips that events are made of.
        background: Clips that are shown between events; `negatives` are among them.
        negatives: Clips without captions.
        shared: Which sentences hold for which of the event clips.
        holds_MN: Meaning x clip: whether the meaning holds for the clip.
        longest: Seconds of the longest event that can be composed.
        floor_ticks: Footage that every cast must have, however short its event.

    Raises:
        InputError: The split has too few sources or too few clips with captions.
    """

    def __init__(self, clips: Sequence[Clip], tick: float, name: str) -> None:
        self.tick = tick
        aside = _set_aside([clip for clip in clips if clip.captions], name)
        self.negatives = Footage.of([clip for clip in clips if not clip.captions], tick)
        self.background = Footage.of([clip for clip in clips if clip.source in aside or not clip.captions], tick)
        self.events = Footage.of([clip for clip in clips if clip.source not in aside and clip.captions], tick)
        if len(set(self.events.source_N.tolist())) < FEWEST_SOURCES // 2:
            raise InputError(f"split {name!r}: too few of its clips have captions to compose timelines from them")
        captions = [clip.captions for clip in self.events.clips]
        self.shared: SharedSentences = find_shared_sentences(captions, [clip.source for clip in self.events.clips])
        self.holds_MN: Bools = np.concatenate([self.shared.holds_KN, np.eye(len(self.events), dtype=bool)])
        self._measure()

    def _measure(self) -> None:
        """Footage per meaning, the longest event, and the meanings that each clip can be cast for."""
        count_M = self.holds_MN.sum(axis=1)
        self.specific_M: Bools = np.concatenate([self.shared.specific_K, np.ones(len(self.events), dtype=bool)])
        self.specific_M &= (count_M <= max(COMMONEST * len(self.events), MOST_SHOTS)) & (self._texts() >= FEWEST_TEXTS)
        self.weight_M = np.where(self.specific_M, 1 / count_M, 0.0)
        reach_M = np.where(self.specific_M, self._reach(), 0) * SHORTEST_CROP
        reach_N = np.array([reach_M[holds_M].max() for holds_M in self.holds_MN.T])
        self.floor_ticks, longest = np.quantile(reach_N, (1 - MOST_CLIPS, 1 - SOME_CLIPS)).astype(np.int64).tolist()
        self.longest = min(LONGEST_EVENT, longest * self.tick)
        self.floor_ticks = min(self.floor_ticks, int(self.longest / self.tick))
        self.meanings_N = [np.flatnonzero(holds_M & self.specific_M) for holds_M in self.holds_MN.T]
        self.choices_N = [np.flatnonzero(holds_M & (reach_M >= self.floor_ticks)) for holds_M in self.holds_MN.T]
        self.chances_N = [np.cumsum(self.weight_M[choices]) for choices in self.choices_N]
        self.pivots = np.array([clip for clip, choices in enumerate(self.choices_N) if len(choices)])

    def _texts(self) -> Indices:
        """Number of different sentences for each meaning."""
        shared = self.shared
        counts = [len({shared.sentences[i] for i in shared.with_meaning[k]}) for k in range(len(shared.holds_KN))]
        return np.array([*counts, *(len(clip.captions) for clip in self.events.clips)])

    def _reach(self) -> Indices:
        """Ticks of the longest cast of each meaning, of different sources."""
        longest_first = np.argsort(-self.events.ticks_N, kind="stable")
        reach = []
        for holds_N in self.holds_MN[:, longest_first]:
            clips = longest_first[holds_N]
            _, first = np.unique(self.events.source_N[clips], return_index=True)
            reach.append(self.events.ticks_N[clips[np.sort(first)[:LARGEST_CAST]]].sum())
        return np.array(reach)

    def draw_meaning(self, rng: np.random.Generator) -> tuple[int, int]:
        """Draw a clip uniformly and one of its meanings, specific ones with higher probability."""
        pivot = int(self.pivots[rng.integers(len(self.pivots))])
        chances = self.chances_N[pivot]
        return pivot, int(self.choices_N[pivot][np.searchsorted(chances, rng.random() * chances[-1], side="right")])

    def draw_meaning_of(
        self, rng: np.random.Generator, clips: Sequence[int], without: Sequence[int], *, any_length: bool
    ) -> int | None:
        """Draw a meaning that holds for all of some clips and for none of others.

        Args:
            rng: Source of randomness.
            clips: The clips it must hold for.
            without: The clips it must not hold for.
            any_length: Only meanings with enough footage for an event of any length.

        Returns:
            The meaning, None if there is none.
        """
        meanings = self.choices_N[clips[0]] if any_length else self.meanings_N[clips[0]]
        fits = self.holds_MN[meanings[:, None], list(clips)].all(axis=1)
        fits &= ~self.holds_MN[meanings[:, None], list(without)].any(axis=1)
        chances = np.cumsum(self.weight_M[meanings] * fits)
        if not len(chances) or not chances[-1]:
            return None
        return int(meanings[np.searchsorted(chances, rng.random() * chances[-1], side="right")])


def draw_cast(
    rng: np.random.Generator, footage: Footage, free_N: Bools, ticks: int, most: int, pivot: int | None = None
) -> list[int] | None:
    """Draw clips of different sources with at least `ticks` of footage after cropping.

    Long clips are drawn with higher probability, the more so the harder the length is to reach. Casts with a `pivot`
    need much footage and so contain long clips; casts without one prefer long clips to be distributed alike.

    Args:
        rng: Source of randomness.
        footage: The clips.
        free_N: Which of them may be used.
        ticks: Footage that is needed.
        most: Clips at most.
        pivot: A clip that must be among them.

    Returns:
        Numbers of the clips, None if the length cannot be reached.
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
    """The sources of a split that are background for every seed."""
    sources = sorted({clip.source for clip in clips}, key=lambda source: share_of(source, "background"))
    if len(sources) < FEWEST_SOURCES:
        raise InputError(
            f"split {name!r} has clips of {len(sources)} sources; timelines need at least {FEWEST_SOURCES}"
        )
    return set(sources[: max(2, round(BACKGROUND_SHARE * len(sources)))])
