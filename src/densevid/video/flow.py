"""Motion as a picture: the optical flow over a step's run of frames, so that a network for pictures can read it."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from densevid.video.windows import Pictures

FASTEST = 16.0  # pixels per 1/25 s at the size of the picture; anything faster looks the same
UNIT = 1 / 25  # seconds: speeds are in pixels per this, whatever the frame rate
_of_this_thread = threading.local()


def flow_pictures(pictures_SFHWC: Pictures, seconds_SF: npt.NDArray[np.float64]) -> Pictures:
    """One picture per step: red and green are the speed to the right and downwards (128: none), blue is its size."""
    velocity_SHW2 = np.stack([_velocity(run, times) for run, times in zip(pictures_SFHWC, seconds_SF, strict=True)])
    speed_SHW1 = np.linalg.norm(velocity_SHW2, axis=-1, keepdims=True)
    signed = 128 + velocity_SHW2 * (127 / FASTEST)
    rendered = np.concatenate([signed, speed_SHW1 * (255 / FASTEST)], axis=-1)
    return np.asarray(np.clip(np.rint(rendered), 0, 255), np.uint8)


def _velocity(run_FHWC: Pictures, seconds_F: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The mean speed at every place: the flows between neighbours added up, over the time they took."""
    grey = [cv2.cvtColor(np.ascontiguousarray(picture), cv2.COLOR_RGB2GRAY) for picture in run_FHWC]
    total = np.zeros((*run_FHWC.shape[1:3], 2), np.float32)
    elapsed = float(seconds_F[-1] - seconds_F[0])
    if elapsed <= 0:  # one frame, repeated
        return total
    for earlier, later in pairwise(grey):
        total += _estimator().calc(earlier, later, None)
    return total * np.float32(UNIT / elapsed)


def _estimator() -> Any:
    """The estimator keeps buffers, so every thread has its own."""
    if not hasattr(_of_this_thread, "estimator"):
        cv2.setNumThreads(1)
        create = getattr(cv2, "DISOpticalFlow_create")  # noqa: B009 (its type stubs do not know it)
        _of_this_thread.estimator = create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
    return _of_this_thread.estimator
