"""Spans without a model: the whole video, a fixed grid of the best spans, change points; and how spans are scored.

Each baseline gives spans with scores, best first; `captions` gives them sentences. `top_n` cuts the lists of models and
baselines by one rule, that of `densevid caption --top`: at most n events of a video that hardly overlap, the best
together by score. `average_recall` and `top_n_f1` score lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from densevid.config import InferenceConfig
from densevid.events import Event
from densevid.inference.summary import SummaryRules, choose
from densevid.tracks import FeatureTrack

Spans = npt.NDArray[np.float64]
TIOUS = np.arange(0.5, 0.96, 0.05)
ROUNDING = 1e-9
TIE_BREAK = 0.01  # of a tIoU: of spans that reach the same tIoUs, the closer one
FAINTEST = 1e-4  # of the length of a feature vector: smaller changes do not count
GRID = 40  # the starts and ends that a span of the prior grid can have
WINDOW = 2.0  # seconds on each side of a possible change point
MOST_POINTS = 40
RULE = "at most so many that hardly overlap, by score"


def top_n(events: Sequence[Event], count: int) -> list[Event]:
    """At most `count` events that hardly overlap, the best together by score.

    Args:
        events: Of one video.
        count: How many to choose at most.

    Returns:
        The chosen events, in the order given.
    """
    if not events:
        return []
    rules = SummaryRules(overlap=InferenceConfig().summary_overlap, top=count)
    spans_E2 = torch.tensor([(event.start, event.end) for event in events], dtype=torch.float64)
    score_E = torch.tensor([event.score for event in events], dtype=torch.float64)
    kept_E = choose(spans_E2[None], score_E[None], count, rules)[0].tolist()
    return [event for event, kept in zip(events, kept_E, strict=True) if kept]


@dataclass(frozen=True, eq=False)
class ScoredSpans:
    """Spans (start, end) in seconds with their scores, best first."""

    spans_N2: Spans
    score_N: npt.NDArray[np.float64]

    def top(self, count: int) -> ScoredSpans:
        """The best `count`."""
        return ScoredSpans(self.spans_N2[:count], self.score_N[:count])


def whole_video(seconds: float) -> ScoredSpans:
    """One event from beginning to end."""
    return ScoredSpans(np.array([[0.0, seconds]]), np.ones(1))


@dataclass(frozen=True, eq=False)
class PriorGrid:
    """The fixed list of spans, as fractions of a video, that covers training layouts best, the most useful first."""

    spans_N2: Spans

    @classmethod
    def fit(cls, training_E2: Spans, count: int = 100) -> PriorGrid:
        """Greedily add the span that raises average recall over the tIoUs most; `training_E2` are fractions."""
        edges = np.arange(GRID + 1) / GRID
        first, last = np.triu_indices(GRID + 1, k=1)
        candidates_C2 = np.stack([edges[first], edges[last]], axis=1)
        iou_CE = _tiou(candidates_C2, training_E2)
        value_CE = (_reached(iou_CE) + TIE_BREAK * iou_CE).astype(np.float32)
        best_E = np.zeros(len(training_E2), dtype=np.float32)
        chosen: list[int] = []
        for _ in range(min(count, len(candidates_C2))):
            gain_C = np.maximum(value_CE - best_E, 0).sum(axis=1, dtype=np.float64)
            gain_C[chosen] = -1
            chosen.append(int(gain_C.argmax()))
            best_E = np.maximum(best_E, value_CE[chosen[-1]])
        return cls(candidates_C2[chosen])

    def spans(self, seconds: float) -> ScoredSpans:
        """The list for a video of this length; the scores are ranks."""
        return ScoredSpans(self.spans_N2 * seconds, 1 - np.arange(len(self.spans_N2)) / len(self.spans_N2))


def change_points(track: FeatureTrack, *, window: float = WINDOW, count: int = 100) -> ScoredSpans:
    """Spans between the moments at which a track changes most.

    The strength of a moment is the distance between the means of the windows before and after it; a point is a moment
    stronger than those around it; the ends of the video are points as strong as the strongest. A span scores the
    sum of its two ends, which finds more events than subtracting changes inside it (tried on held-out clips).
    """
    steps, strength_P = change_strengths(track, window)
    a, b = np.triu_indices(len(steps), k=1)
    score = strength_P[a] + strength_P[b]
    order = np.argsort(-score, kind="stable")[:count]
    spans_N2 = np.stack([track.seconds(steps[a[order]]), track.seconds(steps[b[order]])], axis=1)
    return ScoredSpans(spans_N2, score[order])


def change_strengths(track: FeatureTrack, window: float = WINDOW) -> tuple[npt.NDArray[np.int64], Spans]:
    """The steps at which the strongest changes are, in order of time, the ends included, and how strong each is."""
    values_TF = track.values.astype(np.float64)
    length = len(values_TF)
    reach = max(1, round(window / track.clock.seconds_per_step))
    total_TF = np.concatenate([np.zeros((1, values_TF.shape[1])), np.cumsum(values_TF, axis=0)])
    middle = np.arange(1, length)
    before, after = np.maximum(middle - reach, 0), np.minimum(middle + reach, length)
    mean_before = (total_TF[middle] - total_TF[before]) / (middle - before)[:, None]
    mean_after = (total_TF[after] - total_TF[middle]) / (after - middle)[:, None]
    strength = np.linalg.norm(mean_after - mean_before, axis=1)
    around = np.concatenate([[-np.inf], strength, [-np.inf]])
    visible = strength > FAINTEST * np.linalg.norm(values_TF, axis=1).mean()
    peaks = np.flatnonzero(visible & (strength >= around[:-2]) & (strength > around[2:]))
    kept = np.sort(peaks[np.argsort(-strength[peaks], kind="stable")[:MOST_POINTS]])
    strongest = strength.max(initial=0.0)
    return np.concatenate([[0], middle[kept], [length]]), np.concatenate([[strongest], strength[kept], [strongest]])


def average_recall(predicted: Sequence[ScoredSpans], truth: Sequence[Spans], allowed: int) -> float:
    """The share of all events that the best `allowed` spans of each video reach, averaged over the tIoUs."""
    reached, events = 0, 0
    for spans, events_E2 in zip(predicted, truth, strict=True):
        if len(events_E2):
            reached += int(_reached(_tiou(spans.top(allowed).spans_N2, events_E2).max(axis=0, initial=0.0)).sum())
            events += len(events_E2)
    return reached / (events * len(TIOUS))


def top_n_f1(predicted: Sequence[ScoredSpans], truth: Sequence[Spans], allowed: int) -> float:
    """F1 of the best `allowed` spans of each video: precision and recall over all videos, averaged over the tIoUs."""
    right, predictions, reached, events = 0, 0, 0, 0  # summed over the tIoUs: spans and events that reach each
    for spans, events_E2 in zip(predicted, truth, strict=True):
        tiou_NE = _tiou(spans.top(allowed).spans_N2, events_E2)
        right += int(_reached(tiou_NE.max(axis=1, initial=0.0)).sum())
        reached += int(_reached(tiou_NE.max(axis=0, initial=0.0)).sum())
        predictions, events = predictions + len(tiou_NE), events + len(events_E2)
    precision, recall = (part / max(1, count * len(TIOUS)) for part, count in ((right, predictions), (reached, events)))
    return 2 * precision * recall / max(precision + recall, ROUNDING)


def _tiou(first_N2: Spans, second_M2: Spans) -> Spans:
    """Intersection over union of every span with every other."""
    start = np.maximum(first_N2[:, None, 0], second_M2[:, 0])
    end = np.minimum(first_N2[:, None, 1], second_M2[:, 1])
    shared = np.maximum(end - start, 0)
    return np.asarray(shared / (np.diff(first_N2) + np.diff(second_M2).T - shared))


def _reached(tiou: Spans) -> npt.NDArray[np.int64]:
    """How many of the TIOUS each overlap reaches."""
    return np.searchsorted(TIOUS - ROUNDING, tiou, side="right")
