"""How much a video stirs: whether anything happens between two steps of it, as its features tell.

A photograph that stays has the features of what it shows, and a network may take it for an event; that its features
stand still is what gives it away. This is one of the things a confidence can be fitted to (`calibration`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

LEAST, ENOUGH = 1e-2, 1e-1  # of the size of the features: less is as little, and more says no more


def stirred(values_TF: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    """The changes from step to step, relative to the size of the features and added up: T numbers, the first 0."""
    values = np.asarray(values_TF, dtype=np.float32)
    size = max(float(np.linalg.norm(values, axis=1).mean()), 1e-12)
    change_T = np.concatenate([[0.0], np.linalg.norm(np.diff(values, axis=0), axis=1) / size])
    return np.cumsum(change_T).astype(np.float32)


def stir_of(spans_BK2: Tensor, stirred_BT: Tensor) -> Tensor:
    """The logarithm of the mean change inside each span, B x K; all that stirs enough is alike."""
    last = stirred_BT.shape[1] - 1
    first_BK = spans_BK2[..., 0].round().long().clamp(0, last)
    last_BK = (spans_BK2[..., 1].round().long() - 1).clamp(0, last).maximum(first_BK)
    change_BK = stirred_BT.gather(1, last_BK) - stirred_BT.gather(1, first_BK)
    return (change_BK / (last_BK - first_BK).clamp(min=1)).clamp(LEAST, ENOUGH).log()
