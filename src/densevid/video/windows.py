"""Steps: the frame of each step and those that follow it, as square RGB pictures, and their optical flow.

`Windows` collects decoded frames into steps; `flow_pictures` renders the optical flow of a step's frames as a picture,
which an image network can read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from densevid.errors import InputError
from densevid.video.continuous import ContinuousSampling
from densevid.video.sampling import SkipPlan, StepSelector

Pictures = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Sampling:
    """How a video is sampled.

    Attributes:
        seconds_per_step: Length of a step.
        frames_per_step: Consecutive frames per step, from the frame of the step on.
        size: Side of the square that every frame is resized to.
        continuous: How frames for a continuous stream are sampled besides; None for no such stream.

    Raises:
        InputError: A value is out of range.
    """

    seconds_per_step: float = 0.5
    frames_per_step: int = 1
    size: int = 224
    continuous: ContinuousSampling | None = None

    def __post_init__(self) -> None:
        if not 0.01 <= self.seconds_per_step <= 60:
            raise InputError(f"seconds per step must be from .01 to 60, got {self.seconds_per_step}")
        if not 1 <= self.frames_per_step <= SkipPlan.REORDER or not 8 <= self.size <= 1024:
            raise InputError(f"a step has 1 to {SkipPlan.REORDER} frames of side 8 to 1024, not {self}")


@dataclass(frozen=True)
class Step:
    """One step: its time, and F pictures with their times."""

    time: float
    pictures_FHWC: Pictures
    seconds_F: npt.NDArray[np.float64]


class _Frame:
    """A decoded frame that is converted to an RGB picture on first access."""

    def __init__(self, time: float, raw: VideoFrame) -> None:
        self.time = time
        self._raw: VideoFrame | None = raw
        self._picture: Pictures | None = None

    def picture(self, reformatter: VideoReformatter, size: int) -> Pictures:
        if self._picture is None:
            assert self._raw is not None
            small = reformatter.reformat(self._raw, size, size, "rgb24", interpolation="BILINEAR", threads=1)
            quarter_turns = round(self._raw.rotation / 90)
            self._picture = np.asarray(np.rot90(small.to_ndarray(), quarter_turns), np.uint8)
            self._raw = None
        return self._picture


class Windows:
    """Collects frames into steps; keeps the last few frames until those of each step are complete."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._selector = StepSelector(sampling.seconds_per_step)
        self._reformatter = VideoReformatter()
        self._frames: deque[_Frame] = deque(maxlen=sampling.frames_per_step + 1)
        self._count = 0
        self._pending: deque[tuple[float, int]] = deque()

    @property
    def any_frame(self) -> bool:
        """Whether any frame was pushed."""
        return self._count > 0

    def push(self, time: float, raw: VideoFrame) -> Iterator[Step]:
        """Add a frame; yields the steps that are complete with it."""
        shown = self._selector.push(time)
        self._frames.append(_Frame(time, raw))
        self._count += 1
        self._pending.extend((step, self._count - 2) for step in shown)
        while self._pending and self._pending[0][1] + self._sampling.frames_per_step <= self._count:
            yield self._step(*self._pending.popleft())

    def finish(self, end: float) -> Iterator[Step]:
        """End the video at `end`; yields the remaining steps, which use the last frames."""
        self._pending.extend((step, self._count - 1) for step in self._selector.finish(end))
        for time, number in self._pending:
            yield self._step(time, number)

    def _step(self, time: float, number: int) -> Step:
        """The step whose frames start at `number`, or earlier if the video ends before they are complete."""
        oldest = self._count - len(self._frames)
        wanted = range(number, number + self._sampling.frames_per_step)
        beyond = max(0, wanted[-1] - (self._count - 1))
        run = [self._frames[max(0, index - beyond - oldest)] for index in wanted]
        pictures = np.stack([frame.picture(self._reformatter, self._sampling.size) for frame in run])
        return Step(time, pictures, np.array([frame.time for frame in run]))


FASTEST = 16.0  # pixels per UNIT; higher speeds are clipped
UNIT = 1 / 25  # seconds; the unit of speeds, whatever the frame rate
_of_this_thread = threading.local()


def flow_pictures(pictures_SFHWC: Pictures, seconds_SF: npt.NDArray[np.float64]) -> Pictures:
    """Render the optical flow of each step as a picture.

    Args:
        pictures_SFHWC: F pictures for each of S steps.
        seconds_SF: Their times.

    Returns:
        S pictures: red and green are the velocity to the right and down (128 for none), blue is the speed.
    """
    velocity_SHW2 = np.stack([_velocity(run, times) for run, times in zip(pictures_SFHWC, seconds_SF, strict=True)])
    speed_SHW1 = np.linalg.norm(velocity_SHW2, axis=-1, keepdims=True)
    signed = 128 + velocity_SHW2 * (127 / FASTEST)
    rendered = np.concatenate([signed, speed_SHW1 * (255 / FASTEST)], axis=-1)
    return np.asarray(np.clip(np.rint(rendered), 0, 255), np.uint8)


def _velocity(run_FHWC: Pictures, seconds_F: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Mean velocity at every pixel: the sum of the flows between adjacent frames over the time they span."""
    grey = [cv2.cvtColor(np.ascontiguousarray(picture), cv2.COLOR_RGB2GRAY) for picture in run_FHWC]
    total = np.zeros((*run_FHWC.shape[1:3], 2), np.float32)
    elapsed = float(seconds_F[-1] - seconds_F[0])
    if elapsed <= 0:  # a repeated frame
        return total
    for earlier, later in pairwise(grey):
        total += _estimator().calc(earlier, later, None)
    return total * np.float32(UNIT / elapsed)


def _estimator() -> Any:
    """The flow estimator of this thread; it keeps buffers, so threads cannot share one."""
    if not hasattr(_of_this_thread, "estimator"):
        cv2.setNumThreads(1)
        create = getattr(cv2, "DISOpticalFlow_create")  # noqa: B009 (missing in its type stubs)
        _of_this_thread.estimator = create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
    return _of_this_thread.estimator
