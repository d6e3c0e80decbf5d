"""Probe an uploaded file before any work on it: `python -m densevid.app.probe FILE PIXELS SECONDS`.

It runs as a process of its own, because a hostile file can crash or hang the library that reads it. Lengths are
measured from the packets, since a header can hold anything; nothing is decoded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from densevid.app.settings import NOT_PLAYED
from densevid.errors import InputError, run_main
from densevid.progress import duration
from densevid.video.container import declared_seconds, media_kind, open_video

OTHERS = (NOT_PLAYED, "application/octet-stream")


def probe(path: Path, most_pixels: int, most_seconds: float) -> dict[str, object]:
    """Size, length and kind of a video; more than allowed is an InputError."""
    with open_video(path) as (container, stream):
        width, height = stream.codec_context.width, stream.codec_context.height
        if width * height > most_pixels:
            raise InputError(f"its pictures are {width} x {height}; the most taken here is {most_pixels:,} pixels")
        seconds = max(declared_seconds(container, stream) or 0.0, _measured_seconds(container, stream, most_seconds))
        if seconds > most_seconds:
            raise InputError(f"it is longer than the limit of {duration(most_seconds)}")
        ending, media_type = media_kind(container, stream) or OTHERS
        return {
            "width": width,
            "height": height,
            "seconds": round(seconds, 3),
            "ending": ending,
            "media_type": media_type,
        }


def _measured_seconds(container: InputContainer, stream: VideoStream, most_seconds: float) -> float:
    """The time between the first and the last picture of the file, read no further than it matters."""
    first: float | None = None
    last = 0.0
    try:
        for packet in container.demux(stream):
            if packet.pts is None or packet.time_base is None:
                continue
            time = float(packet.pts * packet.time_base)
            first = time if first is None else min(first, time)
            last = max(last, time)
            if last - first > most_seconds:
                break
    except av.FFmpegError:  # a file cut short is used as far as it goes, as everywhere
        pass
    return 0.0 if first is None else max(0.0, last - first)


def main() -> int:
    """Print what the file is to stderr, as every process of a job does."""
    print(json.dumps(probe(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))), file=sys.stderr)
    return 0


if __name__ == "__main__":
    run_main(main)
