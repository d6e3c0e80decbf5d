"""Features by row number: what a composed video shows, as rows of one large table of features.

A training video composed of clips is, step by step, a row of the clips' feature table, plus a second row and a weight
where two clips dissolve into each other. `FeatureRows` holds these numbers for one video and `BatchRows` for a batch.
Loader processes can therefore hand over a few integers per step instead of features: `DeviceFeatureTable` keeps the
table on the GPU and gathers and blends a whole batch there. `FeatureRows.blended` is the same on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.tracks import FloatArray

Rows = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The table row of each of T steps; for the S steps inside dissolves, a second row and its weight.

    Attributes:
        row_T: Row shown at each step.
        step_S: Steps that lie in a dissolve.
        other_S: The row blended into each of these steps.
        weight_S: Weight of that second row, between 0 and 1.
    """

    row_T: Rows
    step_S: Rows
    other_S: Rows
    weight_S: Weights

    @classmethod
    def between(cls, first: int, last: int) -> FeatureRows:
        """Rows `first .. last` in order, without any dissolve."""
        empty = np.empty(0, dtype=np.int64)
        return cls(np.arange(first, last), empty, empty, np.empty(0, dtype=np.float32))

    def __len__(self) -> int:
        return len(self.row_T)

    def cut(self, steps: int) -> FeatureRows:
        """The first `steps` steps."""
        kept = self.step_S < steps
        return FeatureRows(self.row_T[:steps], self.step_S[kept], self.other_S[kept], self.weight_S[kept])

    def blended(self, features: FloatArray) -> FloatArray:
        """Look the rows up in `features` (rows x width): T x width, in the dtype of `features`."""
        values_TF = features[self.row_T]
        if len(self.step_S):
            mixed = blend(values_TF[self.step_S], features[self.other_S], self.weight_S)
            values_TF[self.step_S] = mixed.astype(values_TF.dtype)
        return values_TF


@dataclass(frozen=True, eq=False)
class BatchRows:
    """`FeatureRows` of a batch: rows B x T, -1 at padded steps; dissolves by their index in the flattened B x T."""

    row_BT: Tensor
    place_S: Tensor
    other_S: Tensor
    weight_S: Tensor

    @classmethod
    def of(cls, videos: Sequence[FeatureRows], window: int) -> BatchRows:
        """Collate the rows of several videos, padded to `window` steps."""
        row_BT = np.full((len(videos), window), -1)
        for number, rows in enumerate(videos):
            row_BT[number, : len(rows)] = rows.row_T
        place_S = np.concatenate([number * window + rows.step_S for number, rows in enumerate(videos)])
        other_S = np.concatenate([rows.other_S for rows in videos])
        weight_S = np.concatenate([rows.weight_S for rows in videos])
        return cls(*map(torch.from_numpy, (row_BT, place_S, other_S, weight_S)))


class DeviceFeatureTable:
    """A feature table on a device, float16 if it is stored so and float32 otherwise, with a zero row at its end."""

    def __init__(self, features_RF: FloatArray, device: torch.device) -> None:
        precision = np.float16 if features_RF.dtype == np.float16 else np.float32
        table_RF = np.zeros((len(features_RF) + 1, features_RF.shape[1]), precision)
        table_RF[:-1] = features_RF
        self.table_RF = torch.from_numpy(table_RF).to(device)

    def gather(self, rows: BatchRows) -> Tensor:
        """B x T x F: what `FeatureRows.blended` gives for each video, zeros at padded steps."""
        row_N = rows.row_BT.flatten() % len(self.table_RF)  # -1 becomes the last row, which is zero
        values_NF = self.table_RF.index_select(0, row_N)
        mixed_SF = blend_tensors(values_NF[rows.place_S], self.table_RF[rows.other_S], rows.weight_S)
        values_NF[rows.place_S] = mixed_SF.to(values_NF.dtype)
        return values_NF.view(*rows.row_BT.shape, -1)


def blend(main_SF: FloatArray, other_SF: FloatArray, weight_S: npt.NDArray[np.floating]) -> FloatArray:
    """Interpolate between feature vectors, in length as well as in direction: see `blend_tensors`."""
    main, other, weight = (torch.from_numpy(np.asarray(part, np.float32)) for part in (main_SF, other_SF, weight_S))
    return blend_tensors(main, other, weight).numpy()


def blend_tensors(main_SF: Tensor, other_SF: Tensor, weight_S: Tensor) -> Tensor:
    """Interpolate between feature vectors, computed in float32.

    The result is rescaled to the interpolated length: a plain mean of two different vectors is shorter than both, and
    a network could recognise a dissolve by that alone.
    """
    main, other, weight = main_SF.float(), other_SF.float(), weight_S[:, None].float()
    mixed = (1 - weight) * main + weight * other
    wanted = (1 - weight) * _length(main) + weight * _length(other)
    return mixed * (wanted / _length(mixed).clamp(min=torch.finfo(torch.float32).tiny))


def _length(values_SF: Tensor) -> Tensor:
    return torch.linalg.vector_norm(values_SF, dim=1, keepdim=True)
