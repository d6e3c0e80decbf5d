"""Small pictures of a video at given times, as JPEG files in memory: what a page shows beside its events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from densevid.errors import InputError
from densevid.video.container import open_video

LONGER_SIDE = 240  # pixels
QUALITY = 80
MOST_DECODED = 150  # frames after a key frame; where key frames are further apart, a picture a little early will do


def thumbnails(path: Path | str, times: Sequence[float]) -> list[bytes | None]:
    """One JPEG per time, in seconds; None where the file does not give one. Never an error: pictures are an extra."""
    try:
        with open_video(path) as (container, stream):
            return [_picture_at(container, stream, time) for time in times]
    except (InputError, av.FFmpegError, OSError):
        return [None] * len(times)


def _picture_at(container: Any, stream: Any, time: float) -> bytes | None:
    """The frame on the screen at a time: from the key frame before it, forward."""
    zero = (container.start_time or 0) / av.time_base
    best = None
    try:
        container.seek(round((time + zero) * av.time_base), backward=True)
        for frame in islice(container.decode(stream), MOST_DECODED):
            if best is not None and (frame.time is None or frame.time - zero > time):
                break
            best = frame
    except (av.FFmpegError, ValueError):
        pass
    return None if best is None else _jpeg(best)


def _jpeg(frame: Any) -> bytes | None:
    scale = min(1.0, LONGER_SIDE / max(frame.width, frame.height))
    size = max(2, round(frame.width * scale)), max(2, round(frame.height * scale))
    small = frame.reformat(*size, "bgr24").to_ndarray()
    turned = np.ascontiguousarray(np.rot90(small, round(frame.rotation / 90)))
    made, content = cv2.imencode(".jpg", turned, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return content.tobytes() if made else None
