"""Support: whether a person would agree with a sentence, measured by the words of the annotators of its segment.

A sentence is supported if each of its content words was used by at least two annotators (`metrics.content_words`) and
it has a verb and, unless it is marked as shortened, an object or a place (`language.sentence_form`). This wants many
annotators a segment, about 20. An event is compared with the reference segment of highest IoU; one that overlaps none
is not supported. An event without a sentence is an abstention: it is not shown, and lowers the coverage.

The groups: `shown` (every sentence that is shown), `full` and `shortened` (each kind alone, the other counts as not
shown), and `guesses` (the full sentence of every event, where the file has `full_sentence`).

Support at a coverage c takes the c x events of highest confidence; of equal confidences every order counts alike, so a
file without confidences has the same support at any coverage it reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from densevid.evaluation.files import Booleans, EventFile, Floats, Integers, position_in, union_of_videos
from densevid.evaluation.metrics.content_words import AnnotatorWords, tokens
from densevid.language.sentence_form import sentence_form

COVERAGES = (0.5, 0.9, 1.0)
CURVE = tuple(round(0.05 * step, 2) for step in range(1, 21))
BINS = 10
FREQUENT = 5
FEW_ANNOTATORS = 5
DRAWS, SEED, LEVEL = 2000, 0, 0.95
MILLISECONDS = 1000
Interval = tuple[float, float] | None


@dataclass(frozen=True)
class SupportGroup:
    """The sentences of one kind; everything is an entry an event, whether its sentence is shown or not.

    Attributes:
        video_E: The number of the event's video.
        shown_E: Whether its sentence is shown.
        supported_E: Whether it is shown and supported.
        complete_E: Whether it is shown and has a verb and what else it needs.
        words_E2: Content words that are supported, and all.
        confidence_E: Confidence in the sentence; NaN where there is none.
        sentences: The sentence, empty where it is not shown.
        videos: The number of videos.
    """

    video_E: Integers
    shown_E: Booleans
    supported_E: Booleans
    complete_E: Booleans
    words_E2: Floats
    confidence_E: Floats
    sentences: list[str]
    videos: int

    @property
    def coverage(self) -> float | None:
        """The share of events whose sentence is shown."""
        return _ratio(self.shown_E.sum(), len(self.shown_E))

    @property
    def support(self) -> float | None:
        """The share of shown sentences that are supported."""
        return _ratio(self.supported_E.sum(), self.shown_E.sum())

    @property
    def word_support(self) -> float | None:
        """The share of content words of shown sentences that are supported."""
        return _ratio(*self.words_E2.sum(axis=0))

    def support_at(self, coverages: Sequence[float], weight_E: Floats | None = None) -> Floats:
        """Support of the most confident sentences at each coverage; NaN where fewer are shown."""
        order, ends = self._ranking
        weight = np.ones(len(order)) if weight_E is None else weight_E[order]
        columns = (self.shown_E, self.supported_E)
        shown, supported = (np.append(0.0, np.cumsum(weight * column[order])[ends]) for column in columns)
        target = np.asarray(coverages) * weight.sum()
        reached = (target > 0) & (target <= shown[-1] * (1 + 1e-9))
        share = np.interp(target, shown, supported) / np.where(reached, target, 1)
        return np.asarray(np.where(reached, share, np.nan))

    def calibration(self) -> dict[str, Any] | None:
        """Expected calibration error of the confidence against support, its interval, and the bins.

        None where a shown sentence has no confidence, or one outside [0, 1]. The error is never below 0, so its
        interval lies a little too high where there are few events.
        """
        confidence = self.confidence_E[self.shown_E]
        if not len(confidence) or not np.all((confidence >= 0) & (confidence <= 1)):
            return None
        bin_N = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
        table_VK3 = np.zeros((self.videos, BINS, 3))
        values_N3 = np.column_stack([np.ones_like(confidence), confidence, self.supported_E[self.shown_E]])
        np.add.at(table_VK3, (self.video_E[self.shown_E], bin_N), values_N3)
        drawn_B = _calibration_error(np.tensordot(_draws(self.videos), table_VK3, axes=1))
        total_K3 = table_VK3.sum(axis=0)
        bins = [
            {"from": k / BINS, "to": (k + 1) / BINS, "sentences": int(n), "confidence": c / n, "support": s / n}
            for k, (n, c, s) in enumerate(total_K3.tolist())
            if n
        ]
        return {"error": float(_calibration_error(total_K3[None])[0]), "interval": _interval(drawn_B), "bins": bins}

    def frequent(self) -> dict[str, Any]:
        """The share of shown sentences that are one of the five most frequent, and these."""
        counts = Counter(" ".join(tokens(text)) for text in self.sentences if text)
        most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:FREQUENT]
        share = _ratio(sum(count for _, count in most), self.shown_E.sum())
        return {"share": share, "sentences": [{"sentence": text, "count": count} for text, count in most]}

    def to_dict(self) -> dict[str, Any]:
        """All figures, with 95% intervals over videos; None where undefined."""
        curve = self.support_at(CURVE)
        reached = curve[~np.isnan(curve)]
        drawn_BC = np.array([self.support_at(COVERAGES, drawn_V[self.video_E]) for drawn_V in _draws(self.videos)])
        at, shown, words = self.support_at(COVERAGES), self.shown_E, self.words_E2
        return {
            "shown": int(shown.sum()),
            "coverage": self.coverage,
            "support": self.support,
            "support_interval": self._interval_of(self.supported_E, shown),
            "word_support": self.word_support,
            "word_support_interval": self._interval_of(words[:, 0], words[:, 1]),
            "incomplete": _ratio((shown & ~self.complete_E).sum(), shown.sum()),
            "at_coverage": {
                f"{c:g}": {"support": _number(value), "interval": None if np.isnan(value) else _interval(drawn_B)}
                for c, value, drawn_B in zip(COVERAGES, at, drawn_BC.T, strict=True)
            },
            "area": float(reached.mean()) if len(reached) else None,
            "curve": {"coverage": list(CURVE), "support": [_number(value) for value in curve]},
            "calibration": self.calibration(),
            "frequent": self.frequent(),
        }

    @cached_property
    def _ranking(self) -> tuple[Integers, Integers]:
        """Events by falling confidence, those without last; and the last place of each group of equal ones."""
        confidence = np.where(np.isnan(self.confidence_E), -np.inf, self.confidence_E)
        order = np.argsort(-confidence, kind="stable")
        ranked = confidence[order]
        return order, np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if len(order) else order

    def _interval_of(self, part_E: Floats | Booleans, whole_E: Floats | Booleans) -> Interval:
        columns = (part_E, whole_E)
        sums = [np.bincount(self.video_E, weights=column, minlength=self.videos) for column in columns]
        part_B, whole_B = (_draws(self.videos) @ sums_V for sums_V in sums)
        return _interval(np.divide(part_B, whole_B, out=np.full_like(part_B, np.nan), where=whole_B > 0))


@dataclass(frozen=True)
class SupportScores:
    """The support of a file's sentences.

    Attributes:
        videos: The reference videos.
        groups: `shown`, `full`, `shortened` and, if the file has full sentences, `guesses`.
        confidence: The field of an event that ranks sentences.
        segments: The number of reference segments, how many of them have few annotators, how many annotators they have
            on average, and how many of them a shown sentence describes.
        without_segment: Events of reference videos that overlap no segment.
    """

    videos: list[str]
    groups: dict[str, SupportGroup]
    confidence: str
    segments: dict[str, float]
    without_segment: int

    def to_dict(self) -> dict[str, Any]:
        """The figures of each group, and what they rest on."""
        groups = {name: group.to_dict() for name, group in self.groups.items()}
        events = len(self.groups["shown"].shown_E)
        counts = {"events": events, "events_without_segment": self.without_segment, "segments": self.segments}
        return {"confidence": self.confidence, **counts, **groups}

    def per_video(self) -> dict[str, Floats]:
        """Events, shown sentences and supported sentences of each video."""
        group = self.groups["shown"]
        columns = {"events": np.ones(len(group.shown_E)), "shown": group.shown_E, "supported": group.supported_E}
        return {
            f"support_{name}": np.bincount(group.video_E, values, len(self.videos)).astype(np.float64)
            for name, values in columns.items()
        }


def score_support(
    predictions: EventFile, references: Sequence[EventFile], confidence: str = "sentence_score"
) -> SupportScores:
    """Compare the sentences of predicted events with the words of the annotators.

    Args:
        predictions: Events; each may have `full_sentence`, `shortened` and a confidence.
        references: Files with the sentences of all annotators of each segment, in one file or in one an annotator.
        confidence: The field of an event that ranks sentences and is compared with support.

    Returns:
        The scores. Predictions for videos of no reference file do not count.
    """
    videos = union_of_videos(references)
    place_E = position_in(videos, predictions)
    known_N = np.flatnonzero(place_E >= 0)
    video_N = place_E[known_N]
    key_S3, words_S = _segments(videos, references)
    segment_N = _nearest_segment(video_N, _finite(predictions.intervals_E2[known_N]), key_S3)
    shown_N = [predictions.shown_sentences[event].strip() for event in known_N]
    shortened_N = predictions.shortened_E[known_N]
    confidence_N = predictions.optional_numbers(confidence)[known_N]

    all_N = np.ones_like(shortened_N)
    rows = {"shown": (shown_N, all_N), "full": (shown_N, ~shortened_N), "shortened": (shown_N, shortened_N)}
    if any("full_sentence" in event for event in predictions.raw):
        rows["guesses"] = ([predictions.sentences[event].strip() for event in known_N], all_N)
    groups = {}
    for name, (sentences, wanted_N) in rows.items():
        texts = [text if wanted else "" for text, wanted in zip(sentences, wanted_N, strict=True)]
        short_N = shortened_N & (name != "guesses")
        figures = _figures(texts, [words_S[s] if s >= 0 else None for s in segment_N.tolist()], short_N)
        groups[name] = SupportGroup(video_N, *figures, confidence_N, texts, len(videos))
    annotators_S = np.array([words.annotators for words in words_S])
    segments = {
        "segments": len(words_S),
        "few_annotators": int((annotators_S < FEW_ANNOTATORS).sum()),
        "annotators": float(annotators_S.mean()) if len(words_S) else 0.0,
        "described": len(set(segment_N[groups["shown"].shown_E].tolist()) - {-1}),
    }
    return SupportScores(videos, groups, confidence, segments, int((segment_N < 0).sum()))


def _segments(videos: Sequence[str], references: Sequence[EventFile]) -> tuple[Floats, list[AnnotatorWords]]:
    """Video, start and end of each segment (times to the millisecond), and the words of its annotators."""
    time_R2 = np.concatenate([_finite(file.intervals_E2) for file in references])
    video_R = np.concatenate([position_in(videos, file) for file in references])
    rounded_R2 = np.rint(time_R2 * MILLISECONDS) / MILLISECONDS
    key_S3, segment_R = np.unique(np.column_stack([video_R, rounded_R2]), axis=0, return_inverse=True)
    sentences: list[list[str]] = [[] for _ in key_S3]
    for segment, text in zip(segment_R.reshape(-1), (t for file in references for t in file.sentences), strict=True):
        sentences[segment].append(text)
    return key_S3, [AnnotatorWords(texts) for texts in sentences]


def _nearest_segment(video_N: Integers, time_N2: Floats, key_S3: Floats) -> Integers:
    """For each event the segment of its video with the highest IoU, or -1 if it overlaps none."""
    segment_N = np.full(len(video_N), -1)
    first_V = np.searchsorted(key_S3[:, 0], np.arange(int(key_S3[:, 0].max(initial=-1)) + 2))
    for event, (video, (start, end)) in enumerate(zip(video_N.tolist(), time_N2.tolist(), strict=True)):
        low, high = first_V[video : video + 2] if video + 1 < len(first_V) else (0, 0)
        if low == high:
            continue
        starts, ends = key_S3[low:high, 1], key_S3[low:high, 2]
        overlap = np.minimum(ends, end) - np.maximum(starts, start)
        iou = overlap / np.maximum(np.maximum(ends, end) - np.minimum(starts, start), 1e-8)
        if iou.max() > 0:
            segment_N[event] = low + int(iou.argmax())
    return segment_N


def _finite(times: Floats) -> Floats:
    """Times whose differences do not overflow."""
    return np.clip(times, -1e100, 1e100)


def _figures(
    sentences: Sequence[str], words_E: Sequence[AnnotatorWords | None], shortened_E: Booleans
) -> tuple[Booleans, Booleans, Booleans, Floats]:
    """Whether each sentence is shown, supported and complete, and its words that are supported, and all."""
    found = map(_supported_words, sentences, words_E, shortened_E.tolist())
    figures_E3 = np.array(list(found), dtype=np.float64).reshape(-1, 3)
    words_E2, complete_E = figures_E3[:, :2], figures_E3[:, 2] > 0
    shown_E = np.array([bool(text) for text in sentences], dtype=bool)
    supported_E = complete_E & (words_E2[:, 1] > 0) & (words_E2[:, 0] == words_E2[:, 1])
    return shown_E, supported_E, complete_E, words_E2


def _supported_words(sentence: str, words: AnnotatorWords | None, shortened: bool) -> tuple[int, int, int]:
    """Content words that are supported, all content words, and whether the sentence is complete."""
    if not sentence:
        return 0, 0, 0
    form = sentence_form(tokens(sentence))
    supported = (words or AnnotatorWords([])).supported(sentence)
    return sum(supported), len(supported), int(form.has_verb and (shortened or form.has_object_or_place))


def _draws(videos: int) -> Floats:
    """Bootstrap draws of the videos: how often each is drawn; the same for every group and file of these videos."""
    share = np.full(videos, 1 / max(videos, 1))
    return np.random.default_rng(SEED).multinomial(videos, share, size=DRAWS).astype(np.float64)


def _calibration_error(sums_BK3: Floats) -> Floats:
    """Sum over bins of |confidence - supported|, by the number of sentences."""
    gap_B = np.abs(sums_BK3[..., 1] - sums_BK3[..., 2]).sum(axis=1)
    count_B = sums_BK3[..., 0].sum(axis=1)
    return np.divide(gap_B, count_B, out=np.full_like(gap_B, np.nan), where=count_B > 0)


def _interval(values_B: Floats) -> Interval:
    defined = values_B[~np.isnan(values_B)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
