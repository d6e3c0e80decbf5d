"""Captions of detected events, by the three official evaluators of dense captioning (2017, 2018, 2021).

At each tIoU, every prediction is paired with EVERY reference event of any annotator whose IoU reaches it; each pair has
that one reference. A prediction that matches nothing is paired with a garbage sentence. A video's score is the scorer's
corpus score over its pairs, and the metric is the mean over all reference videos, absent ones scoring 0. The protocols
differ in the garbage alone:
  2018  `abc123!@#`: METEOR sees 4 tokens
  2021  random letters, here drawn once from a fixed seed: METEOR sees 1 token
  2017  written into the slot of the next pair, so only that of a video's LAST prediction survives
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from densevid.evaluation.metrics.caption_index import CaptionIndex
from densevid.evaluation.metrics.ngrams import Items
from densevid.evaluation.metrics.text_scores import TEXT_METRICS, group_scores, score_items
from densevid.evaluation.protocols.matching import interval_iou, pairs_within_videos

PROTOCOLS = ("2017", "2018", "2021")
TIOUS = (0.3, 0.5, 0.7, 0.9)
MOST_EVENTS = 1000
SEED_2021 = 0
METRICS = (*TEXT_METRICS, "Recall", "Precision")


@dataclass(frozen=True)
class CaptioningScores:
    """Per metric, T x V: its value at each tIoU for each reference video."""

    protocol: str
    videos: list[str]
    values: Mapping[str, Floats]

    def per_tiou(self) -> dict[str, dict[str, float]]:
        """The mean over videos at each tIoU, with F1 of the mean recall and precision."""
        means = {name: values_TV.mean(axis=1) for name, values_TV in self.values.items()}
        return {str(tiou): with_f1({name: float(m[t]) for name, m in means.items()}) for t, tiou in enumerate(TIOUS)}

    def average(self) -> dict[str, float]:
        """The mean over the four tIoUs."""
        return with_f1({name: float(values_TV.mean(axis=1).mean()) for name, values_TV in self.values.items()})

    def to_dict(self) -> dict[str, Any]:
        """`{"average": {metric: score}, "per_tiou": {tIoU: {metric: score}}}`."""
        return {"average": self.average(), "per_tiou": self.per_tiou()}

    def per_video(self) -> dict[str, Floats]:
        """Each metric of each video, averaged over tIoU."""
        return {name: np.asarray(values_TV.mean(axis=0)) for name, values_TV in self.values.items()}


@dataclass(frozen=True)
class _Matches:
    """Events of the scored videos; pair n is prediction `left_N[n]` with reference `right_N[n]`, of the same video."""

    videos: list[str]
    video_P: Integers
    last_P: Booleans
    caption_P: Integers
    video_R: Integers
    file_R: Integers
    caption_R: Integers
    left_N: Integers
    right_N: Integers
    iou_N: Floats


@dataclass(frozen=True)
class _Candidates:
    """(prediction, reference) captions of the same video, and at which tIoU each pair counts."""

    video_I: Integers
    prediction_I: Integers
    reference_I: Integers
    active_TI: Booleans

    def as_items(self, index: CaptionIndex) -> tuple[Integers, Items, Booleans]:
        """Tokenized pairs: (video, items, tIoU x item). The evaluators tokenize all pairs of a tIoU as one file, so a
        pair whose tokens depend on its neighbours there becomes one item for each wording."""
        tiou_N, pair_N = np.nonzero(self.active_TI)
        left_N, right_N = (index.in_files(side[pair_N], tiou_N) for side in (self.prediction_I, self.reference_I))
        texts = len(index.texts) + 1
        key_N = (pair_N * texts + left_N) * texts + right_N
        _, first, item_N = np.unique(key_N, return_index=True, return_inverse=True)
        active_TI = np.zeros((len(TIOUS), len(first)), dtype=bool)
        active_TI[tiou_N, item_N] = True
        return self.video_I[pair_N[first]], Items.single(left_N[first], right_N[first]), active_TI


def score_captioning(
    predictions: EventFile, references: Sequence[EventFile], index: CaptionIndex, protocol: str
) -> CaptioningScores:
    """Score predictions in file order, at most 1,000 a video, against all reference files.

    Args:
        predictions: The events to score.
        references: One file an annotator.
        index: The captions' texts and METEOR.
        protocol: "2017", "2018" or "2021".
    """
    matches = _match(predictions, references, index)
    garbage = int(index.captions([garbage_sentence(protocol)])[0])
    pairs = _pair_up(matches, garbage, protocol)
    values = _text_values(pairs, len(matches.videos), index) | _detection_values(matches, len(references))
    return CaptioningScores(protocol, matches.videos, {name: values[name] for name in METRICS})


def scored_videos(references: Sequence[EventFile], index: CaptionIndex) -> list[str]:
    """Every video of any reference file, in the evaluators' order where that can change a token."""
    return official_order([file.videos for file in references]) if index.order_matters else union_of_videos(references)


