"""Windows of a long video: overlapping, as long as the model reads; and the merging of what they propose.

A window begins where the features change more than anywhere within a quarter of a window around, and at most half a
window after the one before. So the places of windows follow from the content: a video that lost its first minute gets
the same windows from the second on. An event of up to half a window is whole in some window. A proposal that touches
the border of its window, where the video goes on, is dropped in favor of the neighbor that sees all of it; of proposals
of two windows that overlap enough, the better one is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.intervals import temporal_iou
from densevid.tracks import Clock, FeatureTrack

NEAR_A_BORDER = 1 / 120  # of a window: a proposal that comes closer to a border is cut by it
STEPS_AT_ONCE = 1 << 12  # of a track, read together to find its changes
PAIRS_AT_ONCE = 1 << 24  # of proposals of neighbouring windows whose overlap is in memory together


def exceeds(track: object, window: int) -> TypeGuard[FeatureTrack]:
    """Whether a track is longer than a window; a `ModelInput` never is."""
    return isinstance(track, FeatureTrack) and len(track) > window


@dataclass(frozen=True)
class Windows:
    """Where the windows of a video of `steps` steps begin, in order, each `size` steps long; `size` <= `steps`."""

    starts: tuple[int, ...]
    size: int
    steps: int

    @classmethod
    def over(cls, track: FeatureTrack, window: int) -> Windows:
        """One window for a track that fits into it, else as many as it takes."""
        steps = len(track)
        if steps <= window:
            return cls((0,), steps, steps)
        last, hop = steps - window, max(1, window // 2)
        changes = strongest_changes(track, reach=max(1, window // 60), around=max(1, window // 4))
        found = [0, *changes[(changes > 0) & (changes < last)].tolist(), last]
        between = [np.linspace(a, b, -(-(b - a) // hop), endpoint=False).astype(int) for a, b in pairwise(found)]
        return cls((*np.concatenate(between).tolist(), last), window, steps)

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, track: FeatureTrack, number: int) -> FeatureTrack:
        """One window of a track, as a view; its clock begins at 0."""
        first = self.starts[number]
        clock = track.clock
        if clock.edges is not None:
            clock = Clock.from_edges(clock.edges[first : first + self.size + 1] - clock.edges[first])
        values = track.values[first : first + self.size]
        return FeatureTrack(values, clock, track.streams, track.recipe, absent=track.absent)

    def starts_W(self, like: Tensor) -> Tensor:
        """The starts as a tensor beside another."""
        return torch.tensor(self.starts, dtype=like.dtype, device=like.device)


def strongest_changes(track: FeatureTrack, *, reach: int, around: int) -> npt.NDArray[np.int64]:
    """The steps at which a track changes more than at any other within `around` steps, in order.

    The change at a step is the distance between the means of the `reach` steps before it and after it.
    """
    strength_T = np.concatenate([_changes(track, first, reach) for first in range(0, len(track), STEPS_AT_ONCE)])
    padded = np.pad(strength_T, around, constant_values=-1.0)
    highest_T = np.lib.stride_tricks.sliding_window_view(padded, 2 * around + 1).max(axis=1)
    peaks = np.flatnonzero((strength_T == highest_T) & (strength_T > 0))
    return peaks[np.diff(peaks, prepend=-around - 1) > around]  # of equals the first


def _changes(track: FeatureTrack, first: int, reach: int) -> npt.NDArray[np.float32]:
    """How much the video changes at each of the `STEPS_AT_ONCE` steps from `first` on; 0 near its ends."""
    last = min(first + STEPS_AT_ONCE, len(track))
    begin, end = max(0, first - reach), min(last + reach, len(track))
    values_TF = np.asarray(track.values[begin:end], dtype=np.float64)
    total_TF = np.cumsum(np.pad(values_TF, ((1, 0), (0, 0))), axis=0)
    change_TF = total_TF[2 * reach :] - 2 * total_TF[reach:-reach] + total_TF[: -2 * reach]
    change_T = np.linalg.norm(change_TF, axis=1) if len(change_TF) else np.zeros(0)
    strength_T = np.zeros(end - begin)
    strength_T[reach : reach + len(change_T)] = change_T
    with np.errstate(over="ignore"):
        return strength_T[first - begin : last - begin].astype(np.float32)


def merge(windows: Windows, intervals_WP2: Tensor, score_WP: Tensor, kept_WP: Tensor, alike: float) -> Tensor:
    """Which proposals of all windows remain, W x P: whole ones, each once. `intervals_WP2` are steps of the video.

    `alike` is the IoU from which two proposals are the same event; the better scored one stays, the earlier of equals.
    Greedy, by rounds, as `intervals.suppress`: only a proposal that remains suppresses others.
    """
    whole_WP = kept_WP & ~cut(windows, intervals_WP2)
    left_WP = whole_WP
    while True:
        again_WP = whole_WP & ~_lost(windows, intervals_WP2, score_WP, left_WP, alike)
        if torch.equal(again_WP, left_WP):
            return left_WP
        left_WP = again_WP


def _lost(windows: Windows, intervals_WP2: Tensor, score_WP: Tensor, left_WP: Tensor, alike: float) -> Tensor:
    """Which proposals overlap a better one of another window among those that are left."""
    lost_WP = torch.zeros_like(left_WP)
    proposals = max(1, left_WP.shape[1])
    pieces = torch.arange(len(windows), device=left_WP.device).split(max(1, PAIRS_AT_ONCE // proposals**2))
    for distance in range(1, _reach(windows) + 1):
        for first in pieces:
            first = first[first < len(windows) - distance]
            second = first + distance
            same = temporal_iou(intervals_WP2[first], intervals_WP2[second]) >= alike
            first_better = score_WP[first][:, :, None] >= score_WP[second][:, None, :]
            lost_WP[first] |= (same & ~first_better & left_WP[second][:, None, :]).any(dim=2)
            lost_WP[second] |= (same & first_better & left_WP[first][:, :, None]).any(dim=1)
    return lost_WP


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
