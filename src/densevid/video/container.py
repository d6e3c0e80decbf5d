"""When a frame is presented, in seconds from where a player's clock starts.

What browsers play: codings of pictures and sound that Chromium, Firefox and Safari all decode, and their containers.

A file's ending promises nothing: an .mp4 may hold HEVC or MPEG-4, which most browsers leave black. So what is shown in
a page is judged by what is in the file.

A local file becomes an open video: the first stop, and the only place where a file is handed to the decoder.

Files come from strangers. The decoder gets an open file, never a name, so that no name can mean a protocol; only
formats that carry their own pictures are allowed, so that no playlist can point elsewhere; and anything that a format
still asks to open is refused.
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
    """The times of one stream. Time 0 is the earliest presentation time of any stream of the file.

    AVI keeps no presentation times, and what is guessed for them is out of order where frames were reordered: there
    the order in which frames leave the decoder counts, at the pace of the file, from the first frame on.
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
        """When the packet's frame is presented, None if it does not say."""
        return None if packet.pts is None else self._seconds(packet.pts)

    def of_frame(self, frame: VideoFrame) -> float:
        """When the frame is presented; one that does not say follows the one before."""
        stamp = frame.pts if self.source == "pts" else frame.dts
        if self._latest is None:
            if self.source == "order" or self._zero is None:
                self._zero = (stamp or 0) * self._unit
            self.first = self._seconds(stamp or 0)
        time = self._seconds(stamp) if stamp is not None else (self._latest or 0.0) + self.frame_seconds
        self._latest = time
        return time

    def length_of(self, frame: VideoFrame) -> float:
        """How long the frame says it stays on the screen, or the usual time."""
        seconds = (frame.duration or 0) * self._unit
        return seconds if 0 < seconds < 3600 else self.frame_seconds

    def _seconds(self, stamp: int) -> float:
        time = stamp * self._unit - (self._zero or 0.0)
        return 0.0 if abs(time) < 1e-5 else time


def _zero(container: InputContainer, stream: VideoStream, unit: float) -> float | None:
    """Where a player's clock starts, in the exact time of the stream where that is what it is."""
    own = None if stream.start_time is None else stream.start_time * unit
    earliest = None if container.start_time is None else container.start_time / av.time_base
    if own is None or earliest is None or abs(own - earliest) < 1e-5:
        return own if own is not None else earliest
    return earliest


PICTURES = {"h264", "av1", "vp8", "vp9", "theora"}
SOUND = {"aac", "mp3", "opus", "vorbis", "flac"}
H264_PIXELS = {None, "yuv420p", "yuvj420p"}  # its other profiles play in Chromium alone, if anywhere

# Container -> codings it is played with, the ending that a page goes by, the media type.
CONTAINERS = {
    "mov": ({"h264", "av1", "vp9"}, ".mp4", "video/mp4"),
    "matroska": ({"vp8", "vp9", "av1"}, ".webm", "video/webm"),
    "ogg": ({"theora", "vp8"}, ".ogv", "video/ogg"),
}


def plays_in_browsers(stream: Any) -> bool:
    """Whether browsers decode a stream of pictures or sound."""
    context = stream.codec_context
    coding = context.codec.canonical_name if context else ""
    if stream.type != "video":
        return coding in SOUND
    return coding in PICTURES and (coding != "h264" or context.pix_fmt in H264_PIXELS)


def media_kind(container: InputContainer, stream: VideoStream) -> tuple[str, str] | None:
    """The ending and the media type under which browsers play a file; None if they do not."""
    codings, ending, media_type = CONTAINERS.get(container.format.name.split(",")[0], (set[str](), "", ""))
    heard = all(map(plays_in_browsers, container.streams.audio[:1]))
    played = stream.codec_context.codec.canonical_name in codings and plays_in_browsers(stream) and heard
    return (ending, media_type) if played else None


