"""Generated no-event videos: each kind looks as its name promises."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import av
import numpy as np
import pytest

from densevid.video.composition import pictures
from helpers.made_videos import constant, make_video
from research.bundled_model.no_event_videos import HEIGHT, KINDS, RATES, WIDTH, NoEventVideo, write_no_event_videos


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[NoEventVideo]:
    folder = tmp_path_factory.mktemp("no-events")
    photographs = [make_video(folder / f"clip{n}.mp4", constant(3.0)) for n in range(2)]
    return write_no_event_videos(folder / "videos", photographs, each=1, seed=5, seconds=7.0)


def form(video: NoEventVideo) -> tuple[int, int]:
    """Pictures a second, and how wide they are."""
    with av.open(str(video.file)) as container:
        stream = container.streams.video[0]
        return int(stream.average_rate or 0), stream.width


def shown(video: NoEventVideo) -> np.ndarray:
    rate, _ = form(video)
    return np.stack([picture[:HEIGHT] for picture in pictures(video.file, rate, (WIDTH, HEIGHT))]).astype(float)


def test_they_have_many_rates_and_sizes(drawn: list[NoEventVideo]) -> None:
    rates, widths = zip(*map(form, drawn), strict=True)
    assert set(rates) <= set(RATES) and len(set(rates)) > 2 and len(set(widths)) > 1


def test_every_kind_is_drawn_as_often_as_asked(drawn: list[NoEventVideo]) -> None:
    assert [video.kind for video in drawn] == list(KINDS)
    assert len({video.file.name for video in drawn}) == len(drawn)
    assert all((video.photograph is not None) == (video.kind == "still") for video in drawn)


def test_they_show_what_they_are_called(drawn: list[NoEventVideo]) -> None:
    for video in drawn:
        light_THW = shown(video)
        assert len(light_THW) == 7 * form(video)[0]
        change = np.abs(np.diff(light_THW, axis=0)).mean(axis=(1, 2))
        if video.kind == "black":
            assert light_THW.max() < 60
        elif video.kind == "noise":
            assert change.min() > 1, "every picture is another"
        elif video.kind == "slides":
            assert change.max() > 1 and np.median(change) < 0.3, "pages that stay for seconds"
        else:
            assert change.max() < 12, "it stays as it is, but for a camera's noise"
        if video.kind in ("still", "pattern", "slides"):
            assert light_THW[0].std() > 10, "there is something to see"


def drawn_pictures(kind: str, seed: int, count: int = 20) -> list[np.ndarray]:
    """Before they are encoded, ten a second."""
    shown = KINDS[kind](np.random.default_rng(seed), Path("no photograph"), 10)
    return [picture.astype(float) for picture in islice(shown, count)]


def test_a_pattern_stays_rolls_or_counts() -> None:
    found = set()
    for seed in range(16):
        first, *_, last = drawn_pictures("pattern", seed)
        alike = np.abs(np.sort(first.ravel()) - np.sort(last.ravel())).max() < 12  # but for grain
        changed = (np.abs(first - last).max(axis=2) > 40).mean()
        found.add("stays" if changed < 0.01 else "rolls" if alike else "counts")
        assert alike or 0.005 < changed < 0.3, "a number changes in the middle of it"
    assert found == {"stays", "rolls", "counts"}


def test_a_colour_stays_or_pulses() -> None:
    light = [[picture.mean() for picture in drawn_pictures("flat", seed)] for seed in range(12)]
    assert 0 < sum(min(each) < 0.9 * each[0] for each in light) < 12


def test_a_photograph_may_have_margins(drawn: list[NoEventVideo]) -> None:
    photograph = next(video.photograph for video in drawn if video.photograph is not None)
    stills = [next(KINDS["still"](np.random.default_rng(seed), photograph, 10)) for seed in range(40)]
    dark = [min(picture[:5].mean(), picture[:, :5].mean()) < 8 for picture in stills]  # but for grain
    assert 0 < sum(dark) < 20


def test_noise_has_one_middle_whatever_its_grain() -> None:
    for seed in range(8):
        light = [picture.mean() for picture in drawn_pictures("noise", seed, 6)]
        assert np.std(light) < 12 and 20 < np.mean(light) < 235


def test_the_same_seed_draws_the_same_and_another_does_not(drawn: list[NoEventVideo], tmp_path: Path) -> None:
    photographs = [drawn[0].file, drawn[1].file]
    again, other = (write_no_event_videos(tmp_path / str(seed), photographs, 1, seed, 1.0) for seed in (5, 6))
    slides = [next(video for video in videos if video.kind == "slides") for videos in (drawn, again, other)]
    first = [shown(video)[0] for video in slides]
    np.testing.assert_allclose(first[0], first[1], atol=3)
    assert np.abs(first[0] - first[2]).mean() > 3
    before = [video.file.stat().st_mtime_ns for video in again]
    write_no_event_videos(tmp_path / "5", photographs, 1, 5, 1.0)
    assert [video.file.stat().st_mtime_ns for video in again] == before, "what is there stays"
