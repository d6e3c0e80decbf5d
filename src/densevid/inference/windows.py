"""Long videos: overlapping windows as long as the model reads, and one list of events out of what each window proposes.

Windows follow each other by half of their length, so an event of up to half a window is whole in one of them. What is
proposed at a border where the video goes on is cut there and is left to the neighbour that sees the rest; what two
windows propose alike is kept once. Steps are those of the whole video from here on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from densevid.intervals import temporal_iou
from densevid.tracks import Clock, FeatureTrack

NEAR_A_BORDER = 1 / 120  # of a window: what reaches closer to a border is cut by it
PAIRS_AT_ONCE = 1 << 24  # of proposals of neighbouring windows whose overlap is in memory together


@dataclass(frozen=True)
class Windows:
    """Where the windows of a video of `steps` steps begin, in order, each `size` steps long; `size` <= `steps`."""

    starts: tuple[int, ...]
    size: int
    steps: int

    @classmethod
    def over(cls, steps: int, window: int, *, shift: int = 0) -> Windows:
        """As few as follow each other by half a window; `shift` moves all but the first and the last to the right."""
        if steps <= window:
            return cls((0,), steps, steps)
        hop = max(1, window // 2)
        between = range(shift or hop, steps - window, hop)
        return cls((0, *between, steps - window), window, steps)

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, track: FeatureTrack, number: int) -> FeatureTrack:
        """One window of a track, a view: nothing is read. Its clock begins at 0, as that of a video of its own."""
        first = self.starts[number]
        clock = track.clock
        if clock.edges is not None:
            clock = Clock.from_edges(clock.edges[first : first + self.size + 1] - clock.edges[first])
        return FeatureTrack(track.values[first : first + self.size], clock, track.streams, track.recipe)

    def starts_W(self, like: Tensor) -> Tensor:
        """The starts as a tensor beside another."""
        return torch.tensor(self.starts, dtype=like.dtype, device=like.device)


def merge(windows: Windows, intervals_WP2: Tensor, score_WP: Tensor, kept_WP: Tensor, alike: float) -> Tensor:
    """Which proposals of all windows remain, W x P: whole ones, each once. `intervals_WP2` are steps of the video.

    `alike` is the IoU from which two proposals are the same event; the better scored one stays, the earlier of equals.
    """
    kept_WP = kept_WP & ~cut(windows, intervals_WP2)
    lost_WP = torch.zeros_like(kept_WP)
    proposals = max(1, kept_WP.shape[1])
    pieces = torch.arange(len(windows), device=kept_WP.device).split(max(1, PAIRS_AT_ONCE // proposals**2))
    for distance in range(1, _reach(windows) + 1):
        for first in pieces:
            first = first[first < len(windows) - distance]
            second = first + distance
            same = temporal_iou(intervals_WP2[first], intervals_WP2[second]) >= alike
            same &= kept_WP[first][:, :, None] & kept_WP[second][:, None, :]
            first_better = score_WP[first][:, :, None] >= score_WP[second][:, None, :]
            lost_WP[first] |= (same & ~first_better).any(dim=2)
            lost_WP[second] |= (same & first_better).any(dim=1)
    return kept_WP & ~lost_WP


def cut(windows: Windows, intervals_WP2: Tensor) -> Tensor:
    """Which proposals touch a border where the video goes on, though they are short enough to be whole elsewhere."""
    start_W1 = windows.starts_W(intervals_WP2)[:, None]
    near = windows.size * NEAR_A_BORDER
    start_WP, end_WP = intervals_WP2.unbind(-1)
    at_start_WP = (start_WP <= start_W1 + near) & (start_W1 > 0)
    at_end_WP = (end_WP >= start_W1 + windows.size - near) & (start_W1 < windows.steps - windows.size)
    return (at_start_WP | at_end_WP) & (end_WP - start_WP <= windows.size // 2)


def _reach(windows: Windows) -> int:
    """How many windows after one can share a step with it."""
    starts = np.asarray(windows.starts)
    later = np.searchsorted(starts, starts + windows.size, side="left") - np.arange(len(starts)) - 1
    return int(later.max())
