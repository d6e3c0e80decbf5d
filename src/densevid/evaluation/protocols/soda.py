"""SODA: captions as one story. Events are matched to references in order of time, so that the total is greatest.

Written from the paper's and the evaluator's description. For gold g and prediction p of a video, with `text` the METEOR
(or CIDEr) of the GOLD sentence as hypothesis against the PREDICTED one as reference:
  a  match on IoU, IoU below t counted 0, for t = .3 .5 .7 .9; score = text of the matched pairs, averaged over t
  b  match on IoU; score = text of the matched pairs
  c  match on IoU x text; score = that total
  d  match on IoU; score = that total
precision = score / predictions, recall = score / golds, F1 of the two, each per video, then the mean over the videos
that have both. `merged` pools all reference files, `multi` takes each video's best file by F1, `per_reference` averages
the scores against each file alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from densevid.evaluation.files import (
    Booleans,
    EventTable,
    Floats,
    Integers,
    official_order,
    position_in,
    union_of_videos,
)
from densevid.evaluation.metrics.cider import Cider, Documents
from densevid.evaluation.metrics.meteor import segment_scores
from densevid.evaluation.metrics.ngrams import Items
from densevid.evaluation.metrics.overlap import interval_iou, pairs_within_videos
from densevid.evaluation.metrics.text_pool import CaptionIndex
from densevid.evaluation.protocols.captioning import TIOUS
from densevid.evaluation.protocols.soda_alignment import Problems, Solution

TYPES = ("a", "b", "c", "d")
MODES = ("merged", "multi", "per_reference")
TEXT_METRICS = ("METEOR", "CIDEr")
NAMES = ("precision", "recall", "f1")


@dataclass(frozen=True)
class SodaScores:
    """precision, recall and F1 of each video (V x 3), and which videos count (V); means of these are the scores.

    `per_reference` has one such table a reference file (F x V x 3): the score is the mean over files of their means.
    """

    values_FV3: Floats
    counts_FV: Booleans

    def means(self) -> dict[str, float]:
        """0 where no video counts."""
        counted_F1 = np.maximum(self.counts_FV.sum(axis=1), 1)[:, None]
        table_F3 = np.where(self.counts_FV[:, :, None], self.values_FV3, 0.0).sum(axis=1) / counted_F1
        return dict(zip(NAMES, map(float, table_F3.mean(axis=0)), strict=True))


@dataclass(frozen=True)
class Soda:
    """`scores[type][mode]`, over `videos`."""

    metric: str
    videos: list[str]
    scores: Mapping[str, Mapping[str, SodaScores]]


@dataclass(frozen=True)
class _Timeline:
    """Events of the shared videos, list after list; a list is what is matched as one story."""

    list_N: Integers
    interval_N2: Floats
    text_N: Integers


@dataclass(frozen=True)
class _Pairs:
    """Every (gold, prediction) pair of a video, gold after gold, with its IoU; `text` gives the text score of some."""

    golds: _Timeline
    predicted: _Timeline
    gold_N: Integers
    prediction_N: Integers
    iou_N: Floats

    def items(self, wanted_N: Booleans) -> Items:
        """The gold sentence as hypothesis, the predicted one as reference."""
        return Items.single(
            self.golds.text_N[self.gold_N[wanted_N]], self.predicted.text_N[self.prediction_N[wanted_N]]
        )

    def text(self, wanted_N: Booleans, metric: str, pool: CaptionIndex) -> Floats:
        """METEOR or CIDEr of the pairs, 0 where not wanted."""
        items = self.items(wanted_N)
        text_N = np.zeros(len(wanted_N))
        if metric == "METEOR":
            text_N[wanted_N] = segment_scores(pool.meteor_statistics(items))
        else:  # every prediction of the video is a document
            each = np.arange(len(self.predicted.list_N))
            documents = Documents(self.predicted.list_N, each, self.predicted.text_N)
            group = self.predicted.list_N[self.prediction_N[wanted_N]]
            sides = (items.hypothesis_I, items.reference_P)
            text_N[wanted_N] = Cider(pool.sentences, group, sides, documents, pool.sentences.shared(*sides)).scores()
        return text_N


@dataclass(frozen=True)
class SodaTask:
    """Everything but the text scores, so that METEOR can be asked for them early (`items`)."""

    videos: list[str]
    has_FV: Booleans
    pairs: _Pairs
    problems: Problems
    matched: Mapping[str, Sequence[Solution]]
    wanted_N: Booleans

    @property
    def items(self) -> Items:
        """The pairs whose text can matter."""
        return self.pairs.items(self.wanted_N)

    def finish(self, pool: CaptionIndex, metric: str = "METEOR", types: Sequence[str] = TYPES) -> Soda:
        """Score with the text of the pairs."""
        text_N = self.pairs.text(self.wanted_N, metric, pool)
        scores = {}
        for kind in types:
            total_TK = self._totals(kind, text_N)
            scores[kind] = _modes(_precision_recall_f1(self.problems, total_TK), self.has_FV)
        return Soda(metric, self.videos, scores)

    def _totals(self, kind: str, text_N: Floats) -> Floats:
        """T x K: the score of each list of golds."""
        if kind == "c":
            return self.problems.solve(self.pairs.iou_N * text_N).total_K[None]
        if kind == "d":
            return self.matched["b"][0].total_K[None]
        lists = len(self.problems.golds_K)
        sums = [np.bincount(found.problem_M, text_N[found.pair_M], lists) for found in self.matched[kind]]
        return np.array(sums, dtype=np.float64)


def begin_soda(predictions: EventTable, references: Sequence[EventTable], pool: CaptionIndex) -> SodaTask:
    """Match on IoU, and choose the pairs whose text can matter: those that overlap or are matched."""
    videos = _shared_videos(predictions, references, pool)
    golds, predicted = _gold_lists(videos, references, pool), _timeline(videos, [predictions], pool)
    pairs = _pair_up(golds, predicted, len(videos))
    problems = _problems(pairs, (1 + 2 * len(references)) * len(videos), len(videos))
    has_FV = np.array([[video in held for video in videos] for held in (set(rows.videos) for rows in references)])
    above = [problems.solve(np.where(pairs.iou_N >= tiou, pairs.iou_N, 0.0)) for tiou in TIOUS]
    matched = {"a": above, "b": [problems.solve(pairs.iou_N)]}
    wanted_N = pairs.iou_N > 0
    for found in (*matched["a"], *matched["b"]):
        wanted_N[found.pair_M] = True
    return SodaTask(videos, has_FV, pairs, problems, matched, wanted_N)


def score_soda(
    predictions: EventTable,
    references: Sequence[EventTable],
    pool: CaptionIndex,
    metric: str = "METEOR",
    types: Sequence[str] = TYPES,
) -> Soda:
    """Score the videos that both sides have; a video with an empty list of predictions scores 0."""
    return begin_soda(predictions, references, pool).finish(pool, metric, types)


def _shared_videos(predictions: EventTable, references: Sequence[EventTable], pool: CaptionIndex) -> list[str]:
    """Videos of both sides, in the evaluator's order where that can change a word."""
    pool.captions([sentence for rows in (predictions, *references) for sentence in rows.sentences])
    if pool.order_matters:
        return official_order([rows.videos for rows in references], predictions.videos)
    known = set(predictions.videos)
    return [video for video in union_of_videos(references) if video in known]


