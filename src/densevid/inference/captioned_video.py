"""What goes into captioning, one video at a time, and what comes out of it, in steps, before it becomes events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.events import Event
from densevid.tracks import Clock


@dataclass(frozen=True)
class ReadTrack:
    """What the network reads of a track, found to be numbers, and the clock that times it. Half precision stays."""

    values_TF: npt.NDArray[np.float16] | npt.NDArray[np.float32]
    clock: Clock


@dataclass(frozen=True)
class ReadVideos:
    """Of the videos of a batch the steps that are read, and of each thing that a confidence asks of them its running
    total, B x T.
    """

    steps_B: Tensor
    totals: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class CaptionedVideo:
    """The events of one video as they were found, in order of selection: anchor, score, and interval in steps.

    `log_probability_P` is the mean over a sentence's words; `first_P` is the first step of the window that it was found
    in; `anchor_P` is a number of the grid over the steps read of that window, -1 where no anchor proposed the event.
    """

    clock: Clock
    anchor_P: npt.NDArray[np.int64]
    first_P: npt.NDArray[np.int64]
    score_P: npt.NDArray[np.float64]
    reported_P2: npt.NDArray[np.float64]
    log_probability_P: npt.NDArray[np.float64]
    sentences: list[str]

    def events(self) -> list[Event]:
        """The same in seconds."""
        rows = zip(self.clock.seconds(self.reported_P2).tolist(), self.sentences, self.score_P.tolist(), strict=True)
        return [Event(start, end, sentence, score) for (start, end), sentence, score in rows]


def require_numbers(log_probability_P: Tensor, precision: str) -> None:
    """Refuse what was said where the network computed no numbers: it would be events without a word."""
    if bool(log_probability_P.isfinite().all()):
        return
    if precision == "float16":
        raise InputError("this model computes numbers too large for float16; use bfloat16 or float32")
    raise InputError("its features are too large for this model; were they made for another?")


def deal_out(
    clocks: Sequence[Clock],
    video_P: Tensor,
    chosen: tuple[Tensor, Tensor, Tensor],
    sentences: list[str],
    log_probability_P: Tensor,
) -> list[CaptionedVideo]:
    """Events of several videos, sorted by video, one record a video; `chosen` are anchors, scores and intervals."""
    counts = torch.bincount(video_P, minlength=len(clocks)).cpu().numpy()
    borders = [0, *counts.cumsum().tolist()]
    anchor_P = chosen[0].cpu().numpy().copy()  # a view would keep memory that a GPU fetches from
    first_P = np.zeros_like(anchor_P)
    score_P, reported_P2, log_P = (
        values.cpu().numpy().astype(np.float64) for values in (chosen[1], chosen[2], log_probability_P)
    )
    return [
        CaptionedVideo(
            clock,
            anchor_P[own],
            first_P[own],
            score_P[own],
            reported_P2[own],
            log_P[own],
            sentences[own.start : own.stop],
        )
        for clock, own in zip(clocks, (slice(*pair) for pair in pairwise(borders)), strict=True)
    ]
