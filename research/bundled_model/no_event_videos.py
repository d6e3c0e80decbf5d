"""Generated no-event videos: black, flat colour, noise, test patterns, stills, slides.

The bundled model is trained with some of them (`data`) and scored on others with another seed and other stills
(`trials`). The model itself never looks at pixels to recognize them. They have all frame rates, sizes and qualities of
real videos, since noise looks different at each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, repeat
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame

from densevid.io import atomic_path
from densevid.legacy import NO_EVENT_STEM
from densevid.video.composition import ENCODER, pictures
from research.bundled_model.slide_pages import Deck, Picture, draw_page

Draw = Callable[[np.random.Generator, Path, int], Iterator[Picture]]  # the last argument is the frame rate
WIDTH, HEIGHT = 224, 168
RATES = (5, 6, 8, 10, 12, 15, 20, 24, 25, 30, 50, 60)
SIZES = (0.75, 1.0, 1.0, 1.5, 2.0, 3.0)  # times what is drawn
QUALITIES = (18, 23, 28, 34)  # x264's constant rate factor
SECONDS = 6.0
SLIDE_SECONDS = (2.0, 6.0)
STILL_FROM = 2.0  # seconds into a clip at most, where its photograph is taken


@dataclass(frozen=True)
class NoEventVideo:
    """A drawn video: its kind, its file, its length, and the photograph's file where it shows one."""

    kind: str
    file: Path
    seconds: float
    photograph: Path | None


def write_no_event_videos(
    folder: Path,
    photographs: Sequence[Path],
    each: int,
    seed: int,
    seconds: float | None = None,
    kinds: Collection[str] | None = None,
) -> list[NoEventVideo]:
    """Write no-event videos; those that exist stay.

    Args:
        folder: Where to write them.
        photographs: Videos whose frames become stills.
        each: How many of each kind.
        seed: Videos with other seeds are other videos.
        seconds: The length of each.
        kinds: Which kinds; by default all.

    Returns:
        All of them, in order.
    """
    drawn, seconds = [], seconds or SECONDS
    for place, (kind, draw) in enumerate(KINDS.items()):
        for number in range(each if kinds is None or kind in kinds else 0):
            rng = np.random.default_rng((seed, place, number))
            photograph = photographs[int(rng.integers(len(photographs)))]
            file = folder / f"{NO_EVENT_STEM}-{kind}-{seed}-{number:03d}.mp4"
            form = _Form.any(rng)
            if not file.exists():
                _encode(file, islice(draw(rng, photograph, form.rate), round(seconds * form.rate)), form)
            drawn.append(NoEventVideo(kind, file, seconds, photograph if kind == "still" else None))
    return drawn


@dataclass(frozen=True)
class _Form:
    """The form of a file: frame rate, scale of the pictures, x264 quality."""

    rate: int
    size: float
    quality: int

    @classmethod
    def any(cls, rng: np.random.Generator) -> _Form:
        """A random form."""
        return cls(int(rng.choice(RATES)), float(rng.choice(SIZES)), int(rng.choice(QUALITIES)))


def black(rng: np.random.Generator, _: Path, rate: int) -> Iterator[Picture]:
    """Black, or nearly, with a camera's noise or none; a glow or points of light may stay in it, some breathe."""
    level, grain = rng.integers(0, 20), float(rng.choice([0.0, 1.0, 3.0, 6.0]))
    picture = np.full((HEIGHT, WIDTH, 3), level, np.float32)
    if rng.random() < 0.25:
        picture += 25 * np.linspace(0, 1, WIDTH, dtype=np.float32)[None, :, None] ** 3
    if rng.random() < 0.25:
        picture[rng.integers(HEIGHT, size=20), rng.integers(WIDTH, size=20)] += 60
    seen = _grainy(rng, picture, grain)
    return seen if rng.random() < 0.7 else _pulsing(rng, seen, rate)


