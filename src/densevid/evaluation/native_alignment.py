"""METEOR's alignment search, for many pairs at once: `Matches` -> the matches that it chooses, and the chunk count.

Third stage of native METEOR. The original walks over the reference word by word with a beam of 40 partial alignments,
sorted before every word by most words matched, fewest chunks, least distance; a stable sort, so order of creation breaks
ties. The same search runs here on arrays, one row per pair and one column per partial alignment. Two of its habits matter
for equal results: a match that is not exact counts half its words, rounded down, on each side; and the distance of a match
is added to the alignment it was tried on, not to the one it made. Words that can be matched in one way only never branch,
so the stretch before the next word with a choice (`native_stretches`) is one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.evaluation.native_matching import Matches
from densevid.evaluation.native_paraphrases import Indices
from densevid.evaluation.native_stretches import Ranking, Stretches, plan

BEAM = 40
Flags = npt.NDArray[np.bool_]


@dataclass
class Beam:
    """Partial alignments of the pairs still under way: rows are pairs, columns are sorted, best first."""

    rank: Indices  # matched words, chunks and distance in one number; smaller is better
    last: Indices  # where the hypothesis words of the chunk under way end, -1 for none
    resume: Indices  # the reference word at which this alignment goes on
    used: npt.NDArray[np.uint64]  # [64 words of the hypothesis, pair, column]: one bit per hypothesis word

    def take(self, columns: Indices) -> None:
        """Reorder the columns of every row."""
        self.last = np.take_along_axis(self.last, columns, 1)
        self.resume = np.take_along_axis(self.resume, columns, 1)
        self.used = np.take_along_axis(self.used, columns[None], 2)

    def keep(self, pairs: int) -> None:
        """Go on with the first pairs alone."""
        self.rank, self.last, self.resume = self.rank[:pairs], self.last[:pairs], self.resume[:pairs]
        self.used = self.used[:, :pairs]


@dataclass(frozen=True)
class Step:
    """How the columns after a word with a choice came about: from which column, by which match (-1: none)."""

    parent: Indices
    match: Indices


def align(matches: Matches, hyp_length: Indices, ref_length: Indices) -> tuple[Flags, Indices]:
    """Which matches METEOR chooses, and how many chunks they form, for every pair."""
    stretches = plan(matches, hyp_length, ref_length)
    pairs = stretches.pair_order.size
    blocks = -(-int(hyp_length.max(initial=1)) // 64)
    column = (pairs, 1)
    beam = Beam(
        np.zeros(column, np.int64),
        np.full(column, -1, np.int64),
        np.zeros(column, np.int64),
        np.zeros((blocks, *column), np.uint64),
    )
    steps: list[Step] = []
    best_column, best_rank = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    needed = _bits(matches, blocks)
    for number in range(stretches.count.max(initial=0)):
        event = stretches.first_event[: beam.rank.shape[0]] + number
        moved = _cross_stretch(beam, stretches, event)
        going_on = int((stretches.count > number + 1).sum())
        ended = slice(going_on, beam.rank.shape[0])
        rank = beam.rank[ended] + stretches.ranking.chunks(beam.last[ended] >= 0)
        best = rank.argmin(axis=1)
        best_column[ended] = np.take_along_axis(moved[ended], best[:, None], 1)[:, 0]
        best_rank[ended] = np.take_along_axis(rank, best[:, None], 1)[:, 0]
        beam.keep(going_on)
        if going_on:
            steps.append(_branch(beam, stretches, event[:going_on], needed, moved[:going_on]))
    chosen = _trace(steps, best_column, stretches.fixed)
    chunks = np.zeros(pairs, np.int64)
    chunks[stretches.pair_order] = stretches.ranking.chunks_of(best_rank)
    return chosen, chunks


def _cross_stretch(beam: Beam, stretches: Stretches, event: Indices) -> Indices:
    """Apply what needs no choice up to the next event, then sort; return where each column came from."""
    at = event[:, None]
    active = stretches.changes[at] & (beam.resume <= stretches.start[at])
    breaks = active & (beam.last >= 0) & (beam.last != stretches.continues_at[at])
    rank = beam.rank + np.where(active, stretches.rank_change[at], 0) + stretches.ranking.chunks(breaks)
    beam.last = np.where(active, stretches.last_after[at], beam.last)
    beam.rank, columns = stretches.ranking.smallest(rank, rank.shape[1])
    beam.take(columns)
    return columns


def _branch(
    beam: Beam, stretches: Stretches, event: Indices, needed: npt.NDArray[np.uint64], moved: Indices
) -> Step:
    """Extend every alignment by each match at this word, and by none; sort, and keep the best."""
    first, count = stretches.first_match[event], stretches.match_count[event]
    choices = int(count.max(initial=0))
    place = stretches.position[event][:, None]
    number = np.arange(choices)
    option = stretches.free[np.minimum(first[:, None] + number, max(stretches.free.size - 1, 0))]
    has_choice = count[:, None] > 0
    open_here = has_choice & (beam.resume <= place)
    rank = _extended_ranks(beam, stretches, needed[:, option], option, (number < count[:, None], open_here))
    width = rank.shape[2]
    kept, column = stretches.ranking.smallest(rank.reshape(rank.shape[0], -1), BEAM)
    alive = int((kept < stretches.ranking.impossible >> 1).sum(axis=1).max())
    beam.rank, column = kept[:, :alive], column[:, :alive]
    parent, choice = column // width, column % width

    beam.take(parent)
    open_parent = np.take_along_axis(open_here, parent, 1)
    extended = choice < choices
    match = np.where(extended, np.take_along_axis(np.pad(option, ((0, 0), (0, 1))), choice, 1), -1)
    beam.last = np.where(extended, stretches.hyp_end[match], np.where(open_parent, -1, beam.last))
    beam.resume = np.where(extended, stretches.ref_end[match], np.where(open_parent, place + 1, beam.resume))
    beam.used = beam.used | np.where(extended, needed[:, match], np.uint64(0))
    return Step(np.take_along_axis(moved, parent, 1), match)


def _extended_ranks(
    beam: Beam, stretches: Stretches, needed: npt.NDArray[np.uint64], option: Indices, allowed: tuple[Flags, Flags]
) -> Indices:
    """Ranks [pair, column, option], the last option being to leave the word unmatched."""
    exists, open_here = allowed
    ranking = stretches.ranking
    free = exists[:, None, :] & open_here[:, :, None]
    for used, need in zip(beam.used, needed, strict=True):
        free &= (used[:, :, None] & need[:, None, :]) == 0
    # Every option tried adds its distance to the alignment it was tried on, so the next ones inherit it.
    tried = np.cumsum(np.where(free, stretches.distance[option][:, None, :], 0), axis=2)
    inherited = beam.rank[:, :, None] + tried
    breaks = (beam.last >= 0)[:, :, None] & (beam.last[:, :, None] != stretches.hyp_start[option][:, None, :])
    own = (stretches.gain[option] - stretches.distance[option])[:, None, :]
    ranks = np.full((*beam.rank.shape, option.shape[1] + 1), ranking.impossible)
    np.copyto(ranks[:, :, :-1], inherited + own + ranking.chunks(breaks), where=free)
    total = tried[:, :, -1] if option.shape[1] else 0
    ranks[:, :, -1] = beam.rank + total + ranking.chunks(open_here & (beam.last >= 0))
    return ranks


def _bits(matches: Matches, blocks: int) -> npt.NDArray[np.uint64]:
    """The hypothesis words of every match, as bits."""
    bits = np.zeros((blocks, matches.pair.size + 1), np.uint64)
    for offset in range(matches.hyp_length.max(initial=0)):
        covered = np.flatnonzero(matches.hyp_length > offset)
        word = matches.hyp_start[covered] + offset
        bits[word >> 6, covered] |= np.uint64(1) << (word & 63).astype(np.uint64)
    return bits


def _trace(steps: list[Step], column: Indices, fixed: Flags) -> Flags:
    """Walk back from the best column of every pair and collect the matches on the way."""
    chosen = fixed.copy()
    column = column.copy()
    for step in reversed(steps):
        rows = np.arange(step.parent.shape[0])
        match = step.match[rows, column[: rows.size]]
        chosen[match[match >= 0]] = True
        column[: rows.size] = step.parent[rows, column[: rows.size]]
    return chosen


__all__ = ["BEAM", "Ranking", "align"]
