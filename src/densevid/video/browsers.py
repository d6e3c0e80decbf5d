"""What browsers play: codings of pictures and sound that Chromium, Firefox and Safari all decode, and their containers.

A file's ending promises nothing: an .mp4 may hold HEVC or MPEG-4, which most browsers leave black. So what is shown in
a page is judged by what is in the file.
"""

from __future__ import annotations

from typing import Any

from av.container import InputContainer
from av.video.stream import VideoStream

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
