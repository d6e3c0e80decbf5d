"""Video files: opening them safely, presentation times, declared duration, and whether browsers can play them.

This is the only place where a file is given to the decoder. As files may come from strangers, the decoder gets an open
file and never a name (which could mean a protocol), only formats that contain their own frames are allowed (a playlist
could refer to other files), and every attempt of a format to open another file is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import av
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from densevid.errors import InputError, one_line

VideoPacket: TypeAlias = "Packet[VideoStream]"
CARRIES_NO_PRESENTATION_TIME = {"avi"}


class PresentationTimes:
    """Presentation times of a stream in seconds. Time 0 is the earliest presentation time of any stream of the file.

    AVI files have no presentation times, and the decoder's guesses are wrong for reordered frames: there, times follow
    from the order in which frames leave the decoder and from the frame rate.

    Attributes:
        source: "pts" if the file has presentation times, else "order".
        frame_seconds: Duration of a frame by the frame rate.
        first: Time of the first frame.
    """

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self._unit = float(stream.time_base or 1 / 90000)
        self.source: Literal["pts", "order"] = "pts"
        if CARRIES_NO_PRESENTATION_TIME & set(container.format.name.split(",")):
            self.source = "order"
        rate = stream.average_rate or stream.guessed_rate
        self.frame_seconds = 1 / float(rate) if rate and 0.1 <= rate <= 1000 else 0.04
        self._zero = _zero(container, stream, self._unit)
        self.first = 0.0
        self._latest: float | None = None

    def of_packet(self, packet: VideoPacket) -> float | None:
        """Presentation time of a packet's frame, None if the packet has none."""
        return None if packet.pts is None else self._seconds(packet.pts)

    def of_frame(self, frame: VideoFrame) -> float:
        """Presentation time of a frame; one without a time stamp follows the frame before it."""
        stamp = frame.pts if self.source == "pts" else frame.dts
        if self._latest is None:
            if self.source == "order" or self._zero is None:
                self._zero = (stamp or 0) * self._unit
            self.first = self._seconds(stamp or 0)
        time = self._seconds(stamp) if stamp is not None else (self._latest or 0.0) + self.frame_seconds
        self._latest = time
        return time

    def length_of(self, frame: VideoFrame) -> float:
        """Duration of a frame; the frame rate's if the frame has none."""
        seconds = (frame.duration or 0) * self._unit
        return seconds if 0 < seconds < 3600 else self.frame_seconds

    def _seconds(self, stamp: int) -> float:
        time = stamp * self._unit - (self._zero or 0.0)
        return 0.0 if abs(time) < 1e-5 else time


def _zero(container: InputContainer, stream: VideoStream, unit: float) -> float | None:
    """Start of the file in seconds; if that is the start of the stream, in the exact time base of the stream."""
    own = None if stream.start_time is None else stream.start_time * unit
    earliest = None if container.start_time is None else container.start_time / av.time_base
    if own is None or earliest is None or abs(own - earliest) < 1e-5:
        return own if own is not None else earliest
    return earliest


# Codecs that Chromium, Firefox and Safari all decode. A suffix is no guide: an .mp4 may hold HEVC or MPEG-4.
PICTURES = {"h264", "av1", "vp8", "vp9", "theora"}
SOUND = {"aac", "mp3", "opus", "vorbis", "flac"}
H264_PIXELS = {None, "yuv420p", "yuvj420p"}  # other profiles play in Chromium at most

# Container: codecs it is played with, suffix, media type.
CONTAINERS = {
    "mov": ({"h264", "av1", "vp9"}, ".mp4", "video/mp4"),
    "matroska": ({"vp8", "vp9", "av1"}, ".webm", "video/webm"),
    "ogg": ({"theora", "vp8"}, ".ogv", "video/ogg"),
}


def plays_in_browsers(stream: Any) -> bool:
    """Whether all browsers decode a video or audio stream."""
    context = stream.codec_context
    codec = context.codec.canonical_name if context else ""
    if stream.type != "video":
        return codec in SOUND
    return codec in PICTURES and (codec != "h264" or context.pix_fmt in H264_PIXELS)


def media_kind(container: InputContainer, stream: VideoStream) -> tuple[str, str] | None:
    """Suffix and media type under which browsers play a file; None if they do not play it."""
    codecs, suffix, media_type = CONTAINERS.get(container.format.name.split(",")[0], (set[str](), "", ""))
    audible = all(map(plays_in_browsers, container.streams.audio[:1]))
    played = stream.codec_context.codec.canonical_name in codecs and plays_in_browsers(stream) and audible
    return (suffix, media_type) if played else None


# Formats that contain frames themselves. Playlists (hls, dash, concat, image2 ...) are left out on purpose.
FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif,mpegts,mpeg,flv,asf,ogg,mxf,nut,yuv4mpegpipe,apng,ivf"
# First bytes of these formats; the boxes of an mp4 have their names after four bytes of length.
BEGINNINGS = (
    *(b"\x1aE\xdf\xa3", b"RIFF", b"GIF8", b"\x00\x00\x01", b"FLV", b"0&\xb2u", b"OggS", b"\x06\x0e+4"),
    *(b"nut/", b"YUV4MPEG2", b"\x89PNG", b"DKIF"),
)
MP4_BOXES = {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"styp", b"moof"}
COUNTS_FROM_ZERO = {"matroska"}  # declares the time of its end as duration, wherever its frames start
BELIEVABLE_PIXELS = 8192 * 8192
PIXELS_VARIABLE = "DENSEVID_MAX_PIXELS"  # lowers the limit; `densevid serve` sets it for its worker processes
READ_BLOCK = 1 << 18
WORTH_THREADS = 640 * 360  # pixels; smaller frames are decoded faster by a single thread


