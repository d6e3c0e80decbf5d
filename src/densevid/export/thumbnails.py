"""Small pictures of a video at given times, for the events of a page.

Times close together are reached by decoding on, distant ones by a seek to the key frame before, so the cost follows the
number of events and not the length. A file that breaks off gives the pictures up to there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from densevid.video.container import PresentationTimes, open_video

SIDE = 240  # pixels of the longer side; twice what the list shows, for sharp screens
QUALITY = 78
WORTH_A_JUMP = 4.0  # seconds; most files have a key frame more often
# Some formats jump to the key frame after a time that lies close before it, and a damaged file to where nothing can be
# read; then the jump is from further back, at last to the beginning.
FURTHER_BACK = (0.0, 1.0, 10.0, 60.0, math.inf)


def thumbnails(video: Path | str, seconds: Sequence[float], *, side: int = SIDE) -> list[bytes | None]:
    """A JPEG of the frame on the screen at each of the times, None where nothing could be decoded."""
    pictures: list[bytes | None] = [None] * len(seconds)
    if not seconds:
        return pictures
    order = sorted(range(len(seconds)), key=seconds.__getitem__)
    with open_video(video) as (container, stream):
        shown = _frames_at(container, stream, [seconds[index] for index in order])
        for index, frame in zip(order, shown, strict=False):
            pictures[index] = _jpeg(frame, side)
    return pictures


class TimedFrame(NamedTuple):
    """A decoded frame and when it is presented."""

    seconds: float
    frame: VideoFrame


def _frames_at(container: InputContainer, stream: VideoStream, seconds: Sequence[float]) -> Iterator[VideoFrame]:
    """For each time, which only grow, the last frame that is not after it (or the first there is)."""
    times = PresentationTimes(container, stream)
    decoded = _decoded(container, stream, times)
    shown = coming = next(decoded, None)
    if shown is None:
        return
    zero = (shown.frame.time or 0.0) - shown.seconds  # where time 0 is by the file's own clock
    for wanted in seconds:
        if wanted - shown.seconds > WORTH_A_JUMP:
            landed, on = _jumped_before(container, stream, times, zero, wanted)
            shown, coming, decoded = (landed, landed, on) if landed else (shown, coming, decoded)
        while coming and coming.seconds <= wanted:
            shown, coming = coming, next(decoded, None)
        yield shown.frame


def _jumped_before(
    container: InputContainer, stream: VideoStream, times: PresentationTimes, zero: float, wanted: float
) -> tuple[TimedFrame | None, Iterator[TimedFrame]]:
    """A frame at or before a time, and those that follow it; None where no jump leads there."""
    decoded: Iterator[TimedFrame] = iter(())
    for back in FURTHER_BACK:
        if not _jump(container, zero + max(times.first, wanted - back)):
            break
        decoded = _decoded(container, stream, times)
        landed = next(decoded, None)
        if landed and landed.seconds <= wanted:
            return landed, decoded
    return None, decoded


def _jump(container: InputContainer, seconds: float) -> bool:
    try:
        container.seek(int(seconds * av.time_base), backward=True)
    except (av.FFmpegError, OSError):
        return False
    return True


def _decoded(container: InputContainer, stream: VideoStream, times: PresentationTimes) -> Iterator[TimedFrame]:
    """Frames until the end or the first place that cannot be read."""
    try:
        for frame in container.decode(stream):
            yield TimedFrame(times.of_frame(frame), frame)
    except (av.FFmpegError, OSError):
        return


def _jpeg(frame: VideoFrame, side: int) -> bytes | None:
    import cv2

    scale = min(1.0, side / max(frame.width, frame.height))
    width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    picture = frame.reformat(width, height, "bgr24", interpolation="AREA").to_ndarray()
    upright = np.ascontiguousarray(np.rot90(picture, round(frame.rotation / 90)), dtype=np.uint8)
    fine, encoded = cv2.imencode(".jpg", upright, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return encoded.tobytes() if fine else None
