"""SODA: the captions of a video scored together, events matched to references in temporal order for the best total.

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
    EventFile,
    Floats,
    Integers,
    official_order,
    position_in,
    union_of_videos,
)
from densevid.evaluation.meteor.statistics import segment_scores
from densevid.evaluation.metrics.caption_index import CaptionIndex, MeteorRequest
from densevid.evaluation.metrics.cider import Cider, Documents
from densevid.evaluation.metrics.ngrams import Items
from densevid.evaluation.protocols.captioning import TIOUS
from densevid.evaluation.protocols.matching import Alignment, AlignmentProblems, interval_iou, pairs_within_videos

TYPES = ("a", "b", "c", "d")
MODES = ("merged", "multi", "per_reference")
TEXT_METRICS = ("METEOR", "CIDEr")
NAMES = ("precision", "recall", "f1")


@dataclass(frozen=True)
class SodaTable:
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

    def f1_per_video(self) -> Floats:
        """F1 of each video, averaged over the files that count it."""
        counted_V = self.counts_FV.sum(axis=0)
        return np.asarray((self.values_FV3[:, :, 2] * self.counts_FV).sum(axis=0) / np.maximum(counted_V, 1))


@dataclass(frozen=True)
class SodaScores:
    """`tables[type][mode]`, over `videos`."""

    metric: str
    videos: list[str]
    tables: Mapping[str, Mapping[str, SodaTable]]

    def to_dict(self) -> dict[str, dict[str, dict[str, float]]]:
        """`{type: {mode: {precision, recall, f1}}}`."""
        return {kind: {mode: table.means() for mode, table in modes.items()} for kind, modes in self.tables.items()}

    def per_video(self) -> dict[str, Floats]:
        """F1 of each video by type and mode."""
        return {
            f"soda_{kind}_{mode}_f1": table.f1_per_video()
            for kind, modes in self.tables.items()
            for mode, table in modes.items()
        }


@dataclass(frozen=True)
class _EventLists:
    """Events of the shared videos, list after list; a list is what is matched as a whole."""

    list_N: Integers
    interval_N2: Floats
    text_N: Integers


@dataclass(frozen=True)
class _Pairs:
    """Every (gold, prediction) pair of a video, gold after gold, with its IoU."""

    golds: _EventLists
    predicted: _EventLists
    gold_N: Integers
    prediction_N: Integers
    iou_N: Floats

    def items(self, wanted_N: Booleans) -> Items:
        """The gold sentence as hypothesis, the predicted one as reference."""
        gold_I, prediction_I = self.gold_N[wanted_N], self.prediction_N[wanted_N]
        return Items.single(self.golds.text_N[gold_I], self.predicted.text_N[prediction_I])

    def cider(self, items: Items, wanted_N: Booleans, index: CaptionIndex) -> Floats:
        """CIDEr of the wanted pairs, where every prediction of the video is a document."""
        each = np.arange(len(self.predicted.list_N))
        documents = Documents(self.predicted.list_N, each, self.predicted.text_N)
        group = self.predicted.list_N[self.prediction_N[wanted_N]]
        sides = (items.hypothesis_I, items.reference_P)
        return Cider(index.sentences, group, sides, documents, index.sentences.shared(*sides)).scores()


@dataclass(frozen=True)
class SodaTask:
    """Everything but the text scores, which METEOR computes in the background."""

    metric: str
    videos: list[str]
    has_FV: Booleans
    pairs: _Pairs
    problems: AlignmentProblems
    aligned: Mapping[str, Sequence[Alignment]]
    wanted_N: Booleans
    items: Items
    meteor: MeteorRequest | None

    def finish(self, index: CaptionIndex, types: Sequence[str] = TYPES) -> SodaScores:
        """Score with the text of the pairs."""
        text_N = np.zeros(len(self.wanted_N))
        if self.meteor is not None:
            text_N[self.wanted_N] = segment_scores(self.meteor.statistics())
        else:
            text_N[self.wanted_N] = self.pairs.cider(self.items, self.wanted_N, index)
        tables = {}
        for kind in types:
            total_TK = self._totals(kind, text_N)
            tables[kind] = _modes(_precision_recall_f1(self.problems, total_TK), self.has_FV)
        return SodaScores(self.metric, self.videos, tables)

    def _totals(self, kind: str, text_N: Floats) -> Floats:
        """T x K: the score of each list of golds."""
        if kind == "c":
            return self.problems.solve(self.pairs.iou_N * text_N).total_K[None]
        if kind == "d":
            return self.aligned["b"][0].total_K[None]
        lists = len(self.problems.golds_K)
        sums = [np.bincount(found.problem_M, text_N[found.pair_M], lists) for found in self.aligned[kind]]
        return np.array(sums, dtype=np.float64)


def begin_soda(
    predictions: EventFile, references: Sequence[EventFile], index: CaptionIndex, metric: str = "METEOR"
) -> SodaTask:
    """Match on IoU, and submit the pairs whose text can matter, those that overlap or are matched, to METEOR."""
    videos = _shared_videos(predictions, references, index)
    golds = _gold_lists(videos, references, index)
    pairs = _pair_up(golds, _event_lists(videos, [predictions], index), len(videos))
    problems = _problems(pairs, (1 + 2 * len(references)) * len(videos), len(videos))
    has_FV = np.array([[video in held for video in videos] for held in (set(file.videos) for file in references)])
    above = [problems.solve(np.where(pairs.iou_N >= tiou, pairs.iou_N, 0.0)) for tiou in TIOUS]
    aligned = {"a": above, "b": [problems.solve(pairs.iou_N)]}
    wanted_N = pairs.iou_N > 0
    for found in (*aligned["a"], *aligned["b"]):
        wanted_N[found.pair_M] = True
    items = pairs.items(wanted_N)
    meteor = index.submit_meteor(items) if metric == "METEOR" else None
    return SodaTask(metric, videos, has_FV, pairs, problems, aligned, wanted_N, items, meteor)


def score_soda(
    predictions: EventFile,
    references: Sequence[EventFile],
    index: CaptionIndex,
    metric: str = "METEOR",
    types: Sequence[str] = TYPES,
) -> SodaScores:
    """Score the videos that both sides have; a video with an empty list of predictions scores 0.

    Args:
        predictions: The events to score.
        references: One file an annotator.
        index: The captions' texts and METEOR.
        metric: The text score, "METEOR" or "CIDEr".
        types: Which of SODA a, b, c and d to compute.
    """
    return begin_soda(predictions, references, index, metric).finish(index, types)


def _shared_videos(predictions: EventFile, references: Sequence[EventFile], index: CaptionIndex) -> list[str]:
    """Videos of both sides, in the evaluator's order where that can change a token."""
    index.captions([sentence for file in (predictions, *references) for sentence in file.sentences])
    if index.order_matters:
        return official_order([file.videos for file in references], predictions.videos)
    known = set(predictions.videos)
    return [video for video in union_of_videos(references) if video in known]


