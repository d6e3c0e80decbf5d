from __future__ import annotations

import numpy as np
import pytest

from densevid.video.windows import FASTEST, flow_pictures


def moving_texture(per_frame: tuple[float, float], frames: int = 5) -> np.ndarray:
    """A smooth pattern that moves (right, down) by whole or half pixels from frame to frame."""
    row, column = np.mgrid[0:224, 0:224].astype(np.float64)
    run = []
    for number in range(frames):
        x, y = column - number * per_frame[0], row - number * per_frame[1]
        pattern = np.sin(x / 5) * np.cos(y / 6) + np.sin((x + y) / 9) + np.cos((x - 2 * y) / 13)
        run.append(np.repeat(((pattern + 3) * 42).astype(np.uint8)[..., None], 3, axis=2))
    return np.stack(run)[None]


def middle(picture: np.ndarray) -> np.ndarray:
    """The motion in the middle, where the border plays no part, back in pixels per 1/25 s."""
    red, green, blue = np.median(picture[40:-40, 40:-40].reshape(-1, 3).astype(float), axis=0)
    return np.array([(red - 128) * FASTEST / 127, (green - 128) * FASTEST / 127, blue * FASTEST / 255])


@pytest.mark.parametrize("velocity", [(0, 0), (3, 0), (0, -2), (-1.5, 2.5), (6, 6)])
def test_the_picture_shows_the_motion_that_was_there(velocity) -> None:
    seconds = np.arange(5)[None] / 25
    right, down, speed = middle(flow_pictures(moving_texture(velocity), seconds)[0])
    assert (right, down) == pytest.approx(velocity, abs=0.25)
    assert speed == pytest.approx(np.hypot(*velocity), abs=0.3)


def test_speed_is_per_second_whatever_the_frame_rate() -> None:
    slow = flow_pictures(moving_texture((4, 0)), np.arange(5)[None] / 25)
    fast = flow_pictures(moving_texture((2, 0)), np.arange(5)[None] / 50)
    assert middle(slow[0]) == pytest.approx(middle(fast[0]), abs=0.3)


def test_one_repeated_frame_does_not_move() -> None:
    still = np.repeat(moving_texture((0, 0), 1), 5, axis=1)
    assert np.array_equal(np.unique(flow_pictures(still, np.zeros((1, 5))).reshape(-1, 3), axis=0), [[128, 128, 0]])
