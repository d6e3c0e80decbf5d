"""What goes into captioning, one video at a time, and what comes out of it, in steps, before it becomes events.

Tracks of a batch on their way to the device: side by side, zeros where one is shorter, and how long each is.

On a GPU a batch travels on a queue of its own, from memory that the device can fetch by itself, while it still works
on the batch before. What is stored in half precision travels so, half the bytes, and becomes float32 over there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.compat import PaperBehavior
from densevid.inference.nms import Lengths
from densevid.tracks import Clock


@dataclass(frozen=True)
class ModelInput:
    """What the network reads of a track, found to be numbers, and the clock that times it. Half precision stays."""

    values_TF: npt.NDArray[np.float16] | npt.NDArray[np.float32]
    clock: Clock


@dataclass(frozen=True)
class ModelInputs:
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


def split_by_video(
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


@dataclass(frozen=True)
class DeviceBatch:
    """Features B x T x F; `lengths_3B` as `Lengths` has them; whether any video is shorter than T."""

    features_BTF: Tensor
    lengths_3B: Tensor
    padded: bool

    @property
    def lengths(self) -> Lengths:
        """Of every video."""
        return Lengths(*self.lengths_3B)


class DeviceUploader:
    """Sends batches to a device; videos are padded to a multiple of `multiple` steps, at most to the window."""

    def __init__(self, behavior: PaperBehavior, device: torch.device) -> None:
        self.behavior, self.device, self.window = behavior, device, behavior.config.model.window
        self.queue = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, reads: list[ModelInput], multiple: int = 1) -> DeviceBatch:
        """All videos padded to the longest; call `arrived` before anything is computed."""
        steps = [len(read.values_TF) for read in reads]
        read_steps = [self.behavior.steps_read(count) for count in steps]
        longest = max(max(read_steps), min(-(-max(read_steps) // multiple) * multiple, self.window))
        half = all(read.values_TF.dtype == np.float16 for read in reads)
        shape = (len(reads), longest, reads[0].values_TF.shape[1])
        features_BTF = torch.empty(shape, dtype=torch.half if half else None, pin_memory=self.queue is not None)
        for row_TF, read in zip(features_BTF.numpy(), reads, strict=True):
            _copied(row_TF[: len(read.values_TF)], read, alone=len(reads) == 1)
            row_TF[len(read.values_TF) :] = 0
        ends = [self.behavior.end(count, read.clock.seconds_per_step) for count, read in zip(steps, reads, strict=True)]
        lengths_3B = torch.tensor([steps, read_steps, ends], dtype=torch.float64)
        if self.device.type == "mps":  # Apple's GPUs have no float64
            lengths_3B = lengths_3B.float()
        with nullcontext() if self.queue is None else torch.cuda.stream(self.queue):
            sent = [self._sent(values) for values in (features_BTF, lengths_3B)]
            return DeviceBatch(sent[0].float(), sent[1], min(read_steps) < longest)

    def arrived(self, uploaded: DeviceBatch) -> DeviceBatch:
        """What is computed from now on waits for it."""
        if self.queue is not None:
            now = torch.cuda.current_stream(self.device)
            now.wait_stream(self.queue)
            for values in (uploaded.features_BTF, uploaded.lengths_3B):
                values.record_stream(now)
        return uploaded

    def _sent(self, values: Tensor) -> Tensor:
        if self.queue is None:
            return values.to(self.device)
        return values.pin_memory().to(self.device, non_blocking=True)


def _copied(row_TF: npt.NDArray[Any], read: ModelInput, *, alone: bool) -> None:
    """By torch's threads, or, for one video, without: they would have to be woken first."""
    if alone:
        np.copyto(row_TF, read.values_TF)
    else:
        torch.from_numpy(row_TF).copy_(torch.from_numpy(read.values_TF))
