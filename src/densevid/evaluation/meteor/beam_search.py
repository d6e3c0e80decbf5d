"""METEOR's alignment search, for many pairs at once: `Matches` -> the matches of the best alignment, and its chunks.

Fourth stage. The original walks over the reference word by word with a beam of 40 partial alignments, sorted before
every word by most words matched, fewest chunks, least distance; the sort is stable, so order of creation breaks ties.
The same search runs here on arrays that hold the partial alignments of all pairs one after another. Two details of the
original matter for equal results: a match that is not exact counts half its words, rounded down, on each side; and the
distance of a match is added to the alignment it was tried on, not to the one it made. Words that can be matched in one
way only never branch, so the stretch before the next decision point is one step (`search_plan`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.evaluation.meteor.matchers import Matches
from densevid.evaluation.meteor.paraphrases import Indices
from densevid.evaluation.meteor.search_plan import Flags, SearchPlan, plan_search, run_lengths

BEAM = 40
Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Beam:
    """Partial alignments of all pairs under way: those of one pair together, best first."""

    pair: Indices
    rank: Indices  # matched words, chunks and distance in one number; smaller is better
    last: Indices  # where the hypothesis words of the chunk under way end, -1 for none
    resume: Indices  # the reference word at which this alignment goes on
    used: Bits  # [64 words of the hypothesis, alignment]: one bit per hypothesis word

    def select(self, chosen: Indices) -> Beam:
        """Some of the alignments, in that order."""
        return Beam(self.pair[chosen], self.rank[chosen], self.last[chosen], self.resume[chosen], self.used[:, chosen])


@dataclass(frozen=True)
class HypothesisWords:
    """The hypothesis words of every match as bits in a block of 64 and the one after it; at the end, of no match."""

    block: Indices
    bits: Bits
    bits_after: Bits

    @classmethod
    def of(cls, matches: Matches) -> HypothesisWords:
        """Phrases have few words, so two blocks are enough."""
        start, length = np.append(matches.hyp_start, 0), np.append(matches.hyp_length, 0).astype(np.uint64)
        offset = (start & 63).astype(np.uint64)
        ones = (np.uint64(1) << length) - np.uint64(1)
        crosses = offset + length > 64
        bits_after = np.where(crosses, ones >> (np.uint64(64) - np.where(crosses, offset, 1)).astype(np.uint64), 0)
        return cls(start >> 6, ones << offset, bits_after.astype(np.uint64))

    def in_use(self, used: Bits, alignment: Indices, match: Indices) -> Flags:
        """Whether any word of a match is taken in an alignment."""
        block = self.block[match]
        taken = used[block, alignment] & self.bits[match] | used[block + 1, alignment] & self.bits_after[match]
        return taken.astype(bool)

    def use(self, used: Bits, match: Indices) -> Bits:
        """Take the words of one match in each alignment."""
        each, block = np.arange(match.size), self.block[match]
        used[block, each] |= self.bits[match]
        used[block + 1, each] |= self.bits_after[match]
        return used


@dataclass(frozen=True)
class Step:
    """One decision: for each alignment after it, its parent and the match it took (-1: none)."""

    parent: Indices
    match: Indices


def align(matches: Matches, hyp_length: Indices, ref_length: Indices) -> tuple[Flags, Indices]:
    """Which matches METEOR chooses, and how many chunks they form in every pair."""
    plan = plan_search(matches, hyp_length, ref_length)
    pairs = hyp_length.size
    words = HypothesisWords.of(matches)
    zero = np.zeros(pairs, np.int64)
    blocks = int(hyp_length.max(initial=1)) // 64 + 2
    beam = Beam(np.arange(pairs), zero, zero - 1, zero, np.zeros((blocks, pairs), np.uint64))
    chunks = np.zeros(pairs, np.int64)
    steps: list[Step] = []
    best: list[Indices] = []
    for number in range(plan.count.max(initial=0)):
        beam, moved = _cross_stretch(beam, plan, number)
        ended = plan.count[beam.pair] == number + 1
        winners = _winners(beam, plan, np.flatnonzero(ended), chunks)
        best.append(moved[winners])
        going_on = np.flatnonzero(~ended)
        beam, step = _branch(beam.select(going_on), plan, number, words)
        steps.append(Step(moved[going_on[step.parent]], step.match))
    return _trace(steps, best, plan.fixed), chunks


def _cross_stretch(beam: Beam, plan: SearchPlan, number: int) -> tuple[Beam, Indices]:
    """Apply the stretch up to the next decision point, then sort; also return the order before."""
    point = plan.first_point[beam.pair] + number
    active = plan.changes[point] & (beam.resume <= plan.start[point])
    breaks = active & (beam.last >= 0) & (beam.last != plan.continues_at[point])
    rank = beam.rank + active * plan.rank_change[point] + plan.ranking.chunks(breaks)
    last = np.where(active, plan.last_after[point], beam.last)
    order = plan.ranking.order(beam.pair, rank)
    return Beam(beam.pair, rank, last, beam.resume, beam.used).select(order), order


def _winners(beam: Beam, plan: SearchPlan, ended: Indices, chunks: Indices) -> Indices:
    """The best alignment of every pair that has come to its end; its chunks are noted."""
    pair = beam.pair[ended]
    rank = beam.rank[ended] + plan.ranking.chunks(beam.last[ended] >= 0)
    order = plan.ranking.order(pair, rank)
    first = order[run_lengths(pair)[0]]
    chunks[pair[first]] = plan.ranking.chunks_of(rank[first])
    return ended[first]


def _branch(beam: Beam, plan: SearchPlan, number: int, words: HypothesisWords) -> tuple[Beam, Step]:
    """Extend every alignment by each match at this word, and by none; sort, and keep the best of every pair."""
    point = plan.first_point[beam.pair] + number
    place = plan.position[point]
    open_here = (plan.match_count[point] > 0) & (beam.resume <= place)
    parent, match = _candidates(plan, point, open_here)
    possible = ~words.in_use(beam.used, parent, match)
    rank = _ranks(beam, plan, (parent, match, possible), open_here)
    kept = np.flatnonzero(possible)
    kept = kept[_best_of_each_pair(plan, beam.pair[parent[kept]], rank[kept])]

    parent, match, rank = parent[kept], match[kept], rank[kept]
    extended, passed = match >= 0, open_here[parent]
    last = np.where(extended, plan.hyp_end[match], np.where(passed, -1, beam.last[parent]))
    resume = np.where(extended, plan.ref_end[match], np.where(passed, place[parent] + 1, beam.resume[parent]))
    used = words.use(beam.used[:, parent], match)
    return Beam(beam.pair[parent], rank, last, resume, used), Step(parent, match)


def _candidates(plan: SearchPlan, point: Indices, open_here: Flags) -> tuple[Indices, Indices]:
    """(alignment, match) in METEOR's order: the matches at the word in turn, then -1 for leaving it unmatched."""
    options = np.where(open_here, plan.match_count[point], 0)
    alignment = np.repeat(np.arange(point.size), options + 1)
    first = np.cumsum(options + 1) - options - 1
    option = np.arange(alignment.size) - first[alignment]
    match = np.append(plan.free, -1)[plan.first_match[point][alignment] + option]
    return alignment, np.where(option < options[alignment], match, -1)