def flat(rng: np.random.Generator, _: Path, rate: int) -> Iterator[Picture]:
    """Grey or another colour, even or running over into a second one; it stays, or it comes and goes."""
    colours = rng.integers(20, 236, size=(2, 1 if rng.random() < 0.5 else 3)).astype(np.float32)
    if rng.random() < 0.6:
        colours[1] = colours[0]
    share = np.linspace(0, 1, WIDTH, dtype=np.float32)[None, :, None]
    picture = (1 - share) * colours[0] + share * colours[1] + np.zeros((HEIGHT, 1, 3), np.float32)
    seen = _grainy(rng, picture, float(rng.choice([0.0, 0.0, 2.0, 6.0])))
    return seen if rng.random() < 0.7 else _pulsing(rng, seen, rate)


def noise(rng: np.random.Generator, _: Path, __: int) -> Iterator[Picture]:
    """Random noise: new in every frame, in grains of any size, of all greys or two, or in clouds.

    Some of it flows: much of a frame remains in the next one.
    """
    grain, depth = int(rng.choice([1, 1, 2, 4, 8])), 1 if rng.random() < 0.5 else 3
    middle, spread = rng.uniform(60, 190), rng.uniform(8, 110)
    blur, lit = float(rng.choice([0.0, 0.0, 0.0, 2.0, 6.0, 12.0])), float(rng.choice([0.0, 0.0, 0.02, 0.2, 0.5]))
    size, stays = (HEIGHT // grain, WIDTH // grain, depth), float(rng.choice([0.0, 0.0, 0.0, 0.5, 0.9]))
    before = np.zeros(size)
    while True:
        small = rng.normal(size=size) if not lit else (rng.random(size) < lit) * 2.0 - 1.0
        small = np.asarray(cv2.GaussianBlur(small, (0, 0), blur), np.float64).reshape(size) if blur else small
        before = stays * before + (small - small.mean()) / max(float(small.std()), 1e-9)
        shown = (middle + spread * before / max(float(before.std()), 1e-9)).clip(0, 255).astype(np.uint8)
        sized = cv2.resize(shown, (WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST)
        yield np.asarray(np.broadcast_to(sized.reshape(HEIGHT, WIDTH, depth), (HEIGHT, WIDTH, 3)), np.uint8)


def pattern(rng: np.random.Generator, _: Path, rate: int) -> Iterator[Picture]:
    """A test card: bars, squares or a slope of a few colours; it stays, it rolls by, or a clock counts over it."""
    colours = rng.integers(0, 256, size=(8, 3)).astype(np.float32)
    size = int(rng.integers(8, 40))
    rows, columns = np.arange(HEIGHT) // size, np.arange(WIDTH) // size
    number = (columns[None] + (rows[:, None] if rng.random() < 0.5 else 0 * rows[:, None])) % len(colours)
    picture = colours[number]
    if rng.random() < 0.3:
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), size / 2), np.float32)
    seen = _grainy(rng, picture, float(rng.choice([0.0, 0.0, 0.0, 4.0])))
    chance = rng.random()
    if chance < 0.5:
        return seen
    return _rolling(rng, seen, rate) if chance < 0.75 else _counting(rng, seen, rate)


def still(rng: np.random.Generator, photograph: Path, rate: int) -> Iterator[Picture]:
    """One frame of a video, with a camera's noise or none, within margins or without; some fade in and out."""
    frames = pictures(photograph, rate, (WIDTH, HEIGHT))
    *_, planes = islice(frames, 1 + int(rng.random() * STILL_FROM * rate))
    shown = VideoFrame.from_ndarray(planes, format="yuv420p").to_ndarray(format="rgb24").astype(np.float32)
    if rng.random() < 0.25:
        shown = _within_margins(rng, shown)
    seen = _grainy(rng, shown, float(rng.choice([0.0, 0.0, 2.0, 5.0, 9.0])))
    return seen if rng.random() < 0.9 else _pulsing(rng, seen, rate)