def _max_pixels() -> int:
    """The largest frame that is decoded."""
    given = os.environ.get(PIXELS_VARIABLE, "")
    return min(BELIEVABLE_PIXELS, int(given)) if given.isdecimal() else BELIEVABLE_PIXELS


MAX_PIXELS = _max_pixels()

# Decoders log to stderr by default; damage is counted and reported by `VideoSteps` instead.
av.logging.set_level(None)


@contextmanager
def open_video(path: Path | str, *, decoder_threads: int = 1) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Context manager: open a local video file.

    Args:
        path: The file.
        decoder_threads: Threads of the decoder; small frames are decoded by one in any case.

    Yields:
        The container and its video stream (the first one that is not a cover image).

    Raises:
        InputError: The file cannot be opened, is not a video, or has no frames.
    """
    path = Path(path)
    with _open_file(path) as file:
        try:
            container = av.open(
                file,
                metadata_errors="replace",
                buffer_size=READ_BLOCK,
                io_open=_refuse_to_open,
                container_options={"format_whitelist": FORMATS, "protocol_whitelist": "none"},
                options={"max_pixels": str(MAX_PIXELS)},
            )
        except (av.FFmpegError, UnicodeError, ValueError, OSError) as error:
            if isinstance(error, av.InvalidDataError) and not _begins_like_a_video(path):
                raise InputError(f"{path}: not a video (no format is recognised)") from error
            raise InputError(f"{path}: not a video that can be read ({_reason(error)})") from error
        with container:
            yield container, _picture_stream(path, container, decoder_threads)


def require_video(path: Path | str) -> None:
    """Raise an InputError unless the file can be opened as a video; no frame is decoded."""
    with open_video(path):
        pass


def declared_seconds(container: InputContainer, stream: VideoStream) -> float | None:
    """Declared duration of the video: that of the stream, else that of the container; None if neither has one."""
    unit = stream.time_base or 0
    if stream.duration and unit and stream.duration > 0:
        return max(float(stream.duration * unit), _seconds_of_frames(container, stream))
    whole = container.duration / av.time_base if container.duration and container.duration > 0 else None
    declared = _seconds_of_tag(stream.metadata.get("DURATION", "")) or whole
    if declared and COUNTS_FROM_ZERO & set(container.format.name.split(",")):
        declared = max(0.0, declared - max(0.0, float((stream.start_time or 0) * unit)))
    return declared


def _seconds_of_frames(container: InputContainer, stream: VideoStream) -> float:
    """Duration by the frame count of an .avi; the decoder adapts the declared duration if the file was cut short."""
    counted = container.format.name == "avi" and stream.frames and stream.average_rate
    return float(stream.frames / stream.average_rate) if counted and stream.average_rate else 0.0


@contextmanager
def _open_file(path: Path) -> Iterator[Any]:
    try:
        status = path.stat()
        file = path.open("rb") if stat.S_ISREG(status.st_mode) else None
    except FileNotFoundError:
        raise InputError(f"{path}: {'a link to what is not there' if path.is_symlink() else 'no such file'}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InputError(f"{path}: cannot be opened ({getattr(error, 'strerror', None) or error})") from error
    if file is None:
        what = "a folder, not a video" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise InputError(f"{path}: {what}")
    with file:
        if status.st_size == 0:
            raise InputError(f"{path}: the file is empty")
        yield file


def _picture_stream(path: Path, container: InputContainer, decoder_threads: int) -> VideoStream:
    """The first video stream that is not a cover image."""
    moving = [s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
    if not moving:
        what = "only sound" if container.streams.audio else "no pictures"
        raise InputError(f"{path}: holds {what}, there is nothing to see in it")
    stream = moving[0]
    context = stream.codec_context
    if context is None:
        raise InputError(f"{path}: its video codec is unknown")
    if context.width * context.height > MAX_PIXELS:
        raise InputError(f"{path}: declares pictures of {context.width} x {context.height}, too large to be true")
    threads = decoder_threads if context.width * context.height >= WORTH_THREADS else 1
    context.thread_type = "FRAME" if threads > 1 else "NONE"
    context.thread_count = threads
    context.options = {"max_pixels": str(MAX_PIXELS)}  # frames may become larger in the middle of a file
    return stream


def _refuse_to_open(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    raise PermissionError("a video must not refer to other files")


def _begins_like_a_video(path: Path) -> bool:
    """Whether a file that the decoder refused starts like a video, and so may be a truncated one."""
    with path.open("rb") as file:
        first = file.read(16)
    return first.startswith(BEGINNINGS) or first[4:8] in MP4_BOXES


def _reason(error: BaseException) -> str:
    if isinstance(error, av.ArgumentError):  # raised for formats that are not on the list
        return "not a video format that is read here"
    text = getattr(error, "strerror", None) or one_line(error)
    cut = "; it may have been cut short" if isinstance(error, av.InvalidDataError) else ""
    return f"{text}{cut}"


def _seconds_of_tag(tag: str) -> float | None:
    """Parse Matroska's `hours:minutes:seconds` tag; None if it is invalid."""
    parts = tag.split(":")
    try:
        hours, minutes, seconds = (float(part) for part in parts)
    except ValueError:
        return None
    return hours * 3600 + minutes * 60 + seconds
