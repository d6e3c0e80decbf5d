"""Tracks of a batch on their way to the device: side by side, zeros where one is shorter, and how long each is.

On a GPU a batch travels on a queue of its own, from memory that the device can fetch by itself, while it still works
on the batch before. What is stored in half precision travels so, half the bytes, and becomes float32 over there.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.inference.captioned_video import ReadTrack
from densevid.inference.rules import PaperRules
from densevid.inference.selection import Lengths


@dataclass(frozen=True)
class Uploaded:
    """Features B x T x F; `lengths_3B` as `Lengths` has them; whether any video is shorter than T."""

    features_BTF: Tensor
    lengths_3B: Tensor
    padded: bool

    @property
    def lengths(self) -> Lengths:
        """Of every video."""
        return Lengths(*self.lengths_3B)


class Uploads:
    """Sends batches to a device; videos are padded to a multiple of `multiple` steps, at most to the window."""

    def __init__(self, rules: PaperRules, device: torch.device) -> None:
        self.rules, self.device, self.window = rules, device, rules.config.model.window
        self.queue = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, reads: list[ReadTrack], multiple: int = 1) -> Uploaded:
        """All videos padded to the longest; call `arrived` before anything is computed."""
        steps = [len(read.values_TF) for read in reads]
        read_steps = [self.rules.steps_read(count) for count in steps]
        longest = max(max(read_steps), min(-(-max(read_steps) // multiple) * multiple, self.window))
        half = all(read.values_TF.dtype == np.float16 for read in reads)
        shape = (len(reads), longest, reads[0].values_TF.shape[1])
        features_BTF = torch.empty(shape, dtype=torch.half if half else None, pin_memory=self.queue is not None)
        for row_TF, read in zip(features_BTF.numpy(), reads, strict=True):
            _copied(row_TF[: len(read.values_TF)], read, alone=len(reads) == 1)
            row_TF[len(read.values_TF) :] = 0
        ends = [self.rules.end(count, read.clock.seconds_per_step) for count, read in zip(steps, reads, strict=True)]
        lengths_3B = torch.tensor([steps, read_steps, ends], dtype=torch.float64)
        if self.device.type == "mps":  # Apple's GPUs have no float64
            lengths_3B = lengths_3B.float()
        with nullcontext() if self.queue is None else torch.cuda.stream(self.queue):
            sent = [self._sent(values) for values in (features_BTF, lengths_3B)]
            return Uploaded(sent[0].float(), sent[1], min(read_steps) < longest)

    def arrived(self, uploaded: Uploaded) -> Uploaded:
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


def _copied(row_TF: npt.NDArray[Any], read: ReadTrack, *, alone: bool) -> None:
    """By torch's threads, or, for one video, without: they would have to be woken first."""
    if alone:
        np.copyto(row_TF, read.values_TF)
    else:
        torch.from_numpy(row_TF).copy_(torch.from_numpy(read.values_TF))