# Formats that hold pictures themselves. Playlists (hls, dash, concat, image2 ...) are left out on purpose.
FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif,mpegts,mpeg,flv,asf,ogg,mxf,nut,yuv4mpegpipe,apng,ivf"
# What files of these formats begin with; the boxes of an mp4 have their names behind four bytes of length.
BEGINNINGS = (
    *(b"\x1aE\xdf\xa3", b"RIFF", b"GIF8", b"\x00\x00\x01", b"FLV", b"0&\xb2u", b"OggS", b"\x06\x0e+4"),
    *(b"nut/", b"YUV4MPEG2", b"\x89PNG", b"DKIF"),
)
MP4_BOXES = {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"styp", b"moof"}
COUNTS_FROM_ZERO = {"matroska"}  # its duration is the time of the end, wherever the pictures start
BELIEVABLE_PIXELS = 8192 * 8192
PIXELS_VARIABLE = "DENSEVID_MAX_PIXELS"  # less, if it says so: `densevid serve` does to the processes of its jobs
READ_BLOCK = 1 << 18
WORTH_THREADS = 640 * 360  # pixels; smaller pictures decode faster than threads can share them


def _max_pixels() -> int:
    """The most that a picture may have."""
    given = os.environ.get(PIXELS_VARIABLE, "")
    return min(BELIEVABLE_PIXELS, int(given)) if given.isdecimal() else BELIEVABLE_PIXELS


MAX_PIXELS = _max_pixels()

# The decoders' own complaints go to stderr by default; what matters of them is counted and told in our words.
av.logging.set_level(None)


@contextmanager
def open_video(path: Path | str, *, decoder_threads: int = 1) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a local file and its main picture stream; whatever is wrong with it is an InputError on one line."""
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
    """Raise unless the file can be opened as a video; none of its pictures is decoded."""
    with open_video(path):
        pass


def declared_seconds(container: InputContainer, stream: VideoStream) -> float | None:
    """How long the file says its pictures last: by the stream if it says so, by the container otherwise."""
    unit = stream.time_base or 0
    if stream.duration and unit and stream.duration > 0:
        return max(float(stream.duration * unit), _seconds_of_frames(container, stream))
    whole = container.duration / av.time_base if container.duration and container.duration > 0 else None
    declared = _seconds_of_tag(stream.metadata.get("DURATION", "")) or whole
    if declared and COUNTS_FROM_ZERO & set(container.format.name.split(",")):
        declared = max(0.0, declared - max(0.0, float((stream.start_time or 0) * unit)))
    return declared


def _seconds_of_frames(container: InputContainer, stream: VideoStream) -> float:
    """How long the pictures last that an .avi counts: of one that was cut short the decoder makes the duration fit."""
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
    """The first stream of moving pictures; a cover picture does not count."""
    moving = [s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
    if not moving:
        what = "only sound" if container.streams.audio else "no pictures"
        raise InputError(f"{path}: holds {what}, there is nothing to see in it")
    stream = moving[0]
    context = stream.codec_context
    if context is None:
        raise InputError(f"{path}: its pictures are coded in a way that is not known here")
    if context.width * context.height > MAX_PIXELS:
        raise InputError(f"{path}: declares pictures of {context.width} x {context.height}, too large to be true")
    threads = decoder_threads if context.width * context.height >= WORTH_THREADS else 1
    context.thread_type = "FRAME" if threads > 1 else "NONE"
    context.thread_count = threads
    context.options = {"max_pixels": str(MAX_PIXELS)}  # pictures may become larger in the middle of a file
    return stream


def _refuse_to_open(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    raise PermissionError("a video must not refer to other files")


def _begins_like_a_video(path: Path) -> bool:
    """Whether a file that the decoder refused may be the rest of one; it does not say which of the two it means."""
    with path.open("rb") as file:
        first = file.read(16)
    return first.startswith(BEGINNINGS) or first[4:8] in MP4_BOXES


def _reason(error: BaseException) -> str:
    if isinstance(error, av.ArgumentError):  # what a format off the list comes back as
        return "not a video format that is read here"
    text = getattr(error, "strerror", None) or one_line(error)
    cut = "; it may have been cut short" if isinstance(error, av.InvalidDataError) else ""
    return f"{text}{cut}"


def _seconds_of_tag(tag: str) -> float | None:
    """Matroska's `hours:minutes:seconds` tag, None if it is not one."""
    parts = tag.split(":")
    try:
        hours, minutes, seconds = (float(part) for part in parts)
    except ValueError:
        return None
    return hours * 3600 + minutes * 60 + seconds
