"""Predictions against reference events of the same video: overlap of all pairs, and SODA's order-preserving matching.

`interval_iou` is the overlap of the captioning and SODA protocols: IoU = intersection / (min(hull, sum of the lengths)
+ 1e-8), of the times as they stand: an exact copy scores just below 1, and a reversed interval overlaps nothing. (The
proposal protocol has its own, without the epsilon.)

`align` is the dynamic program inside SODA, for many videos at once and without recursion: best[i, j] = max(best[i-1,
j], best[i, j-1], best[i-1, j-1] + score[i, j]), gold i against prediction j, both in order of time. A cell is a match
only if matching is strictly better than leaving either out; the very first always is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from densevid.evaluation.files import Floats, Integers
from densevid.evaluation.metrics.ngrams import ragged_ranges

EPSILON = 1e-8
CELLS_AT_ONCE = 1_000_000


def pairs_within_videos(left_video_N: Integers, right_video_M: Integers, videos: int) -> tuple[Integers, Integers]:
    """Every (left, right) event pair of the same video; pairs of one left event stand together, in order."""
    by_video = np.argsort(right_video_M, kind="stable")
    count_V = np.bincount(right_video_M, minlength=videos)
    first_V = np.cumsum(count_V) - count_V
    left, place = ragged_ranges(first_V[left_video_N], count_V[left_video_N])
    return left, by_video[place]


def interval_iou(predicted_N2: Floats, reference_N2: Floats) -> Floats:
    """IoU of each predicted interval with the reference interval beside it."""
    predicted_start, predicted_end = predicted_N2.T
    start, end = reference_N2.T
    with np.errstate(over="ignore", invalid="ignore"):  # times near the largest number overlap nothing
        shared = np.maximum(np.minimum(end, predicted_end) - np.maximum(start, predicted_start), 0.0)
        hull = np.maximum(end, predicted_end) - np.minimum(start, predicted_start)
        union = np.minimum(hull, end - start + predicted_end - predicted_start) + EPSILON
        iou = np.divide(shared, union, out=np.zeros_like(shared), where=union != 0)
    return np.where(np.isnan(iou), 0.0, iou)


@dataclass(frozen=True)
class Alignment:
    """The best total of each problem (0 where a side is empty), and the M matched pairs: which problem, which pair."""

    total_K: Floats
    problem_M: Integers
    pair_M: Integers


@dataclass(frozen=True)
class AlignmentProblems:
    """K lists of golds to be matched with the predictions of their video.

    Problem k has the golds `first_K[k] .. first_K[k] + golds_K[k]` and `predictions_K[k]` predictions. The values of
    (gold, prediction) pairs lie in one flat table: gold g with its p-th prediction at `first_pair_G[g] + p`.
    """

    first_K: Integers
    golds_K: Integers
    predictions_K: Integers
    first_pair_G: Integers

    def solve(self, value_N: Floats) -> Alignment:
        """Match each problem's golds with predictions so that the total value is greatest."""
        total_K = np.zeros(len(self.golds_K))
        problems, pairs = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        solvable = np.flatnonzero((self.golds_K > 0) & (self.predictions_K > 0))
        for batch in batches_of_like_size(self.golds_K[solvable], self.predictions_K[solvable]):
            chosen = solvable[batch]
            pair_KG, scores_KGP = self._padded(chosen, value_N)
            total_K[chosen], picked_KG = align(scores_KGP, self.golds_K[chosen], self.predictions_K[chosen])
            problem, gold = np.nonzero(picked_KG >= 0)
            problems.append(chosen[problem])
            pairs.append(pair_KG[problem, gold] + picked_KG[problem, gold])
        return Alignment(total_K, np.concatenate(problems), np.concatenate(pairs))

    def _padded(self, chosen: Integers, value_N: Floats) -> tuple[Integers, Floats]:
        """First pair of each gold (K x G) and the values of all its pairs (K x G x P), filled with 0."""
        row, column = np.arange(self.golds_K[chosen].max()), np.arange(self.predictions_K[chosen].max())
        there_KG = row < self.golds_K[chosen, None]
        there_KP = column < self.predictions_K[chosen, None]
        gold_KG = np.minimum(self.first_K[chosen, None] + row, len(self.first_pair_G) - 1)
        pair_KG = self.first_pair_G[gold_KG]
        value_KGP = value_N[np.minimum(pair_KG[:, :, None] + column, len(value_N) - 1)]
        return pair_KG, np.where(there_KG[:, :, None] & there_KP[:, None, :], value_KGP, 0.0)


def align(scores_KGP: Floats, golds_K: Integers, predictions_K: Integers) -> tuple[Floats, Integers]:
    """The best total of each problem, and the prediction matched to each gold (-1: none), K x G.

    Problem k uses the first `golds_K[k]` rows and `predictions_K[k]` columns, at least one of each; the rest is filler.
    """
    problems, golds, predictions = scores_KGP.shape
    every = np.arange(problems)
    best_K = np.zeros(problems)
    above_KP = np.full((problems, predictions), -1.0)
    latest_KGP = np.empty(scores_KGP.shape, dtype=np.int64)
    for gold in range(golds):
        matched_KP = scores_KGP[:, gold]
        if gold:
            matched_KP = matched_KP + np.pad(above_KP[:, :-1], ((0, 0), (1, 0)))
        row_KP = np.maximum.accumulate(np.maximum(above_KP, matched_KP), axis=1)
        beside_KP = np.pad(row_KP[:, :-1], ((0, 0), (1, 0)), constant_values=-1.0)
        better = (matched_KP > above_KP) & (matched_KP > beside_KP)
        latest_KGP[:, gold] = np.maximum.accumulate(np.where(better, np.arange(predictions), -1), axis=1)
        last_row = golds_K == gold + 1
        best_K[last_row] = row_KP[every, predictions_K - 1][last_row]
        above_KP = row_KP
    return best_K, _trace_back(latest_KGP, golds_K, predictions_K)


def _trace_back(latest_KGP: Integers, golds_K: Integers, predictions_K: Integers) -> Integers:
    """From the last gold up: take the latest match of its row that lies before those taken already."""
    problems, golds, _ = latest_KGP.shape
    every = np.arange(problems)
    limit_K = predictions_K - 1
    picked_KG = np.full((problems, golds), -1)
    for gold in reversed(range(golds)):
        found_K = latest_KGP[every, gold, np.maximum(limit_K, 0)]
        taken = (gold < golds_K) & (limit_K >= 0) & (found_K >= 0)
        picked_KG[taken, gold] = found_K[taken]
        limit_K = np.where(taken, found_K - 1, limit_K)
    return picked_KG


def batches_of_like_size(golds_K: Integers, predictions_K: Integers) -> Iterator[Integers]:
    """Problems grouped so that padding them to one shape at most quadruples them and never needs much memory."""
    shape_K2 = np.ceil(np.log2(np.stack([golds_K, predictions_K], axis=1)))
    shapes, shape_of_K = np.unique(shape_K2, axis=0, return_inverse=True)
    for shape, log_sizes in enumerate(shapes):
        members = np.flatnonzero(shape_of_K.reshape(-1) == shape)
        at_once = max(1, int(CELLS_AT_ONCE / 2 ** log_sizes.sum()))
        for first in range(0, len(members), at_once):
            yield members[first : first + at_once]
