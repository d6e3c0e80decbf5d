"""Thumbnails show the frame that is on the screen at their time, however they are reached."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from densevid.errors import InputError
from densevid.export.thumbnails import thumbnails
from helpers.made_videos import constant, make_sound, make_video, number_of


def numbers(video: Path, seconds: list[float]) -> list[int]:
    found = thumbnails(video, seconds)
    return [number_of(cv2.imdecode(np.frombuffer(jpeg or b"", np.uint8), cv2.IMREAD_COLOR)) for jpeg in found]


@pytest.mark.parametrize("start", [0.0, 3.0], ids=["from zero", "after the sound"])
def test_near_and_far_times_give_their_own_frames(tmp_path: Path, start: float) -> None:
    times = constant(40, fps=10, start=start)
    sound = {"sound_from": 0.0} if start else {}
    video = make_video(tmp_path / "clip.mp4", times, options={"g": "30"}, **sound)
    wanted = [25.04, 3.01, 3.06, 3.51, 38.99, 12.31, start]
    expected = [int(np.searchsorted(times, second + 1e-6, side="right")) - 1 for second in wanted]
    assert numbers(video, wanted) == expected


def test_a_container_without_times(tmp_path: Path) -> None:
    video = make_video(tmp_path / "clip.avi", constant(20, fps=10), codec="mpeg4", container="avi", fps=10)
    assert numbers(video, [0.05, 1.55, 15.05]) == [0, 15, 150]


@pytest.mark.parametrize("ending, codec", [("avi", "mpeg4"), ("avi", "libx264"), ("mp4", "libx264"), ("mkv", "mpeg4")])
def test_just_before_a_key_frame_too(tmp_path: Path, ending: str, codec: str) -> None:
    """Some formats jump to the key frame after a time that lies close before it."""
    options = {"g": "73", "sc_threshold": "0", "bf": "0"}
    video = make_video(tmp_path / f"clip.{ending}", constant(20, fps=10), codec=codec, options=options, fps=10)
    assert numbers(video, [0.0, 7.25]) == [0, 72]
    assert numbers(video, [0.0, 7.29, 14.55]) == [0, 72, 145]
    assert numbers(video, [0.0, 7.31, 14.61]) == [0, 73, 146]


def test_times_beyond_the_ends_give_the_nearest_frame(tmp_path: Path) -> None:
    video = make_video(tmp_path / "clip.mp4", constant(3, fps=10))
    assert numbers(video, [-1.0, 99.0]) == [0, 29]


def test_pictures_are_small_and_keep_their_shape(tmp_path: Path) -> None:
    video = make_video(tmp_path / "clip.mp4", constant(1), size=(1280, 320))
    (jpeg,) = thumbnails(video, [0.5])
    assert cv2.imdecode(np.frombuffer(jpeg or b"", np.uint8), cv2.IMREAD_COLOR).shape == (60, 240, 3)


def test_a_file_cut_short_gives_what_it_can(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "clip.mkv", constant(20, fps=10), options={"g": "10"})
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    first, last = thumbnails(cut, [1.0, 19.0])
    assert first is not None and last is not None


def test_what_is_no_video_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only sound"):
        thumbnails(make_sound(tmp_path / "sound.m4a"), [0.0])
    assert thumbnails(tmp_path / "absent.mp4", []) == []
