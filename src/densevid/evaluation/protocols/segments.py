"""Captions of given segments: every reference of a segment at once, one hypothesis a segment.

References are grouped by identical times (to the millisecond, so that times kept as 32-bit floats still meet) within
a video, over all reference files. A segment takes the first prediction with its times; one without is scored
as the empty sentence. `micro` scores all segments as one corpus; `macro` scores each video as its own corpus, CIDEr's
document frequencies included, and takes the mean over videos.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from densevid.evaluation.files import EventFile, Floats, Integers, position_in, union_of_videos
from densevid.evaluation.metrics.caption_index import CaptionIndex
from densevid.evaluation.metrics.ngrams import Items, sums_by_group
from densevid.evaluation.metrics.text_scores import TEXT_METRICS, ItemScores, group_scores, score_items

MILLISECONDS = 1000


@dataclass(frozen=True)
class SegmentScores:
    """Sums of each video (V x S, see `text_scores`); CIDEr is over the whole set (`micro`) or the video (`macro`)."""

    videos: list[str]
    micro_VS: Floats
    macro_VS: Floats
    segments: int
    without_prediction: int
    unused_predictions: int

    def to_dict(self) -> dict[str, Any]:
        """`{"micro": {metric: score}, "macro": {metric: score}}`."""
        return {"micro": self.micro(), "macro": self.macro()}

    def per_video(self) -> dict[str, Floats]:
        """The scores of each video as a corpus of its own."""
        return {f"segments_{name}": values_V for name, values_V in group_scores(self.macro_VS).items()}

    def micro(self) -> dict[str, float | None]:
        """Scores of all segments as one corpus; None where there is no segment."""
        return _first(group_scores(self.micro_VS.sum(axis=0, keepdims=True))) if self.segments else _undefined()

    def macro(self) -> dict[str, float | None]:
        """The mean over videos; None where there is no segment."""
        if not self.segments:
            return _undefined()
        return _first({name: values.mean(keepdims=True) for name, values in group_scores(self.macro_VS).items()})


def score_segments(predictions: EventFile, references: Sequence[EventFile], index: CaptionIndex) -> SegmentScores:
    """Score the first prediction of each reference segment against all its references."""
    videos = list(dict.fromkeys(video for file in references for video in file.videos_with_events))
    time_R = np.concatenate([_times(file) for file in references])
    video_R = np.concatenate([position_in(videos, file) for file in references])
    segment_key, segment_R = np.unique(np.column_stack([video_R, time_R]), axis=0, return_inverse=True)
    segment_R = segment_R.reshape(-1)
    event_I = _first_predictions(predictions, videos, segment_key)
    items = _items(predictions, references, segment_R, event_I, index)
    video_I = segment_key[:, 0].astype(np.int64)

    def sums(scored: ItemScores) -> Floats:
        return sums_by_group(scored.item_sums(), video_I, len(videos))

    as_one_corpus = score_items(index, items, np.zeros_like(video_I))
    as_videos = as_one_corpus.regrouped(index, video_I)
    used = int((event_I >= 0).sum())
    counts = (len(event_I), len(event_I) - used, len(predictions) - used)
    return SegmentScores(videos, sums(as_one_corpus), sums(as_videos), *counts)


def predictions_on_segments(predictions: EventFile, references: Sequence[EventFile]) -> bool:
    """Whether there are predictions and each has the times of some reference event of its video."""
    videos = union_of_videos(references)
    offered = np.column_stack([position_in(videos, predictions), _times(predictions)])
    offered = offered[offered[:, 0] >= 0]
    known = [np.column_stack([position_in(videos, file), _times(file)]) for file in references]
    segments = {tuple(key) for keys in known for key in keys.tolist()}
    return len(offered) > 0 and all(tuple(key) in segments for key in offered.tolist())


def _times(file: EventFile) -> Floats:
    return np.rint(np.clip(file.intervals_E2, -1e300, 1e300) * MILLISECONDS)


def _first_predictions(predictions: EventFile, videos: Sequence[str], segment_key: Floats) -> Integers:
    """For each segment the first predicted event with its video and times, or -1."""
    offered = np.column_stack([position_in(videos, predictions), _times(predictions)])
    first: dict[tuple[float, ...], int] = {}
    for event, key in enumerate(map(tuple, offered.tolist())):
        first.setdefault(key, event)
    return np.array([first.get(tuple(key), -1) for key in segment_key.tolist()], dtype=np.int64)


def _items(
    predictions: EventFile,
    references: Sequence[EventFile],
    segment_R: Integers,
    event_I: Integers,
    index: CaptionIndex,
) -> Items:
    raw = [predictions.sentences[event] if event >= 0 else "" for event in event_I.tolist()]
    hypothesis_I = _texts(raw, index)
    text_R = _texts([sentence for file in references for sentence in file.sentences], index)
    order = np.argsort(segment_R, kind="stable")
    return Items(hypothesis_I, segment_R[order], text_R[order])


def _texts(raw: Sequence[str], index: CaptionIndex) -> Integers:
    captions = index.captions(raw)
    return index.in_files(captions, np.zeros_like(captions))


def _first(scores: dict[str, Floats]) -> dict[str, float | None]:
    return {name: float(values[0]) for name, values in scores.items()}


def _undefined() -> dict[str, float | None]:
    return dict.fromkeys(TEXT_METRICS)
