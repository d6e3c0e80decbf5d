"""How much two intervals overlap, as the captioning and SODA protocols measure it, for all pairs inside each video.

IoU = intersection / (min(hull, sum of the lengths) + 1e-8), of the times as they stand: an exact copy scores just below
1, and a reversed interval overlaps nothing. (The proposal protocol has its own, without the epsilon.)
"""

from __future__ import annotations

import numpy as np

from densevid.evaluation.files import Floats, Integers
from densevid.evaluation.metrics.ngrams import ragged_ranges

EPSILON = 1e-8


def pairs_within_videos(left_video_N: Integers, right_video_M: Integers, videos: int) -> tuple[Integers, Integers]:
    """Every (left, right) event pair of the same video; pairs of one left event stand together, in order."""
    by_video = np.argsort(right_video_M, kind="stable")
    count_V = np.bincount(right_video_M, minlength=videos)
    first_V = np.cumsum(count_V) - count_V
    left, place = ragged_ranges(first_V[left_video_N], count_V[left_video_N])
    return left, by_video[place]


def interval_iou(predicted_N2: Floats, reference_N2: Floats) -> Floats:
    """IoU of each predicted interval with the reference interval beside it."""
    predicted_start, predicted_end = predicted_N2.T
    start, end = reference_N2.T
    with np.errstate(over="ignore", invalid="ignore"):  # times near the largest number overlap nothing
        shared = np.maximum(np.minimum(end, predicted_end) - np.maximum(start, predicted_start), 0.0)
        hull = np.maximum(end, predicted_end) - np.minimum(start, predicted_start)
        union = np.minimum(hull, end - start + predicted_end - predicted_start) + EPSILON
        iou = np.divide(shared, union, out=np.zeros_like(shared), where=union != 0)
    return np.where(np.isnan(iou), 0.0, iou)