def garbage_sentence(protocol: str) -> str:
    """The reference of a prediction that matches nothing."""
    if protocol != "2021":
        return "abc123!@#"
    draw = random.Random(SEED_2021)
    return "".join(draw.choice(string.ascii_lowercase) for _ in range(draw.randint(10, 20)))


def with_f1(scores: dict[str, float]) -> dict[str, float]:
    """Add F1 = 2PR/(P+R) of the reported precision and recall, 0 where both are 0."""
    total = scores["Precision"] + scores["Recall"]
    return scores | {"F1": 2 * scores["Precision"] * scores["Recall"] / total if total else 0.0}


def _match(predictions: EventFile, references: Sequence[EventFile], index: CaptionIndex) -> _Matches:
    caption_E = index.captions(predictions.sentences)
    caption_R = index.captions([sentence for file in references for sentence in file.sentences])
    videos = scored_videos(references, index)
    place_E = position_in(videos, predictions)
    kept = np.flatnonzero((place_E >= 0) & (predictions.index_E < MOST_EVENTS))
    video_P = place_E[kept]
    count_V = np.minimum(predictions.counts_V, MOST_EVENTS)
    last_P = predictions.index_E[kept] == count_V[predictions.video_E[kept]] - 1
    video_R = np.concatenate([position_in(videos, file) for file in references])
    file_R = np.repeat(np.arange(len(references)), [len(file) for file in references])
    intervals_R2 = np.concatenate([file.intervals_E2 for file in references])
    left_N, right_N = pairs_within_videos(video_P, video_R, len(videos))
    iou_N = interval_iou(predictions.intervals_E2[kept][left_N], intervals_R2[right_N])
    return _Matches(videos, video_P, last_P, caption_E[kept], video_R, file_R, caption_R, left_N, right_N, iou_N)


def _pair_up(matches: _Matches, garbage: int, protocol: str) -> _Candidates:
    """Every pair that counts at any tIoU, in the order in which the evaluators write them."""
    close = matches.iou_N >= TIOUS[0]
    left, right, iou = matches.left_N[close], matches.right_N[close], matches.iou_N[close]
    best_P = np.full(len(matches.video_P), -1.0)
    np.maximum.at(best_P, left, iou)
    unmatched = np.flatnonzero((best_P < TIOUS[-1]) & (matches.last_P | (protocol != "2017")))
    prediction_I = np.concatenate([left, unmatched])
    reference_I = np.concatenate([matches.caption_R[right], np.full(len(unmatched), garbage)])
    active_TI = np.stack([np.concatenate([iou >= tiou, best_P[unmatched] < tiou]) for tiou in TIOUS])
    order = np.lexsort((prediction_I, matches.video_P[prediction_I]))
    prediction_I = prediction_I[order]
    video_I, caption_I = matches.video_P[prediction_I], matches.caption_P[prediction_I]
    return _Candidates(video_I, caption_I, reference_I[order], active_TI[:, order])


def _text_values(pairs: _Candidates, videos: int, index: CaptionIndex) -> dict[str, Floats]:
    """Each pair is scored once; a tIoU only chooses which to sum."""
    video_I, items, active_TI = pairs.as_items(index)
    scored = score_items(index, items, video_I)
    per_tiou = [group_scores(scored.group_sums(videos, active_I)) for active_I in active_TI]
    return {name: np.stack([scores[name] for scores in per_tiou]) for name in TEXT_METRICS}


def _detection_values(matches: _Matches, files: int) -> dict[str, Floats]:
    """Recall and precision of each video: the best annotator's, each maximum on its own; here IoU must EXCEED tIoU."""
    videos = len(matches.videos)
    cell_R = matches.file_R * videos + matches.video_R
    events_FV = np.bincount(cell_R, minlength=files * videos)
    count_V = np.maximum(np.bincount(matches.video_P, minlength=videos), 1)
    cell_N = matches.file_R[matches.right_N] * len(matches.video_P) + matches.left_N
    recall, precision = [], []
    for tiou in TIOUS:
        hit = matches.iou_N > tiou
        covered = np.unique(matches.right_N[hit])
        covered_FV = np.bincount(cell_R[covered], minlength=files * videos)
        file, prediction = np.divmod(np.unique(cell_N[hit]), max(len(matches.video_P), 1))
        valid_FV = np.bincount(file * videos + matches.video_P[prediction], minlength=files * videos)
        recall.append((covered_FV / np.maximum(events_FV, 1)).reshape(files, videos).max(axis=0))
        precision.append((valid_FV.reshape(files, videos) / count_V).max(axis=0))
    return {"Recall": np.stack(recall), "Precision": np.stack(precision)}
