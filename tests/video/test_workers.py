from __future__ import annotations

from densevid.tracks import FeatureTrack
from densevid.video.backbones import plug_in
from densevid.video.extract import Extractor
from densevid.video.workers import Job, _Worker
from helpers.made_videos import constant, make_video


def colours(pictures):
    return pictures.mean(axis=(1, 2, 3))


def nowhere(video: str, track: FeatureTrack) -> None:
    """A place to save that keeps nothing."""


def test_a_worker_that_dies_while_it_waits_is_replaced(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(1.0))
    worker = _Worker(Extractor(plug_in(colours, size=32), threads=1), nowhere)
    try:
        worker._process.kill()
        worker._process.join()
        worker._process.is_alive = lambda: True  # type: ignore[method-assign]  # it died just after this check
        worker.start(Job("a", path))
        outcome = worker.outcome()
    finally:
        worker.stop()
    assert outcome.error is None and outcome.steps == 2
