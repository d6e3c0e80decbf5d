"""A sentence drawn into a picture: at the bottom, on a dark ground, as large as the picture allows."""

from __future__ import annotations

import textwrap
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from densevid.export.subtitles import printable

Picture = npt.NDArray[np.uint8]  # height x width x 3
SMALLEST_LETTER, LETTER_SHARE = 11, 1 / 20  # pixels; of the shorter side
WIDTH_OF_LETTERS = 0.5  # of their height, about
GROUND = 0.35  # how bright what lies behind the letters stays


def draw_sentence(picture: Picture, sentence: str) -> Picture:
    """The picture with the sentence in it, on as many lines as it takes."""
    height, width = picture.shape[:2]
    letter = max(SMALLEST_LETTER, round(min(height, width) * LETTER_SHARE))
    line_height = round(letter * 1.5)
    room = max(8, int(width * 0.94 / (letter * WIDTH_OF_LETTERS)))
    lines = textwrap.wrap(printable(sentence), room)[: max(1, height // (2 * line_height))]
    drawn = picture.copy()
    top = height - line_height * len(lines) - letter // 2
    drawn[max(0, top) :] = (drawn[max(0, top) :] * GROUND).astype(np.uint8)
    for number, line in enumerate(lines):
        baseline = top + line_height * number + round(letter * 1.15)
        drawn = _put_line(drawn, line, baseline, letter)
    return drawn


def _put_line(picture: Picture, line: str, baseline: int, letter: int) -> Picture:
    """One line in the middle; OpenCV 5 has a typeface with all letters, older ones draw ASCII alone."""
    width = picture.shape[1]
    if hasattr(cv2, "FontFace"):
        modern: Any = cv2
        face = modern.FontFace("sans")
        (_, _, wide, _) = modern.getTextSize((width, 0), line, (0, 0), face, letter)
        origin = (max(0, (width - wide) // 2), baseline)
        modern.putText(picture, line, origin, (255, 255, 255), face, letter)
        return picture
    plain = line.encode("ascii", "replace").decode()
    font, scale = cv2.FONT_HERSHEY_DUPLEX, letter / 30
    (wide, _), _ = cv2.getTextSize(plain, font, scale, 1)
    origin = (max(0, (width - wide) // 2), baseline)
    cv2.putText(picture, plain, origin, font, scale, (255, 255, 255), 1, cv2.LINE_AA)
    return picture
