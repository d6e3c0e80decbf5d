"""Compose a video file from shots of several files, with dissolves: decode at exact times, blend, encode once.

Frames are taken at a constant rate: frame i of a file is the one on the screen at i / rate seconds. Each shot is
decoded once, from a little before its start to a little after its end if it dissolves there; at most two files are open
and a few frames in memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from densevid.errors import InputError
from densevid.io import atomic_path
from densevid.video.container import PresentationTimes, open_video

Picture = npt.NDArray[np.uint8]  # YUV 4:2:0, planes stacked: 3/2 height x width
ENCODER = {"preset": "veryfast", "crf": "20"}
THUMBNAILS, THUMBNAIL_SIZE = 4, (16, 12)  # one a second, from the beginning


@dataclass(frozen=True, slots=True)
class PictureShot:
    """Frames `first .. first + count` of a file that has `length` frames; beyond its end it starts again."""

    file: Path
    length: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Blend:
    """A dissolve into a shot, over `count` frames of the composed video from `start` on."""

    start: int
    count: int


def write_video(path: Path | str, shots: Sequence[PictureShot], blends: Mapping[int, Blend], rate: int) -> None:
    """Encode shots one after the other as H.264.

    Args:
        path: The .mp4 to write.
        shots: The shots; the video has the frame size of the first.
        blends: The dissolve into shot i, by i.
        rate: Frames per second.

    Raises:
        InputError: A file cannot be decoded, or the video cannot be written.
    """
    width, height = picture_size(shots[0].file)
    with atomic_path(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=rate, options=ENCODER)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = Fraction(1, rate)
        stream.codec_context.thread_count = 1
        for number, picture in enumerate(composed(shots, blends, rate, (width, height))):
            frame = VideoFrame.from_ndarray(picture, format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def composed(
    shots: Sequence[PictureShot], blends: Mapping[int, Blend], rate: int, size: tuple[int, int]
) -> Iterator[Picture]:
    """All frames of the composed video, in order."""
    streams = [_stream(shots, blends, number, rate, size) for number in range(len(shots))]
    now = 0
    for number, shot in enumerate(shots):
        end = now + shot.count
        coming, going = blends.get(number), blends.get(number + 1)
        for time in range(now, end):
            picture = next(streams[number])
            if coming and time < coming.start + coming.count:
                picture = _mix(next(streams[number - 1]), picture, _arrived(coming, time))
            elif going and time >= going.start:
                picture = _mix(picture, next(streams[number + 1]), _arrived(going, time))
            yield picture
        if number and not (coming and coming.start + coming.count > end):
            streams[number - 1].close()
        now = end


def picture_size(path: Path) -> tuple[int, int]:
    """Frame size of a file, rounded down to even numbers, as the encoder requires."""
    with open_video(path) as (_, stream):
        context = stream.codec_context
        return max(2, context.width // 2 * 2), max(2, context.height // 2 * 2)


def pictures(path: Path, rate: int, size: tuple[int, int]) -> Iterator[Picture]:
    """The frames of a file at a constant rate, resized, from beginning to end."""
    reformatter, number = VideoReformatter(), 0
    with open_video(path) as (container, stream):
        times = PresentationTimes(container, stream)
        held: Picture | None = None
        try:
            for frame in container.decode(stream):
                time = times.of_frame(frame)
                while held is not None and number / rate < time - 1e-6:
                    yield held
                    number += 1
                small = reformatter.reformat(frame, *size, "yuv420p", interpolation="BILINEAR")
                held = np.asarray(small.to_ndarray(), dtype=np.uint8)
        except av.FFmpegError as error:
            if held is None:
                raise InputError(f"{path}: holds no picture that can be decoded ({error.strerror})") from error
        if held is None:
            raise InputError(f"{path}: holds no picture that can be decoded")
        yield held


def thumbnails(path: Path) -> npt.NDArray[np.float32]:
    """The first few seconds of a file as one vector of small grey pictures."""
    small = [picture[: THUMBNAIL_SIZE[1]] for picture in islice(pictures(path, 1, THUMBNAIL_SIZE), THUMBNAILS)]
    grey = np.stack([*small, *[small[-1]] * (THUMBNAILS - len(small))]).astype(np.float32)
    return np.asarray(grey - grey.mean(), dtype=np.float32).ravel()


def _stream(
    shots: Sequence[PictureShot], blends: Mapping[int, Blend], number: int, rate: int, size: tuple[int, int]
) -> Generator[Picture, None, None]:
    """The frames of one shot, including those of the dissolves before and after it."""
    begin = sum(shot.count for shot in shots[:number])
    shot, end = shots[number], begin + shots[number].count
    lead = begin - min(begin, blends[number].start) if number in blends else 0
    following = blends.get(number + 1)
    tail = max(0, following.start + following.count - end) if following else 0
    place, left = (shot.first - lead) % shot.length, lead + shot.count + tail
    while left > 0:
        for picture in _span(shot, place, min(left, shot.length - place), rate, size):
            yield picture
            left -= 1
        place = 0


def _span(shot: PictureShot, first: int, count: int, rate: int, size: tuple[int, int]) -> Iterator[Picture]:
    """`count` frames from `first` on; a file that ends early repeats its last frame."""
    latest: Picture | None = None
    given = 0
    for number, latest in enumerate(pictures(shot.file, rate, size)):
        if number >= first:
            yield latest
            given += 1
            if given == count:
                return
    assert latest is not None
    for _ in range(count - given):
        yield latest


def _arrived(blend: Blend, time: int) -> float:
    return (time - blend.start + 0.5) / blend.count


def _mix(before: Picture, after: Picture, arrived: float) -> Picture:
    """A cross dissolve of two pictures."""
    share = round(256 * arrived)
    mixed = before.astype(np.uint16) * np.uint16(256 - share) + after.astype(np.uint16) * np.uint16(share)
    return np.asarray((mixed + 128) >> 8, dtype=np.uint8)
