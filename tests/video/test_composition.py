"""Composed videos show the very frames they should, and dissolve from one shot to the next."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from densevid.errors import InputError
from densevid.video.composition import Blend, PictureShot, composed, pictures, thumbnails, write_video
from helpers.made_videos import Picture, make_video, number_of

SIZE = (192, 128)


def grey(level: int) -> Picture:
    return np.full((128, 192, 3), level, dtype=np.uint8)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("made") / "counted.mp4", np.arange(100) / 25)


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("made")
    return [
        make_video(folder / f"{level}.mp4", np.arange(50) / 25, picture=lambda _, level=level: grey(level))
        for level in (40, 200)
    ]


def shown(path: Path) -> list[int]:
    with av.open(str(path)) as container:
        return [number_of(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]


def test_pictures_are_the_frames_on_the_screen_at_each_time(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.13, 0.5, 0.52, 0.9]  # uneven, as phones film
    path = make_video(tmp_path / "uneven.mp4", times)
    found = [number_of(np.repeat(p[:128, :, None], 3, axis=2)) for p in pictures(path, 25, SIZE)]
    expected = [max(n for n, time in enumerate(times) if time <= i / 25 + 1e-6) for i in range(len(found))]
    assert found == expected
    assert len(found) == 24  # the last one is seen at .92 too, as its end is unknown


def test_a_written_video_holds_the_asked_frames_in_order(counted: Path, tmp_path: Path) -> None:
    shots = [PictureShot(counted, 100, 70, 20), PictureShot(counted, 100, 5, 30), PictureShot(counted, 100, 90, 25)]
    write_video(tmp_path / "out.mp4", shots, {}, 25)
    assert shown(tmp_path / "out.mp4") == [*range(70, 90), *range(5, 35), *range(90, 100), *range(15)]


def test_a_dissolve_mixes_in_proportion_and_nothing_else_changes(levels: list[Path]) -> None:
    shots = [PictureShot(levels[0], 50, 0, 30), PictureShot(levels[1], 50, 10, 30)]
    plain = [float(p[:128].mean()) for p in composed(shots, {}, 25, SIZE)]
    for start in (20, 25):  # ends at the joint, lies around it
        soft = [float(p[:128].mean()) for p in composed(shots, {1: Blend(start, 10)}, 25, SIZE)]
        assert len(soft) == len(plain) == 60
        share = np.clip((np.arange(60) - start + 0.5) / 10, 0, 1)
        share[:start], share[start + 10 :] = 0, 1
        expected = plain[0] + share * (plain[-1] - plain[0])
        np.testing.assert_allclose(soft, expected, atol=1.5)


def test_dissolves_show_the_frames_before_and_after_a_shot(counted: Path, levels: list[Path]) -> None:
    """What comes in is the shot before its beginning, so that its first own picture follows without a jump."""
    black = PictureShot(levels[0], 50, 0, 20)
    soft = list(composed([black, PictureShot(counted, 100, 30, 20)], {1: Blend(15, 5)}, 25, SIZE))
    number = number_of(np.repeat((soft[19][:128, :, None] > 90).astype(np.uint8) * 255, 3, axis=2))
    assert number == 29
    assert number_of(np.repeat(soft[20][:128, :, None], 3, axis=2)) == 30


def test_a_file_that_ends_early_holds_its_last_picture(counted: Path) -> None:
    held = list(composed([PictureShot(counted, 110, 95, 10)], {}, 25, SIZE))
    assert [number_of(np.repeat(p[:128, :, None], 3, axis=2)) for p in held] == [*range(95, 100), *[99] * 5]


def test_nothing_is_left_behind_when_a_clip_cannot_be_read(counted: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"nothing")
    shots = [PictureShot(counted, 100, 0, 20), PictureShot(tmp_path / "bad.mp4", 100, 0, 20)]
    with pytest.raises(InputError, match=r"bad.mp4: not a video"):
        write_video(tmp_path / "out.mp4", shots, {}, 25)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.mp4"]


def test_thumbnails_tell_clips_apart(counted: Path, levels: list[Path]) -> None:
    assert thumbnails(counted).shape == thumbnails(levels[0]).shape == (4 * 16 * 12,)
    assert abs(thumbnails(levels[0])).max() < 2 < abs(thumbnails(counted)).max()