def _timeline(
    videos: Sequence[str], files: Sequence[EventTable], pool: CaptionIndex, *, by_time: bool = True
) -> _Timeline:
    """Events video after video, by start (equal starts in file order) or as the file has them."""
    video_E = np.concatenate([position_in(videos, rows) for rows in files])
    interval_E2 = np.concatenate([rows.intervals_E2 for rows in files])
    caption_E = pool.captions([sentence for rows in files for sentence in rows.sentences])
    order = np.lexsort((interval_E2[:, 0], video_E)) if by_time else np.argsort(video_E, kind="stable")
    order = order[video_E[order] >= 0]
    return _Timeline(video_E[order], interval_E2[order], pool.in_files(caption_E[order], np.zeros_like(order)))


def _gold_lists(videos: Sequence[str], references: Sequence[EventTable], pool: CaptionIndex) -> _Timeline:
    """(1 + 2 F) x V lists: all files pooled; each file alone, for `per_reference`; each file as it is, for `multi`.

    The evaluator does not sort when it is given several references, so `multi` matches events in file order.
    """
    sides = [_timeline(videos, references, pool)]
    sides += [_timeline(videos, [rows], pool) for rows in references]
    sides += [_timeline(videos, [rows], pool, by_time=False) for rows in references]
    list_N = np.concatenate([side.list_N + number * len(videos) for number, side in enumerate(sides)])
    intervals, texts = [side.interval_N2 for side in sides], [side.text_N for side in sides]
    return _Timeline(list_N, np.concatenate(intervals), np.concatenate(texts))


def _pair_up(golds: _Timeline, predicted: _Timeline, videos: int) -> _Pairs:
    gold_N, prediction_N = pairs_within_videos(golds.list_N % max(videos, 1), predicted.list_N, videos)
    iou_N = interval_iou(predicted.interval_N2[prediction_N], golds.interval_N2[gold_N])
    return _Pairs(golds, predicted, gold_N, prediction_N, iou_N)


def _problems(pairs: _Pairs, lists: int, videos: int) -> Problems:
    """One problem a list of golds, against the predictions of its video."""
    gold = np.arange(len(pairs.golds.list_N))
    golds_K = np.bincount(pairs.golds.list_N, minlength=lists)
    predictions_V = np.bincount(pairs.predicted.list_N, minlength=videos)
    first_K = np.cumsum(golds_K) - golds_K
    predictions_K = np.tile(predictions_V, lists // max(videos, 1))
    return Problems(first_K, golds_K, predictions_K, np.searchsorted(pairs.gold_N, gold))


def _precision_recall_f1(problems: Problems, total_TK: Floats) -> Floats:
    """T x K x 3, 0 where a side is empty."""
    precision_TK = total_TK / np.maximum(problems.predictions_K, 1)
    recall_TK = total_TK / np.maximum(problems.golds_K, 1)
    both = precision_TK + recall_TK
    f1_TK = np.divide(2 * precision_TK * recall_TK, both, out=np.zeros_like(both), where=both > 0)
    return np.stack([precision_TK, recall_TK, f1_TK], axis=2)


def _modes(values_TK3: Floats, has_FV: Booleans) -> dict[str, SodaScores]:
    files, videos = has_FV.shape
    pooled_TV3, *sides = np.split(values_TK3, 1 + 2 * files, axis=1)
    alone_TFV3, as_is_TFV3 = np.stack(sides[:files], axis=1), np.stack(sides[files:], axis=1)
    best_TV = np.where(has_FV, as_is_TFV3[:, :, :, 2], -1.0).argmax(axis=1)
    multi_TV3 = np.take_along_axis(as_is_TFV3, best_TV[:, None, :, None], axis=1)[:, 0]
    every = np.ones((1, videos), dtype=bool)
    return {
        "merged": SodaScores(pooled_TV3.mean(axis=0)[None], every),
        "multi": SodaScores(multi_TV3.mean(axis=0)[None], every),
        "per_reference": SodaScores(alone_TFV3.mean(axis=0), has_FV),
    }