def _event_lists(
    videos: Sequence[str], files: Sequence[EventFile], index: CaptionIndex, *, by_time: bool = True
) -> _EventLists:
    """Events video after video, by start (equal starts in file order) or in file order."""
    video_E = np.concatenate([position_in(videos, file) for file in files])
    interval_E2 = np.concatenate([file.intervals_E2 for file in files])
    caption_E = index.captions([sentence for file in files for sentence in file.sentences])
    order = np.lexsort((interval_E2[:, 0], video_E)) if by_time else np.argsort(video_E, kind="stable")
    order = order[video_E[order] >= 0]
    return _EventLists(video_E[order], interval_E2[order], index.in_files(caption_E[order], np.zeros_like(order)))


def _gold_lists(videos: Sequence[str], references: Sequence[EventFile], index: CaptionIndex) -> _EventLists:
    """(1 + 2 F) x V lists: all files pooled; each file alone, for `per_reference`; each in file order, for `multi`.

    The evaluator does not sort when it is given several references, so `multi` matches events in file order.
    """
    sides = [_event_lists(videos, references, index)]
    sides += [_event_lists(videos, [file], index) for file in references]
    sides += [_event_lists(videos, [file], index, by_time=False) for file in references]
    list_N = np.concatenate([side.list_N + number * len(videos) for number, side in enumerate(sides)])
    intervals, texts = [side.interval_N2 for side in sides], [side.text_N for side in sides]
    return _EventLists(list_N, np.concatenate(intervals), np.concatenate(texts))


def _pair_up(golds: _EventLists, predicted: _EventLists, videos: int) -> _Pairs:
    gold_N, prediction_N = pairs_within_videos(golds.list_N % max(videos, 1), predicted.list_N, videos)
    iou_N = interval_iou(predicted.interval_N2[prediction_N], golds.interval_N2[gold_N])
    return _Pairs(golds, predicted, gold_N, prediction_N, iou_N)


def _problems(pairs: _Pairs, lists: int, videos: int) -> AlignmentProblems:
    """One problem a list of golds, against the predictions of its video."""
    gold = np.arange(len(pairs.golds.list_N))
    golds_K = np.bincount(pairs.golds.list_N, minlength=lists)
    predictions_V = np.bincount(pairs.predicted.list_N, minlength=videos)
    first_K = np.cumsum(golds_K) - golds_K
    predictions_K = np.tile(predictions_V, lists // max(videos, 1))
    return AlignmentProblems(first_K, golds_K, predictions_K, np.searchsorted(pairs.gold_N, gold))


def _precision_recall_f1(problems: AlignmentProblems, total_TK: Floats) -> Floats:
    """T x K x 3, 0 where a side is empty."""
    precision_TK = total_TK / np.maximum(problems.predictions_K, 1)
    recall_TK = total_TK / np.maximum(problems.golds_K, 1)
    both = precision_TK + recall_TK
    f1_TK = np.divide(2 * precision_TK * recall_TK, both, out=np.zeros_like(both), where=both > 0)
    return np.stack([precision_TK, recall_TK, f1_TK], axis=2)


def _modes(values_TK3: Floats, has_FV: Booleans) -> dict[str, SodaTable]:
    files, videos = has_FV.shape
    pooled_TV3, *sides = np.split(values_TK3, 1 + 2 * files, axis=1)
    alone_TFV3, as_is_TFV3 = np.stack(sides[:files], axis=1), np.stack(sides[files:], axis=1)
    best_TV = np.where(has_FV, as_is_TFV3[:, :, :, 2], -1.0).argmax(axis=1)
    multi_TV3 = np.take_along_axis(as_is_TFV3, best_TV[:, None, :, None], axis=1)[:, 0]
    every = np.ones((1, videos), dtype=bool)
    return {
        "merged": SodaTable(pooled_TV3.mean(axis=0)[None], every),
        "multi": SodaTable(multi_TV3.mean(axis=0)[None], every),
        "per_reference": SodaTable(alone_TFV3.mean(axis=0), has_FV),
    }
