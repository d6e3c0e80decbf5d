"""The plan of METEOR's beam search: where alignments branch, and the effect of what lies between.

Third stage. A match is fixed if no other match shares a word with it; every alignment takes it. The other matches make
decision points, places in the reference where alignments branch. Between two of them lies a stretch of fixed matches
and unmatched words; its effect on an alignment is a constant, except for the one chunk that may end where the stretch
begins. `beam_search` walks from decision point to decision point. A point without a choice marks the end of a phrase,
where alignments that took the phrase join in; the last point of a pair is the end of the reference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.evaluation.meteor.matchers import EXACT, Matches
from densevid.evaluation.meteor.paraphrases import Indices

Flags = npt.NDArray[np.bool_]
_INTEGER_BITS = 62


@dataclass(frozen=True)
class Ranking:
    """METEOR's order of alignments as one integer: -matched words, then chunks, then distance."""

    word_bits: int
    chunk_bits: int
    distance_bits: int

    @classmethod
    def for_matches(cls, matches: Matches, words: int) -> Ranking:
        """Fields wide enough for the largest sums that can occur."""
        distance = np.bincount(matches.pair, np.abs(matches.ref_start - matches.hyp_start), minlength=1)
        return cls((2 * words).bit_length(), (words + 1).bit_length(), int(distance.max()).bit_length())

    def gain(self, matched_words: Indices) -> Indices:
        """The change of rank by matched words."""
        return -(matched_words << (self.chunk_bits + self.distance_bits))

    def chunks(self, count: Indices | Flags) -> Indices:
        """The change of rank by chunks."""
        return count.astype(np.int64) << self.distance_bits

    def chunks_of(self, rank: Indices) -> Indices:
        """The number of chunks in a rank."""
        return (rank >> self.distance_bits) & ((1 << self.chunk_bits) - 1)

    def order(self, pair: Indices, rank: Indices) -> Indices:
        """The stable order by pair, then rank."""
        rank_bits = self.word_bits + self.chunk_bits + self.distance_bits
        place_bits = pair.size.bit_length()
        if int(pair.max(initial=0)).bit_length() + rank_bits + 1 + place_bits > _INTEGER_BITS:
            return np.lexsort((rank, pair))
        # With the place in the low bits no two are equal, so the fastest sort is as good as a stable one.
        packed = (((pair << (rank_bits + 1)) + rank + (1 << rank_bits)) << place_bits) | np.arange(pair.size)
        packed.sort()
        return packed & ((1 << place_bits) - 1)


