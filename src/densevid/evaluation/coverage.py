"""What a score covers: which videos and events were there, which were missing, and what was left out and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import densevid
from densevid.evaluation.captioning import MOST_EVENTS
from densevid.evaluation.rows import Integers, Rows, union_of_videos


@dataclass(frozen=True)
class Coverage:
    """Counts and names, so that a subset is never silent."""

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
    subset: dict[str, float | None]
    warnings: list[str] = field(default_factory=list)


def report_coverage(predictions: Rows, references: Sequence[Rows], protocol: str, parts: Sequence[str]) -> Coverage:
    """Describe what was scored; events per video are over the reference videos that have a prediction list."""
    videos = union_of_videos(references)
    wanted, offered = set(videos), set(predictions.videos)
    shared_V = np.array([video in wanted for video in predictions.videos], dtype=bool)
    counts = predictions.counts_V[shared_V]
    missing = [video for video in videos if video not in offered]
    repeated, distinct = _sentence_rates(predictions)
    listed = sum(len(rows.videos) for rows in references)
    return Coverage(
        protocol=protocol,
        reference_videos=len(videos),
        predicted_videos=int(shared_V.sum()),
        missing_videos=missing,
        unknown_videos=[video for video in predictions.videos if video not in wanted],
        videos_without_events=[predictions.videos[v] for v in np.flatnonzero(shared_V & (predictions.counts_V == 0))],
        events_per_video=_spread(counts),
        reference_events_per_video=sum(map(len, references)) / max(listed, 1),
        repeated_sentences=repeated,
        distinct_sentences=distinct,
        skipped=_left_out(parts, missing, predictions.counts_V[~shared_V], counts),
        files={"predictions": _file(predictions), "references": [_file(rows) for rows in references]},
        versions={"densevid": densevid.__version__, **{name: _version(name) for name in ("numpy", "pycocoevalcap")}},
        subset={},
        warnings=list(predictions.warnings),
    )


def _sentence_rates(predictions: Rows) -> tuple[float, float]:
    """The share of events whose sentence stands earlier in the same video, and of different sentences among all."""
    pairs = [
        (video, row["sentence"])
        for video, row in zip(predictions.video_E.tolist(), predictions.raw, strict=True)
        if isinstance(row.get("sentence"), str)
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


def _file(rows: Rows) -> dict[str, Any]:
    return {"name": rows.name, "hash": rows.digest, "videos": len(rows.videos), "events": len(rows)}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _spread(counts: Integers) -> dict[str, float]:
    if not len(counts):
        return {"mean": 0.0, "min": 0.0, "max": 0.0}
    return {"mean": float(counts.mean()), "min": float(counts.min()), "max": float(counts.max())}
