"""Videos to time extraction on, made on the spot: textures that drift, with noise, as H.264 with reordered frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame

TIME_BASE = Fraction(1, 90000)


def make_video(path: Path, times: Sequence[float], *, seed: int = 0, width: int = 224, height: int = 168) -> Path:
    """A video with a frame at each of the times, in seconds."""
    return _encode(path, zip(times, _drifting(seed, width, height), strict=False), width, height)


def as_720p(source: Path, path: Path) -> Path:
    """The same video, enlarged to 1280 x 720."""
    with av.open(str(source)) as container:
        frames = ((frame.time or 0.0, frame) for frame in container.decode(video=0))
        return _encode(path, frames, 1280, 720)


def _drifting(seed: int, width: int, height: int) -> Iterator[VideoFrame]:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    texture = coarse.repeat(8, axis=0).repeat(8, axis=1)[:height, :width]
    speed = random.integers(-3, 4, 2)
    while True:
        texture = np.roll(texture, speed, axis=(0, 1))
        noise = random.integers(0, 24, texture.shape, dtype=np.uint8)
        yield VideoFrame.from_ndarray(np.ascontiguousarray(texture // 2 + noise), format="rgb24")


def _encode(path: Path, frames: Iterable[tuple[float, VideoFrame]], width: int, height: int) -> Path:
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=25, options={"preset": "veryfast", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = TIME_BASE
        for time, frame in frames:
            resized = frame.reformat(width, height, "yuv420p")
            resized.pts, resized.time_base = round(time / TIME_BASE), TIME_BASE
            output.mux(stream.encode(resized))
        output.mux(stream.encode())
    return path
