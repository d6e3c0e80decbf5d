"""What an anchor is called: by its number in the grid of its video's own steps, whatever company the video has.

In a batch the grid reaches over the steps of the longest video, and the anchors of every kernel size but the first are
counted from further on. Those numbers do not leave `finder.py`: what is selected, chosen and reported has its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.model.anchors import AnchorGrid


@dataclass(frozen=True)
class AnchorNumbers:
    """The number of every kernel size's first anchor: over the steps of a batch, and over each video's own."""

    shared_K: Tensor
    own_BK: Tensor

    def own(self, anchor_BN: Tensor) -> Tensor:
        """The own numbers of anchors of the batch; what is negative, and so no anchor, stays as it is."""
        kernel_BN = _kernel(self.shared_K, anchor_BN)
        return anchor_BN + (self.own_BK - self.shared_K).gather(1, kernel_BN)

    def shared(self, video_P: Tensor, anchor_P: Tensor) -> Tensor:
        """The numbers in the batch of anchors of some of its videos."""
        own_PK = self.own_BK[video_P]
        kernel_P1 = _kernel(own_PK, anchor_P[:, None])
        return anchor_P + (self.shared_K - own_PK).gather(1, kernel_P1)[:, 0]


class Counting:
    """Numbers the anchors of a grid on a device: nothing is sent there, so that it can be replayed."""

    def __init__(self, grid: AnchorGrid, device: torch.device) -> None:
        self.kernel_K, self.stride_K = (torch.tensor(sizes, device=device) for sizes in (grid.kernels, grid.strides))

    def __call__(self, shared_steps: int, own_steps_B: Tensor) -> AnchorNumbers:
        """For a batch of so many steps, and the steps that are read of each of its videos."""
        own_B1 = own_steps_B.long()[:, None]
        return AnchorNumbers(self._first(torch.full_like(own_B1[0], shared_steps)), self._first(own_B1))

    def _first(self, steps: Tensor) -> Tensor:
        """As `AnchorGrid.counts` has it, summed over the kernel sizes before each."""
        counts = (((steps - self.kernel_K) // self.stride_K) + 1).clamp(min=0)
        return counts.cumsum(dim=-1) - counts


def _kernel(first: Tensor, anchor: Tensor) -> Tensor:
    """Which kernel size an anchor is of: the last that begins no later, as one without anchors has the next's first."""
    return (torch.searchsorted(first, anchor.contiguous(), right=True) - 1).clamp(min=0)
