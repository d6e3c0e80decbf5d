"""Intervals (start, end) as whole tensors: temporal IoU and suppression."""

from __future__ import annotations

import torch
from torch import Tensor


def temporal_iou(first_N2: Tensor, second_M2: Tensor) -> Tensor:
    """Intersection over union of every interval with every other, N x M; two empty intervals give 0."""
    start_NM = torch.maximum(first_N2[..., :, None, 0], second_M2[..., None, :, 0])
    end_NM = torch.minimum(first_N2[..., :, None, 1], second_M2[..., None, :, 1])
    shared_NM = (end_NM - start_NM).clamp(min=0)
    length_N = (first_N2[..., 1] - first_N2[..., 0])[..., :, None]
    length_M = (second_M2[..., 1] - second_M2[..., 0])[..., None, :]
    union_NM = length_N + length_M - shared_NM
    return shared_NM / torch.where(union_NM > 0, union_NM, 1.0)


def suppress(overlapping_NN: Tensor) -> Tensor:
    """Greedy suppression: keep i unless a kept, earlier j overlaps it. `overlapping_NN[i, j]` says i loses to j.

    Rows stand in order of preference. The decision of row i depends on earlier rows alone, so repeating
    keep = not any(overlapping and keep) settles one more row of every chain each time and ends at the greedy answer:
    as many whole-tensor rounds as the longest chain of overlaps, no loop over rows.
    """
    earlier_NN = overlapping_NN.tril(diagonal=-1)
    keep_N = overlapping_NN.new_ones(overlapping_NN.shape[:-1], dtype=torch.bool)
    while True:
        again_N = ~(earlier_NN & keep_N[..., None, :]).any(dim=-1)
        if torch.equal(again_N, keep_N):
            return keep_N
        keep_N = again_N
