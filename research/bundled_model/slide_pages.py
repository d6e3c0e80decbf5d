"""Generated pages of slides: a title over a list, prose, a table, a chart or a quotation, in the style of one deck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]  # height x width x 3, red green blue
Colour = tuple[int, int, int]
WIDTH, HEIGHT, MARGIN = 672, 504, 40
WORDS = (
    "overview results method figure budget year plan growth summary team market data question answer goals time the of "
    "and in to we for a with is next first how why what people water energy city world history model value cost risk"
)
FONTS = (
    cv2.FONT_HERSHEY_SIMPLEX,
    cv2.FONT_HERSHEY_DUPLEX,
    cv2.FONT_HERSHEY_COMPLEX,
    cv2.FONT_HERSHEY_TRIPLEX,
    cv2.FONT_HERSHEY_SCRIPT_COMPLEX,
)


@dataclass(frozen=True)
class Deck:
    """What the pages of one talk have in common."""

    paper: Colour
    ink: Colour
    accents: tuple[Colour, ...]
    font: int
    letters: float  # how large
    band: bool  # whether a title stands on a band of colour

    @classmethod
    def any(cls, rng: np.random.Generator) -> Deck:
        """Dark on light, or light on dark."""
        dark = rng.random() < 0.4
        paper = _colour(rng, 0, 70) if dark else _colour(rng, 200, 256)
        ink = _colour(rng, 190, 256) if dark else _colour(rng, 0, 90)
        accents = tuple(_colour(rng, 20, 236) for _ in range(5))
        return cls(paper, ink, accents, int(rng.choice(FONTS)), rng.uniform(0.8, 1.3), rng.random() < 0.4)


def draw_page(rng: np.random.Generator, deck: Deck) -> Picture:
    """A page of any layout; most have a title."""
    page = np.ascontiguousarray(np.broadcast_to(np.array(deck.paper, np.uint8), (HEIGHT, WIDTH, 3)))
    if deck.band:
        cv2.rectangle(page, (0, 0), (WIDTH, 100), deck.accents[0], -1)
    if rng.random() < 0.85:
        _write(page, rng, deck, int(rng.integers(1, 5)), (MARGIN, 75), 1.5)
    layout = LAYOUTS[int(rng.integers(len(LAYOUTS)))]
    layout(page, rng, deck)
    return page


def _list(page: Picture, rng: np.random.Generator, deck: Deck) -> None:
    for line in range(int(rng.integers(2, 7))):
        height = 160 + 52 * line
        cv2.circle(page, (MARGIN + 8, height - 8), 6, deck.accents[1], -1)
        _write(page, rng, deck, int(rng.integers(2, 7)), (MARGIN + 30, height), 0.9)


def _prose(page: Picture, rng: np.random.Generator, deck: Deck) -> None:
    for line in range(int(rng.integers(6, 15))):
        _write(page, rng, deck, int(rng.integers(6, 11)), (MARGIN, 140 + 24 * line), 0.55)


def _table(page: Picture, rng: np.random.Generator, deck: Deck) -> None:
    rows, columns = int(rng.integers(3, 8)), int(rng.integers(2, 6))
    high, wide = 350 // rows, (WIDTH - 2 * MARGIN) // columns
    for row in range(rows):
        for column in range(columns):
            left, top = MARGIN + wide * column, 130 + high * row
            fill = -1 if row == 0 and deck.band else 1
            cv2.rectangle(page, (left, top), (left + wide, top + high), deck.accents[2] if fill < 0 else deck.ink, fill)
            _write(page, rng, deck, 1, (left + 8, top + high - 12), 0.5)


def _bars(page: Picture, rng: np.random.Generator, deck: Deck) -> None:
    count = int(rng.integers(3, 9))
    wide = (WIDTH - 2 * MARGIN) // count
    for bar, top in enumerate(rng.integers(140, 420, size=count).tolist()):
        left, colour = MARGIN + wide * bar, deck.accents[bar % len(deck.accents)]
        cv2.rectangle(page, (left, top), (left + wide * 2 // 3, 450), colour, -1)
    cv2.line(page, (MARGIN, 450), (WIDTH - MARGIN, 450), deck.ink, 2)


def _curves(page: Picture, rng: np.random.Generator, deck: Deck) -> None:
    across = np.linspace(MARGIN, WIDTH - MARGIN, 24)
    for colour in deck.accents[: int(rng.integers(1, 4))]:
        up = 300 + np.cumsum(rng.normal(0, 18, size=24)).clip(-150, 140)
        cv2.polylines(page, [np.stack([across, up], axis=1).astype(np.int32)], False, colour, 3, cv2.LINE_AA)
    cv2.line(page, (MARGIN, 450), (WIDTH - MARGIN, 450), deck.ink, 2)
    cv2.line(page, (MARGIN, 130), (MARGIN, 450), deck.ink, 2)


def _pie(page: Picture, rng: np.random.Generator, deck: Deck) -> None:
    ends = np.cumsum(rng.dirichlet(np.ones(len(deck.accents)))) * 360
    middle, begin = (int(rng.integers(180, 480)), 300), 0.0
    for end, colour in zip(ends.tolist(), deck.accents, strict=True):
        cv2.ellipse(page, middle, (140, 140), 0, begin, end, colour, -1)
        begin = end


def _quotation(page: Picture, rng: np.random.Generator, deck: Deck) -> None:
    for line in range(int(rng.integers(1, 4))):
        _write(page, rng, deck, int(rng.integers(2, 5)), (int(rng.integers(40, 160)), 230 + 70 * line), 1.4)


LAYOUTS: tuple[Callable[[Picture, np.random.Generator, Deck], None], ...] = (
    _list,
    _list,
    _prose,
    _table,
    _bars,
    _curves,
    _pie,
    _quotation,
)


def _write(
    page: Picture, rng: np.random.Generator, deck: Deck, words: int, place: tuple[int, int], size: float
) -> None:
    text = " ".join(rng.choice(WORDS.split(), size=words)).capitalize()
    cv2.putText(page, text, place, deck.font, size * deck.letters, deck.ink, 1 + int(size > 1), cv2.LINE_AA)


def _colour(rng: np.random.Generator, low: int, high: int) -> Colour:
    red, green, blue = rng.integers(low, high, size=3).tolist()
    return red, green, blue