def run_lengths(values: Indices) -> tuple[Indices, Indices]:
    """Where equal neighbours begin, and how many they are."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: values.size])
    return starts, np.diff(np.append(starts, values.size))


@dataclass(frozen=True)
class SearchPlan:
    """The decision points of all pairs in order, each with the stretch before it."""

    ranking: Ranking
    count: Indices  # decision points of a pair
    first_point: Indices  # of a pair
    position: Indices  # of a point, in the reference; the following five describe the stretch before it
    start: Indices
    changes: Flags  # whether the stretch is not empty
    continues_at: Indices  # the hypothesis word that would continue the chunk under way, -2 for none
    rank_change: Indices
    last_after: Indices
    first_match: Indices  # of a point, in `free`
    match_count: Indices
    free: Indices  # matches that are not fixed
    fixed: Flags  # of a match, as the following, which end with the value for no match
    gain: Indices
    distance: Indices
    hyp_start: Indices
    hyp_end: Indices
    ref_end: Indices


def plan_search(matches: Matches, hyp_length: Indices, ref_length: Indices) -> SearchPlan:
    """Find the decision points of every pair and the effect of the stretch before each."""
    ranking = Ranking.for_matches(matches, int(max(hyp_length.max(initial=1), ref_length.max(initial=1))))
    fixed = _fixed(matches, int(hyp_length.max(initial=1)), int(ref_length.max(initial=1)))
    free = np.flatnonzero(~fixed)
    width = int(ref_length.max(initial=1)) + 1
    pair, position, keys = _decision_points(matches.select(free), ref_length, width)
    choice_keys = matches.pair[free] * width + matches.ref_start[free]
    first = np.searchsorted(choice_keys, keys)
    match_count = np.searchsorted(choice_keys, keys, "right") - first
    counts = np.bincount(pair, minlength=ref_length.size)
    gain = ranking.gain(_matched_words(matches))
    distance = np.abs(matches.ref_start - matches.hyp_start)
    begins = np.append(True, pair[1:] != pair[:-1])[: pair.size]
    start = np.where(begins, 0, np.roll(position + (match_count > 0), 1))
    changes, continues_at, rank_change, last_after = _between(
        matches.select(fixed), (gain + distance)[fixed], ranking, (pair, start, position)
    )
    return SearchPlan(
        ranking,
        counts,
        np.cumsum(counts) - counts,
        position,
        start,
        changes,
        continues_at,
        rank_change,
        last_after,
        first,
        match_count,
        free,
        fixed,
        np.append(gain, 0),
        np.append(distance, 0),
        np.append(matches.hyp_start, -1),
        np.append(matches.hyp_start + matches.hyp_length, -1),
        np.append(matches.ref_start + matches.ref_length, -1),
    )


def _matched_words(m: Matches) -> Indices:
    """What a match counts for: both its sides, or half of each, rounded down, if it is not exact."""
    return np.where(m.module == EXACT, m.hyp_length + m.ref_length, m.hyp_length // 2 + m.ref_length // 2)


def _fixed(matches: Matches, hyp_words: int, ref_words: int) -> Flags:
    """Matches whose words are in no other match."""
    fixed = np.ones(matches.pair.size, bool)
    sides = (matches.hyp_start, matches.hyp_length, hyp_words), (matches.ref_start, matches.ref_length, ref_words)
    for start, length, words in sides:
        offsets = range(length.max(initial=0))
        covered = [np.flatnonzero(length > offset) for offset in offsets]
        cells = [matches.pair[m] * words + start[m] + offset for m, offset in zip(covered, offsets, strict=True)]
        cover = np.bincount(np.concatenate([np.zeros(0, np.int64), *cells]))
        for match, cell in zip(covered, cells, strict=True):
            fixed[match[cover[cell] > 1]] = False
    return fixed


def _decision_points(free: Matches, ref_length: Indices, width: int) -> tuple[Indices, Indices, Indices]:
    """(pair, position, both in one number) of every decision point in order: choices, phrase ends, reference ends."""
    ends = free.ref_start + free.ref_length
    inside = (free.ref_length > 1) & (ends < ref_length[free.pair])
    choices = free.pair * width + free.ref_start
    phrase_ends = free.pair[inside] * width + ends[inside]
    keys = np.unique(np.concatenate([choices, phrase_ends, np.arange(ref_length.size) * width + ref_length]))
    return keys // width, keys % width, keys


def _between(
    fixed: Matches, worth: Indices, ranking: Ranking, spans: tuple[Indices, Indices, Indices]
) -> tuple[Flags, Indices, Indices, Indices]:
    """For each span of a reference: anything there, what continues a chunk, change of rank, end of the last chunk."""
    pair, start, end = spans
    width = int(end.max(initial=0)) + 1
    key = fixed.pair * width + fixed.ref_start
    low, high = np.searchsorted(key, pair * width + start), np.searchsorted(key, pair * width + end)
    has_match = high > low
    ref_end, hyp_end = fixed.ref_start + fixed.ref_length, fixed.hyp_start + fixed.hyp_length
    joined = (fixed.ref_start[1:] == ref_end[:-1]) & (fixed.hyp_start[1:] == hyp_end[:-1])
    ended_before = np.concatenate([[0, 0], np.cumsum(~joined)])[: key.size + 1]
    worth_before = np.append(0, np.cumsum(worth))

    def of(values: Indices, index: Indices, otherwise: int) -> Indices:
        return np.where(has_match, np.append(values, 0)[np.where(has_match, index, 0)], otherwise)

    gap_first = of(fixed.ref_start, low, 0) > start
    gap_after = of(ref_end, high - 1, 0) < end
    changes = end > start
    continues_at = np.where(gap_first, -2, of(fixed.hyp_start, low, -2))
    last_after = np.where(gap_after, -1, of(hyp_end, high - 1, -1))
    inner = np.where(has_match, ended_before[high] - ended_before[np.minimum(low + 1, high)] + gap_after, 0)
    return changes, continues_at, worth_before[high] - worth_before[low] + ranking.chunks(inner), last_after
