"""Generated videos whose frames are marked with their numbers, so that tests know which frame they got."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
TIME_BASE = Fraction(1, 12800)
BITS = 12


def numbered(number: int, width: int = 192, height: int = 128) -> Picture:
    """A picture whose twelve tiles, black or white, spell its number in binary; its tiles survive any codec."""
    bits = [(number >> bit) & 1 for bit in range(BITS)]
    tiles = np.where(np.array(bits).reshape(3, 4), 235, 20).astype(np.uint8)
    rows, columns = np.arange(height) * 3 // height, np.arange(width) * 4 // width
    return np.repeat(tiles[rows][:, columns, None], 3, axis=2)


def number_of(picture: Picture) -> int:
    """Which number a picture, of whatever size, spells."""
    height, width = picture.shape[:2]
    centres = picture[height // 6 :: height // 3][:3, width // 8 :: width // 4][:, :4].mean(axis=2)
    return sum(int(level > 127) << bit for bit, level in enumerate(centres.ravel()))


def make_video(
    path: Path,
    times: Sequence[float],
    *,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    pixels: str = "yuv420p",
    size: tuple[int, int] = (192, 128),
    picture: Callable[[int], Picture] | None = None,
    sound_from: float | None = None,
    container: str | None = None,
    fps: int | None = None,
    aspect: Fraction | None = None,
) -> Path:
    """A video with a frame at each of the times (seconds); with `fps`, constant rate in a container without times."""
    base = Fraction(1, fps) if fps else TIME_BASE
    with av.open(str(path), "w", format=container, options={}) as output:
        stream: Any = output.add_stream(codec, rate=fps or 25, options=options or {})
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        stream.codec_context.time_base = base
        if aspect:
            stream.codec_context.sample_aspect_ratio = aspect
        if not fps:
            stream.time_base = base
        sound: Any = output.add_stream("aac", rate=8000) if sound_from is not None else None
        if sound is not None:
            _write_sound(output, sound, sound_from or 0.0, times[-1])
        for number, time in enumerate(times):
            drawn = picture(number) if picture else numbered(number, *size)
            frame = av.VideoFrame.from_ndarray(drawn, format="rgb24")
            frame.pts, frame.time_base = round(time / base), base
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


def make_sound(path: Path, seconds: float = 1.0) -> Path:
    """A file with sound and no picture."""
    with av.open(str(path), "w") as output:
        _write_sound(output, output.add_stream("aac", rate=8000), 0.0, seconds)
    return path


def _write_sound(output: Any, stream: Any, start: float, end: float) -> None:
    samples = 1024
    for number in range(int((end - start) * 8000 / samples) + 1):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, samples), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        frame.pts, frame.time_base = round(start * 8000) + number * samples, Fraction(1, 8000)
        output.mux(stream.encode(frame))
    output.mux(stream.encode())


def packet_times(path: Path) -> npt.NDArray[np.float64]:
    """The presentation times in the file itself, sorted, from the earliest of all its streams."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.pts is not None]
        start = container.start_time / 1e6
        return np.sort([float(packet.pts * packet.time_base) for packet in packets]) - start


def constant(seconds: float, fps: float = 25.0, start: float = 0.0) -> list[float]:
    """Frame times at a constant rate."""
    return [start + number / fps for number in range(round(seconds * fps))]


def variable(seconds: float, seed: int = 0, start: float = 0.0) -> list[float]:
    """Frame times with gaps from 1/60 to 1/6 of a second."""
    gaps = np.random.default_rng(seed).uniform(1 / 60, 1 / 6, int(seconds * 60))
    times = start + np.concatenate([[0.0], np.cumsum(gaps)])
    return [float(time) for time in times if time < start + seconds]
