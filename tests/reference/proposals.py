"""Average recall of proposals as plain loops, written from the description of the release's script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

TIOUS = np.linspace(0.5, 0.95, 10)


def average_recall(
    results: dict[str, Any], references: Sequence[Any], most: float = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Recall at 10 tIoUs and 100 cuts, and the average number of proposals at each cut.

    Each video's list, best score first, is cut at floor(its length x a share), the same share for all videos.
    """
    golds: dict[str, list[list[float]]] = {}
    for file in references:
        for video, entry in file.items():
            if entry["timestamps"]:
                golds.setdefault(video, []).extend(entry["timestamps"])
    ratio = most * float(len(golds)) / max(sum(map(len, results.values())), 1)
    proposals = {}
    for video in golds:
        best_first = sorted(results.get(video, []), key=lambda event: event["proposal_score"], reverse=True)
        proposals[video] = [event["timestamp"] for event in best_first[: math.floor(len(best_first) * ratio)]]
    total = sum(map(len, proposals.values()))
    share = [k / 100.0 * (most * float(len(golds)) / max(total, 1)) for k in range(1, 101)]
    covered = np.zeros((10, 100))
    for video, times in golds.items():
        length = max(len(proposals[video]), 1)
        for cut, part in enumerate(share):
            allowed = proposals[video][: min(math.floor(length * part), length)]
            for gold in times:
                best = max((iou(proposal, gold) for proposal in allowed), default=-1.0)
                covered[:, cut] += best >= TIOUS
    events = sum(map(len, golds.values()))
    return covered / max(events, 1), np.array(share) * (total / max(len(golds), 1))


def iou(proposal: Sequence[float], gold: Sequence[float]) -> float:
    """Without an epsilon, unlike the captioning protocols."""
    shared = max(0.0, min(proposal[1], gold[1]) - max(proposal[0], gold[0]))
    union = (proposal[1] - proposal[0]) + (gold[1] - gold[0]) - shared
    return shared / union if union else 0.0