def _best_of_each_pair(plan: SearchPlan, pair: Indices, rank: Indices) -> Indices:
    order = plan.ranking.order(pair, rank)
    starts, lengths = run_lengths(pair)
    return order[np.arange(order.size) - np.repeat(starts, lengths) < BEAM]


def _ranks(beam: Beam, plan: SearchPlan, candidates: tuple[Indices, Indices, Flags], open_here: Flags) -> Indices:
    """The ranks of candidates (parent, match or -1, possible)."""
    parent, match, possible = candidates
    distance = np.where(possible, plan.distance[match], 0)
    # Every match tried adds its distance to the alignment it was tried on, so the next ones inherit it.
    tried = np.cumsum(distance) - distance
    first = run_lengths(parent)[0]
    inherited = beam.rank[parent] + tried - tried[first][parent]
    last = beam.last[parent]
    breaks = (last >= 0) & (last != plan.hyp_start[match]) & open_here[parent]
    rank: Indices = inherited + plan.gain[match] + plan.ranking.chunks(breaks)
    return rank


def _trace(steps: list[Step], best: list[Indices], fixed: Flags) -> Flags:
    """Walk back from the best alignments, those of pairs that ended earlier joining on the way; collect matches."""
    chosen = fixed.copy()
    alignments = np.zeros(0, np.int64)
    for number in range(len(steps) - 1, 0, -1):
        alignments = np.append(alignments, best[number])
        step = steps[number - 1]
        match = step.match[alignments]
        chosen[match[match >= 0]] = True
        alignments = step.parent[alignments]
    return chosen
