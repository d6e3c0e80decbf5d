"""What a confidence may ask of the steps of an event: how much it stirs, and whether anything happens in it.

Either is one number a step, and its running total is all that is kept of a video.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.inference.captioned_video import ReadVideos
from densevid.inference.stir import stir_of, stirred
from densevid.model.happening import Happening

STIR, HAPPENING = "stir", "happening"
Total = Callable[[npt.NDArray[np.floating]], npt.NDArray[np.float32]]


def totals_of(asked: Sequence[str], happening: Happening | None) -> dict[str, Total]:
    """How the running total of each of some things is computed from features."""
    if HAPPENING in asked and happening is None:
        raise InputError("the model's confidence asks whether anything happens, but happening.safetensors is missing")
    known: dict[str, Total] = {STIR: stirred}
    if happening is not None:
        known[HAPPENING] = lambda values_TF: happened(happening, values_TF)
    return {name: known[name] for name in asked}


def side_by_side(totals: Sequence[npt.NDArray[np.float32]], device: torch.device) -> Tensor:
    """B x T; a video that has ended adds no more."""
    longest = max(len(total_T) for total_T in totals)
    rows = [np.pad(total_T, (0, longest - len(total_T)), "edge") for total_T in totals]
    return torch.from_numpy(np.stack(rows)).to(device)


def step_columns(spans_BK2: Tensor, read: ReadVideos) -> dict[str, Tensor]:
    """What was asked, of each span, B x K each."""
    found: dict[str, Tensor] = {}
    if STIR in read.totals:
        found[STIR] = stir_of(spans_BK2, read.totals[STIR])
    if HAPPENING in read.totals:
        found[HAPPENING] = happening_of(spans_BK2, read.totals[HAPPENING], read.steps_B)
    return found


def happened(happening: Happening, values_TF: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    """Row t is the sum over all steps before t, T + 1 of them."""
    return np.concatenate([[0.0], happening.of_steps(values_TF).cumsum(dtype=np.float64)]).astype(np.float32)


def happening_of(spans_BK2: Tensor, happened_BT: Tensor, steps_B: Tensor) -> Tensor:
    """The logit that anything happens in each span of a video of `steps_B` steps, B x K."""
    end_B1 = steps_B[:, None]
    first_BK = spans_BK2[..., 0].round().long().clamp(min=0).minimum(end_B1 - 1)
    last_BK = spans_BK2[..., 1].round().long().minimum(end_B1).maximum(first_BK + 1)
    sum_BK = happened_BT.gather(1, last_BK) - happened_BT.gather(1, first_BK)
    return sum_BK / (last_BK - first_BK)
