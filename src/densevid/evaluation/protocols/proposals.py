"""Event proposals: how many reference events are covered as more proposals are allowed (average recall).

As the release's script computes it. The allowance is not a fixed number a video: each video's list, best score first,
is cut at floor(its length x a share), the share the same for all videos and chosen so that the AVERAGE number is
1, 2, ..., 100; floating point makes some cuts lose one. IoU has no epsilon and the threshold may be met exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from densevid.evaluation.files import EventFile, Floats, Integers, position_in
from densevid.evaluation.protocols.matching import pairs_within_videos

TIOUS = np.linspace(0.5, 0.95, 10)
MOST_ON_AVERAGE = 100
REPORTED = (1, 5, 10, 50, 100)
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class ProposalScores:
    """Recall at each tIoU and allowance (T x 100), and the average number of proposals each allowance means.

    `matched_VT` and `events_V` are each video's covered and all events at the largest allowance.
    """

    videos: list[str]
    average_number_J: Floats
    recall_TJ: Floats
    matched_VT: Floats
    events_V: Integers

    @property
    def average_recall_J(self) -> Floats:
        """Recall averaged over the ten tIoUs."""
        return np.asarray(self.recall_TJ.mean(axis=0))

    def average_recall_at(self, number: int) -> float:
        """AR at the allowance nearest to `number` proposals a video."""
        return float(self.average_recall_J[np.abs(self.average_number_J - number).argmin()])

    def area(self) -> float:
        """The area under average recall over the number of proposals, as a share of the whole."""
        most = float(self.average_number_J[-1])
        heights_J = (self.average_recall_J[1:] + self.average_recall_J[:-1]) / 2
        return float((heights_J * np.diff(self.average_number_J)).sum() / most) if most else 0.0

    def to_dict(self) -> dict[str, Any]:
        """AR, the area under its curve, recall at each tIoU, and the curve itself."""
        curve = {
            "proposals": self.average_number_J.tolist(),
            "average_recall": self.average_recall_J.tolist(),
            "recall": {f"{tiou:g}": row.tolist() for tiou, row in zip(TIOUS, self.recall_TJ, strict=True)},
        }
        average_recall = {f"AR@{number}": self.average_recall_at(number) for number in REPORTED}
        return {**average_recall, "AUC": self.area(), "recall": self.recall(), "curve": curve}

    def per_video(self) -> dict[str, Floats]:
        """The share of each video's events that is covered, averaged over tIoU."""
        return {"proposal_recall": self.matched_VT.mean(axis=1) / np.maximum(self.events_V, 1)}

    def recall(self) -> dict[str, float]:
        """Recall at each tIoU with the largest allowance."""
        return {f"{tiou:g}": float(row[-1]) for tiou, row in zip(TIOUS, self.recall_TJ, strict=True)}


def score_proposals(
    predictions: EventFile, references: Sequence[EventFile], most: float | None = MOST_ON_AVERAGE
) -> ProposalScores:
    """Score proposals against the events of reference files.

    Args:
        predictions: Events with a `proposal_score`.
        references: The files whose events are pooled.
        most: The largest average number of proposals a video; None allows as many as there are.
    """
    videos = list(dict.fromkeys(video for file in references for video in file.videos_with_events))
    video_G = np.concatenate([position_in(videos, file) for file in references])
    interval_G2 = np.concatenate([file.intervals_E2 for file in references])
    most = len(predictions) / max(len(videos), 1) if most is None else most
    proposals = _ranked(predictions, videos, most)
    share_J = np.arange(1, 101) / 100.0 * (most * float(len(videos)) / max(int(proposals.length_V.sum()), 1))
    length_V = np.maximum(proposals.length_V, 1)
    cut_VJ = np.minimum((length_V[:, None] * share_J).astype(np.int64), length_V[:, None])
    first_TG = _first_hits(proposals, video_G, interval_G2, len(videos))
    covered_TJ = np.stack([(first_G[:, None] < cut_VJ[video_G]).sum(axis=0) for first_G in first_TG])
    at_most = first_TG < cut_VJ[video_G, -1]
    matched_VT = np.stack([np.bincount(video_G, weights=row, minlength=len(videos)) for row in at_most], axis=1)
    average_J = share_J * (proposals.length_V.sum() / max(len(videos), 1))
    events_V = np.bincount(video_G, minlength=len(videos))
    return ProposalScores(
        videos, average_J, covered_TJ / float(max(len(video_G), 1)), matched_VT.astype(np.float64), events_V
    )


@dataclass(frozen=True)
class ProposalResults:
    """Proposals scored twice: against the first reference file, as the paper's figure, and against all files pooled."""

    first: ProposalScores
    pooled: ProposalScores

    def to_dict(self) -> dict[str, Any]:
        """`{"first": {...}, "pooled": {...}}`, each as `ProposalScores.to_dict`."""
        return {"first": self.first.to_dict(), "pooled": self.pooled.to_dict()}


@dataclass(frozen=True)
class _Ranked:
    """Proposals of the scored videos; `rank_N` counts from the best score of a video, `length_V` how many it has."""

    video_N: Integers
    rank_N: Integers
    interval_N2: Floats
    length_V: Integers


def _ranked(predictions: EventFile, videos: Sequence[str], most: float) -> _Ranked:
    """Best score first; of equal scores the later in the file, as the release's reversed sort leaves short lists."""
    video_E = position_in(videos, predictions)
    order = np.lexsort((np.arange(len(video_E))[::-1], -predictions.scores_E, video_E))
    order = order[video_E[order] >= 0]
    video_N = video_E[order]
    available_V = np.bincount(video_N, minlength=len(videos))
    rank_N = np.arange(len(order)) - np.repeat(np.cumsum(available_V) - available_V, available_V)
    ratio = most * float(len(videos)) / max(len(predictions), 1)
    length_V = np.minimum((available_V * ratio).astype(np.int64), available_V)
    kept = rank_N < length_V[video_N]
    return _Ranked(video_N[kept], rank_N[kept], predictions.intervals_E2[order][kept], length_V)


def _first_hits(proposals: _Ranked, video_G: Integers, interval_G2: Floats, videos: int) -> Integers:
    """T x G: the rank of the first proposal that reaches the tIoU with the event."""
    event_N, proposal_N = pairs_within_videos(video_G, proposals.video_N, videos)
    start_N, end_N = interval_G2[event_N].T
    proposal_start_N, proposal_end_N = proposals.interval_N2[proposal_N].T
    with np.errstate(over="ignore", invalid="ignore"):  # times near the largest number overlap nothing
        shared_N = np.maximum(np.minimum(end_N, proposal_end_N) - np.maximum(start_N, proposal_start_N), 0.0)
        union_N = (proposal_end_N - proposal_start_N) + (end_N - start_N) - shared_N
        iou_N = np.divide(shared_N, union_N, out=np.zeros_like(shared_N), where=union_N != 0)
    first_TG = np.full((len(TIOUS), len(video_G)), _NEVER)
    for tiou, first_G in zip(TIOUS, first_TG, strict=True):
        hit = iou_N >= tiou
        np.minimum.at(first_G, event_N[hit], proposals.rank_N[proposal_N[hit]])
    return first_TG