def slides(rng: np.random.Generator, _: Path, rate: int) -> Iterator[Picture]:
    """Pages of a talk, one after another, cut or cross-faded."""
    deck, fade = Deck.any(rng), float(rng.choice([0.0, 0.0, 0.4, 1.0]))  # seconds
    page = draw_page(rng, deck)
    while True:
        yield from repeat(page, round(rng.uniform(*SLIDE_SECONDS) * rate))
        coming = draw_page(rng, deck)
        for share in np.linspace(0, 1, round(fade * rate)):
            yield np.asarray(cv2.addWeighted(page, 1 - share, coming, share, 0), np.uint8)
        page = coming


KINDS: dict[str, Draw] = {
    "black": black,
    "flat": flat,
    "noise": noise,
    "pattern": pattern,
    "still": still,
    "slides": slides,
}


def _grainy(rng: np.random.Generator, picture: npt.NDArray[np.float32], grain: float) -> Iterator[Picture]:
    """One picture repeated, each time with other noise."""
    while True:
        seen = picture + rng.normal(0, grain, size=picture.shape) if grain else picture
        yield np.asarray(seen.clip(0, 255), np.uint8)


def _pulsing(rng: np.random.Generator, shown: Iterator[Picture], rate: int) -> Iterator[Picture]:
    """Darker and lighter again, slowly or all at once."""
    seconds, sudden = rng.uniform(0.5, 6), rng.random() < 0.5
    for number, picture in enumerate(shown):
        light = (1 + np.cos(2 * np.pi * number / rate / seconds)) / 2
        yield np.asarray(picture * (np.round(light) if sudden else light), np.uint8)


def _rolling(rng: np.random.Generator, shown: Iterator[Picture], rate: int) -> Iterator[Picture]:
    """Moving on at a constant speed, what leaves on one side coming back on the other."""
    speed = rng.uniform(-60, 60, size=2) * (rng.random(2) < 0.7)  # pixels a second
    for number, picture in enumerate(shown):
        down, right = (speed * number / rate).astype(int).tolist()
        yield np.roll(picture, (down, right), axis=(0, 1))


def _counting(rng: np.random.Generator, shown: Iterator[Picture], rate: int) -> Iterator[Picture]:
    """A number that is another one every second, and sometimes a hand that goes round."""
    first, hand = int(rng.integers(3, 60)), rng.random() < 0.5
    for number, picture in enumerate(shown):
        seconds, seen = number / rate, picture.copy()
        if hand:
            angle = 2 * np.pi * seconds
            tip = int(WIDTH / 2 + 70 * np.sin(angle)), int(HEIGHT / 2 - 70 * np.cos(angle))
            cv2.line(seen, (WIDTH // 2, HEIGHT // 2), tip, (255, 255, 255), 3)
        cv2.putText(seen, str(first + int(seconds)), (70, 110), cv2.FONT_HERSHEY_DUPLEX, 2.5, (255, 255, 255), 4)
        yield seen


def _within_margins(rng: np.random.Generator, picture: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """A picture made smaller, the rest black or filled with it blurred."""
    across = rng.random() < 0.5
    size = (WIDTH, HEIGHT * 2 // 3) if across else (WIDTH * 3 // 5, HEIGHT)
    around = np.asarray(cv2.GaussianBlur(picture, (0, 0), 15), np.float32) * float(rng.choice([0.0, 1.0]))
    left, top = (WIDTH - size[0]) // 2, (HEIGHT - size[1]) // 2
    around[top : top + size[1], left : left + size[0]] = cv2.resize(picture, size)
    return around


def _encode(path: Path, shown: Iterator[Picture], form: _Form) -> None:
    size = round(WIDTH * form.size / 2) * 2, round(HEIGHT * form.size / 2) * 2
    with atomic_path(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        options = {**ENCODER, "crf": str(form.quality)}
        stream = container.add_stream("libx264", rate=form.rate, options=options)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.codec_context.time_base = Fraction(1, form.rate)
        stream.codec_context.thread_count = 1
        for number, picture in enumerate(shown):
            shrinks = size[0] < picture.shape[1]
            how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
            sized = np.asarray(cv2.resize(picture, size, interpolation=how), np.uint8)
            frame = VideoFrame.from_ndarray(sized, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, form.rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
