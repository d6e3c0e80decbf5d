"""The footage of composed videos by its rows: blended here, or on the device where all the footage lies.

A plan says which clips a video shows. As rows of the footage it is a few numbers a step, so loading processes need not
touch the features at all: `ResidentFootage` gathers and blends whole batches on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.timelines.plan import TimelinePlan
from densevid.tracks import FloatArray

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FootageRows:
    """The row that each of T steps shows; and for S steps in dissolves another that shines through, with its weight."""

    row_T: Rows
    step_S: Rows
    other_S: Rows
    weight_S: npt.NDArray[np.float32]

    @classmethod
    def of(cls, plan: TimelinePlan) -> FootageRows:
        """The rows of a plan."""
        shown = [shot.clip.first_row + np.arange(shot.first, shot.first + shot.ticks) for shot in plan.shots]
        return cls(np.concatenate(shown), *_ghosts(plan))

    @classmethod
    def between(cls, first: int, last: int) -> FootageRows:
        """Footage as it is."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(np.arange(first, last), nothing, nothing, np.empty(0, dtype=np.float32))

    def __len__(self) -> int:
        return len(self.row_T)

    def cut(self, steps: int) -> FootageRows:
        """The first steps alone."""
        kept = self.step_S < steps
        return FootageRows(self.row_T[:steps], self.step_S[kept], self.other_S[kept], self.weight_S[kept])

    def blended(self, features: FloatArray) -> FloatArray:
        """The features, in the precision of the footage."""
        values_TF = features[self.row_T]
        if len(self.step_S):
            mixed = blend(values_TF[self.step_S], features[self.other_S], self.weight_S)
            values_TF[self.step_S] = mixed.astype(values_TF.dtype)
        return values_TF


def blend(main_TF: FloatArray, ghost_TF: FloatArray, weight_T: npt.NDArray[np.floating]) -> FloatArray:
    """Between two feature vectors, with the length that lies between theirs.

    A plain mean of two unlike vectors is shorter than both, and its length would give the dissolve away.
    """
    main, ghost, weight = (torch.from_numpy(np.asarray(part, np.float32)) for part in (main_TF, ghost_TF, weight_T))
    return blend_tensors(main, ghost, weight).numpy()


def blend_tensors(main_SF: Tensor, ghost_SF: Tensor, weight_S: Tensor) -> Tensor:
    """The same of tensors, computed in float32."""
    main, ghost, weight = main_SF.float(), ghost_SF.float(), weight_S[:, None].float()
    mixed = (1 - weight) * main + weight * ghost
    wanted = (1 - weight) * _length(main) + weight * _length(ghost)
    return mixed * (wanted / _length(mixed).clamp(min=torch.finfo(torch.float32).tiny))


def _length(values_SF: Tensor) -> Tensor:
    return torch.linalg.vector_norm(values_SF, dim=1, keepdim=True)


def _ghosts(plan: TimelinePlan) -> tuple[Rows, Rows, npt.NDArray[np.float32]]:
    """For every step of a dissolve: the step, the row of the other shot that shines through, and its weight.

    Before the joint that is the next shot before its beginning, after it the last one beyond its end; a clip that has
    no more footage there goes on at its other end.
    """
    starts, nothing = plan.starts, np.empty(0, dtype=np.int64)
    steps, rows, weights = [nothing], [nothing], [np.empty(0)]
    for dissolve in plan.dissolves:
        before, after, joint = plan.shots[dissolve.shot - 1], plan.shots[dissolve.shot], starts[dissolve.shot]
        step = np.arange(dissolve.start, dissolve.start + dissolve.ticks)
        arrived = (step - dissolve.start + 0.5) / dissolve.ticks
        coming = after.clip.first_row + (after.first + step - joint) % after.clip_ticks
        going = before.clip.first_row + (before.first + before.ticks + step - joint) % before.clip_ticks
        steps.append(step)
        rows.append(np.where(step < joint, coming, going))
        weights.append(np.where(step < joint, arrived, 1 - arrived))
    return np.concatenate(steps), np.concatenate(rows), np.concatenate(weights).astype(np.float32)


@dataclass(frozen=True, eq=False)
class BatchRows:
    """The rows of videos side by side: B x T, -1 where there is no video; dissolves by their place in B x T."""

    row_BT: Tensor
    place_S: Tensor
    other_S: Tensor
    weight_S: Tensor

    @classmethod
    def of(cls, videos: Sequence[FootageRows], window: int) -> BatchRows:
        """Padded to the window."""
        row_BT = np.full((len(videos), window), -1)
        for number, rows in enumerate(videos):
            row_BT[number, : len(rows)] = rows.row_T
        place_S = np.concatenate([number * window + rows.step_S for number, rows in enumerate(videos)])
        other_S = np.concatenate([rows.other_S for rows in videos])
        weight_S = np.concatenate([rows.weight_S for rows in videos])
        return cls(*map(torch.from_numpy, (row_BT, place_S, other_S, weight_S)))


class ResidentFootage:
    """All footage of a collection on a device and a row of zeros: float16 where it is stored so, else float32."""

    def __init__(self, features_RF: FloatArray, device: torch.device) -> None:
        precision = np.float16 if features_RF.dtype == np.float16 else np.float32
        table_RF = np.zeros((len(features_RF) + 1, features_RF.shape[1]), precision)
        table_RF[:-1] = features_RF
        self.table_RF = torch.from_numpy(table_RF).to(device)

    def shown(self, rows: BatchRows) -> Tensor:
        """B x T x F: what `FootageRows.blended` gives of each video, then zeros."""
        row_N = rows.row_BT.flatten() % len(self.table_RF)  # -1 is the last, which is zero
        values_NF = self.table_RF.index_select(0, row_N)
        mixed_SF = blend_tensors(values_NF[rows.place_S], self.table_RF[rows.other_S], rows.weight_S)
        values_NF[rows.place_S] = mixed_SF.to(values_NF.dtype)
        return values_NF.view(*rows.row_BT.shape, -1)
