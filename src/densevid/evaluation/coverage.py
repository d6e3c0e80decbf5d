"""What a score covers: which videos and events were there, which were missing, and what was left out and why.

`LengthRange` restricts an evaluation to long or short events (the paper's tables of events of at least 50 s and of at
most 15 s). An event is kept by its own length, on both sides: a prediction of another length is not an attempt at
these events. A reference video without such an event leaves the set; a predicted video stays, with an empty list if
need be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import densevid
from densevid.errors import InputError
from densevid.evaluation.files import Booleans, EventFile, Integers, union_of_videos
from densevid.evaluation.protocols.captioning import MOST_EVENTS
from densevid.evaluation.protocols.paragraph import ParagraphFile, lacks_prefix, prefix_notes
from densevid.evaluation.protocols.segments import SegmentScores
from densevid.evaluation.protocols.support import FEW_ANNOTATORS, SupportScores

Sides = tuple[EventFile, Sequence[EventFile]]  # predictions and references
UNMATCHED_SHARE = 0.5  # a larger share of segments or predictions without a counterpart is worth a warning


@dataclass(frozen=True)
class LengthRange:
    """Lengths in seconds, both ends included; None is no limit."""

    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        for flag, seconds in (("--min-seconds", self.at_least), ("--max-seconds", self.at_most)):
            if seconds is not None and not math.isfinite(seconds):
                raise InputError(f"{flag} must be a finite number of seconds, got {seconds:g}")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise InputError(
                f"--min-seconds {self.at_least:g} is above --max-seconds {self.at_most:g}: no event is left"
            )

    @property
    def unlimited(self) -> bool:
        """Whether nothing is left out."""
        return self.at_least is None and self.at_most is None

    def contains(self, file: EventFile) -> Booleans:
        """Which events have such a length."""
        with np.errstate(over="ignore"):  # times near the largest number: longer than any limit
            seconds_E = file.intervals_E2[:, 1] - file.intervals_E2[:, 0]
        long_enough = seconds_E >= (-np.inf if self.at_least is None else self.at_least)
        return np.asarray(long_enough & (seconds_E <= (np.inf if self.at_most is None else self.at_most)))


def restrict(
    predictions: EventFile, references: Sequence[EventFile], lengths: LengthRange
) -> tuple[EventFile, list[EventFile]]:
    """The events of these lengths on both sides."""
    if lengths.unlimited:
        return predictions, list(references)
    kept = [file.keep(lengths.contains(file), empty_videos=False) for file in references]
    if not any(len(file) for file in kept):
        raise InputError("no reference event has such a length; widen --min-seconds / --max-seconds")
    return predictions.keep(lengths.contains(predictions), empty_videos=True), kept


@dataclass(frozen=True)
class Coverage:
    """Counts and names, so that a subset is never silent. Files are described as read, the rest as scored.

    Attributes:
        protocol: The captioning protocol.
        reference_videos: The number of videos of any reference file.
        predicted_videos: How many of them have a list of predictions, which may be empty.
        missing_videos: Reference videos without such a list.
        unknown_videos: Predicted videos of no reference file.
        videos_without_events: Reference videos whose list of predictions is empty.
        events_per_video: Mean, smallest and largest number of predicted events of a predicted video.
        reference_events_per_video: The mean over reference files and their videos.
        repeated_sentences: The share of predicted events whose sentence stands earlier in the same video.
        distinct_sentences: The share of different sentences among all predicted.
        skipped: What was left out, and why.
        files: Name, hash, videos and events of each file.
        versions: Versions of the packages that the scores depend on.
        subset: What the limits of length left out; empty without limits.
        segments: Segments with and without a prediction; empty unless segments were scored.
        paragraph: Videos of paragraph files; empty without such files.
        warnings: What a user should know.
        meteor: Always "native"; 0.1 could run METEOR's jar, too.
    """

    protocol: str
    reference_videos: int
    predicted_videos: int
    missing_videos: list[str]
    unknown_videos: list[str]
    videos_without_events: list[str]
    events_per_video: dict[str, float]
    reference_events_per_video: float
    repeated_sentences: float
    distinct_sentences: float
    skipped: list[str]
    files: dict[str, Any]
    versions: dict[str, str | None]
    subset: dict[str, float | None] = field(default_factory=dict)
    segments: dict[str, int] = field(default_factory=dict)
    paragraph: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    meteor: str = "native"


def report_coverage(read: Sides, scored: Sides, protocol: str, parts: Sequence[str]) -> Coverage:
    """Describe what was scored of what was read; events per video are over the videos that have a prediction list."""
    predictions, references = scored
    all_predictions, all_references = read
    videos, known = union_of_videos(references), set(union_of_videos(all_references))
    wanted, offered = set(videos), set(predictions.videos)
    shared_V = np.array([video in wanted for video in predictions.videos], dtype=bool)
    unknown_V = np.array([video not in known for video in all_predictions.videos], dtype=bool)
    counts = predictions.counts_V[shared_V]
    missing = [video for video in videos if video not in offered]
    repeated, distinct = _sentence_rates(predictions)
    listed = sum(len(file.videos) for file in references)
    return Coverage(
        protocol=protocol,
        reference_videos=len(videos),
        predicted_videos=int(shared_V.sum()),
        missing_videos=missing,
        unknown_videos=[all_predictions.videos[v] for v in np.flatnonzero(unknown_V)],
        videos_without_events=[predictions.videos[v] for v in np.flatnonzero(shared_V & (predictions.counts_V == 0))],
        events_per_video=_spread(counts),
        reference_events_per_video=sum(map(len, references)) / max(listed, 1),
        repeated_sentences=repeated,
        distinct_sentences=distinct,
        skipped=_left_out(parts, missing, all_predictions.counts_V[unknown_V], counts),
        files={"predictions": _file(all_predictions), "references": [_file(file) for file in all_references]},
        versions={"densevid": densevid.__version__, **{name: _version(name) for name in ("numpy", "pycocoevalcap")}},
        warnings=[note for file in (all_predictions, *all_references) for note in file.warnings],
    )


def with_subset(coverage: Coverage, read: Sides, scored: Sides, lengths: LengthRange) -> Coverage:
    """Add what a range of lengths left out."""
    if lengths.unlimited:
        return coverage
    (all_predictions, all_references), (predictions, references) = read, scored
    videos = len(union_of_videos(all_references)) - len(union_of_videos(references))
    subset: dict[str, float | None] = {
        "min_seconds": lengths.at_least,
        "max_seconds": lengths.at_most,
        "predictions_left_out": len(all_predictions) - len(predictions),
        "references_left_out": sum(map(len, all_references)) - sum(map(len, references)),
        "reference_videos_without_such_an_event": videos,
    }
    return replace(coverage, subset=subset)


def with_segments(coverage: Coverage, segments: SegmentScores) -> Coverage:
    """Add how many given segments have no prediction, and how many predictions belong to none."""
    counts = {
        "segments": segments.segments,
        "scored_as_empty": segments.without_prediction,
        "unused_predictions": segments.unused_predictions,
    }
    predictions = segments.segments - segments.without_prediction + segments.unused_predictions
    notes = [
        f"segments: {count} of {total} {what}; are these captions of the references' own segments?"
        for count, total, what in (
            (segments.without_prediction, segments.segments, "have no prediction with their times and score as empty"),
            (segments.unused_predictions, predictions, "predictions have the times of no segment and are not scored"),
        )
        if count > UNMATCHED_SHARE * total
    ]
    return replace(coverage, segments=counts, warnings=[*coverage.warnings, *notes])


def with_support(coverage: Coverage, support: SupportScores) -> Coverage:
    """Warn about segments of few annotators, and about events that no annotator described."""
    few, segments = int(support.segments["few_annotators"]), int(support.segments["segments"])
    events = len(support.groups["shown"].shown_E)
    notes = [
        (few, f"support: {few} of {segments} segments have fewer than {FEW_ANNOTATORS} sentences; it needs about 20"),
        (
            support.without_segment,
            f"support: {support.without_segment} of {events} events overlap no segment and are not supported",
        ),
    ]
    return replace(coverage, warnings=[*coverage.warnings, *(note for count, note in notes if count)])


def with_paragraphs(coverage: Coverage, scored: Sides, files: Sequence[ParagraphFile]) -> Coverage:
    """Add the paragraph files, the videos that only one side has, and every repair of names."""
    predictions, references = scored
    notes = [note for file in files for note in file.warnings]
    for file in (predictions, *(() if files else references)):
        notes += prefix_notes(file.name, file.videos)
    coverage = replace(coverage, warnings=[*coverage.warnings, *notes])
    if not files:
        return coverage
    described = dict.fromkeys(video for file in files for video in file.by_video)
    prefix = "v_" if lacks_prefix(predictions.videos) else ""
    offered = dict.fromkeys(prefix + video for video in predictions.videos)
    paragraph = {
        "reference_videos": len(described),
        "missing_videos": [video for video in described if video not in offered],
        "unknown_videos": [video for video in offered if video not in described],
    }
    listed = [{"name": file.name, "hash": file.digest, "videos": len(file.by_video)} for file in files]
    return replace(coverage, paragraph=paragraph, files={**coverage.files, "paragraphs": listed})


def _sentence_rates(predictions: EventFile) -> tuple[float, float]:
    """The share of events whose sentence stands earlier in the same video, and of different sentences among all."""
    pairs = [
        (video, sentence)
        for video, event in zip(predictions.video_E.tolist(), predictions.raw, strict=True)
        if isinstance(sentence := event.get("full_sentence") or event.get("sentence"), str)
    ]
    if not pairs:
        return 0.0, 0.0
    return 1 - len(set(pairs)) / len(pairs), len({sentence for _, sentence in pairs}) / len(pairs)


def _left_out(parts: Sequence[str], missing: list[str], unknown_counts: Integers, counts: Integers) -> list[str]:
    notes = []
    if len(unknown_counts):
        events = int(unknown_counts.sum())
        notes.append(f"{len(unknown_counts)} predicted videos ({events} events) are in no reference file")
    if missing and "soda" in parts:
        notes.append(f"soda: {len(missing)} reference videos without a prediction list are not in its mean")
    over = int(np.maximum(counts - MOST_EVENTS, 0).sum())
    if over and "captioning" in parts:
        notes.append(f"captioning: {over} events beyond the first {MOST_EVENTS} of their video")
    return notes


def _file(file: EventFile) -> dict[str, Any]:
    return {"name": file.name, "hash": file.digest, "videos": len(file.videos), "events": len(file)}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _spread(counts: Integers) -> dict[str, float]:
    if not len(counts):
        return {"mean": 0.0, "min": 0.0, "max": 0.0}
    return {"mean": float(counts.mean()), "min": float(counts.min()), "max": float(counts.max())}
