"""Operations on intervals (start, end) as tensors: temporal IoU and non-maximum suppression."""

from __future__ import annotations

import torch
from torch import Tensor


def temporal_iou(first_N2: Tensor, second_M2: Tensor) -> Tensor:
    """Temporal intersection over union of all pairs of intervals.

    Args:
        first_N2: Starts and ends; leading batch axes are allowed.
        second_M2: Starts and ends, with the same batch axes.

    Returns:
        N x M; 0 for two empty intervals.
    """
    start_NM = torch.maximum(first_N2[..., :, None, 0], second_M2[..., None, :, 0])
    end_NM = torch.minimum(first_N2[..., :, None, 1], second_M2[..., None, :, 1])
    shared_NM = (end_NM - start_NM).clamp(min=0)
    length_N = (first_N2[..., 1] - first_N2[..., 0])[..., :, None]
    length_M = (second_M2[..., 1] - second_M2[..., 0])[..., None, :]
    union_NM = length_N + length_M - shared_NM
    return shared_NM / torch.where(union_NM > 0, union_NM, 1.0)


def suppress(overlapping_NN: Tensor) -> Tensor:
    """Greedy non-maximum suppression: keep row i unless an earlier row j that is kept overlaps it.

    Whether row i is kept depends on earlier rows alone, so iterating keep = not any(overlapping and keep) reaches the
    greedy solution after as many tensor operations as the longest chain of overlaps has rows, without a loop over rows.

    Args:
        overlapping_NN: Whether row i loses to row j if j is kept; rows in order of preference.

    Returns:
        Which rows are kept.
    """
    earlier_NN = overlapping_NN.tril(diagonal=-1)
    keep_N = overlapping_NN.new_ones(overlapping_NN.shape[:-1], dtype=torch.bool)
    while True:
        again_N = ~(earlier_NN & keep_N[..., None, :]).any(dim=-1)
        if torch.equal(again_N, keep_N):
            return keep_N
        keep_N = again_N
