"""The one anchor grid, and how offsets turn anchors into intervals and back.

An anchor is a fixed (center, length) in steps. Kernel size k slides over T steps with stride ceil(k / s), so its
anchors have length k and centers k/2, k/2 + stride, ... The grid lists kernel after kernel, each from left to right:
the order in which the proposal decoder's heads write their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_LOG_STRETCH = math.log(500)  # from one step to a whole window: no anchor needs more, and exp cannot overflow


@dataclass(frozen=True)
class AnchorGrid:
    """Kernel sizes and their strides; everything about anchors follows from them and the number of steps."""

    kernels: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, kernels: Sequence[int], stride_factor: int | None) -> AnchorGrid:
        """Stride ceil(kernel / stride_factor), or always 1 without a factor (ProcNets)."""
        strides = (1 if stride_factor is None else math.ceil(kernel / stride_factor) for kernel in kernels)
        return cls(tuple(kernels), tuple(strides))

    def counts(self, steps: int) -> list[int]:
        """How many anchors each kernel has over `steps` steps; a kernel longer than the video has none."""
        sizes = zip(self.kernels, self.strides, strict=True)
        return [max(0, (steps - kernel) // stride + 1) for kernel, stride in sizes]

    def within(self, lengths_B: Tensor, steps: int) -> list[Tensor]:
        """Which of each kernel's anchors over `steps` steps end within each video: B x anchors, one per kernel."""
        rows = zip(self.kernels, self.strides, self.counts(steps), strict=True)
        return [
            torch.arange(count, device=lengths_B.device) * stride + kernel <= lengths_B[:, None]
            for kernel, stride, count in rows
        ]

    def anchors(self, steps: int, device: torch.device | None = None) -> Tensor:
        """All anchors over `steps` steps as A x 2: center, length."""
        rows = zip(self.kernels, self.strides, self.counts(steps), strict=True)
        parts = [
            torch.stack((torch.arange(count) * stride + kernel / 2, torch.full((count,), float(kernel))), dim=-1)
            for kernel, stride, count in rows
        ]
        return torch.cat(parts).to(device)


def anchor_intervals(anchors_A2: Tensor) -> Tensor:
    """(center, length) -> (start, end)."""
    center, length = anchors_A2.unbind(-1)
    return torch.stack((center - length / 2, center + length / 2), dim=-1)


def apply_offsets(anchors_A2: Tensor, offsets_A2: Tensor) -> Tensor:
    """Intervals of proposals: c_p = c_a + theta_c l_a, l_p = l_a exp(theta_l), (c_p - l_p / 2, c_p + l_p / 2)."""
    center, length = anchors_A2.unbind(-1)
    shift, log_stretch = offsets_A2.unbind(-1)
    proposed = torch.stack((center + shift * length, length * log_stretch.clamp(max=MOST_LOG_STRETCH).exp()), dim=-1)
    return anchor_intervals(proposed)


def offsets_to(anchors_A2: Tensor, intervals_A2: Tensor) -> Tensor:
    """The offsets that move anchors onto intervals: the inverse of `apply_offsets`."""
    center, length = anchors_A2.unbind(-1)
    start, end = intervals_A2.unbind(-1)
    shift = ((start + end) / 2 - center) / length
    return torch.stack((shift, ((end - start) / length).log()), dim=-1)
