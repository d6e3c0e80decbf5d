"""Batches of videos: how many share one, what bounds their memory, and their features on the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.errors import InputError
from densevid.inference.batches import Batches, ModelInput
from densevid.inference.captioner import Captioner
from densevid.inference.nms import best
from densevid.tracks import Clock, FeatureTrack
from helpers.random_models import random_model, random_track

CLOCK = Clock.uniform(0.5)


def video(steps: int) -> ModelInput:
    return ModelInput(np.zeros((steps, 1), dtype=np.float32), CLOCK)


@pytest.mark.parametrize(("events", "videos"), [(186, 16), (500, 16), (100, 30), (10, 64), (0, 64)])
def test_few_events_a_video_make_many_videos_a_batch(events: int, videos: int) -> None:
    batches, sizes = Batches(10, on_gpu=True), []
    for batch in batches(video(10) for _ in range(200)):
        sizes.append(len(batch))
        batches.learn(len(batch), events * len(batch))
    assert sizes[:2] == [16, videos] and sum(sizes) == 200 and set(sizes[1:-1]) == {videos}


@pytest.mark.parametrize(("on_gpu", "steps", "videos"), [(False, None, 4), (True, 50, 5)])
def test_the_bounds_of_memory_limit_a_batch(on_gpu: bool, steps: int | None, videos: int) -> None:
    batches = Batches(10, on_gpu=on_gpu, steps=steps)
    for batch in batches(video(10) for _ in range(20)):
        assert len(batch) == videos
        batches.learn(len(batch), 0)


@given(lengths=st.lists(st.integers(1, 30), max_size=40), steps=st.integers(1, 99))
def test_every_video_is_in_one_batch_that_fits(lengths: list[int], steps: int) -> None:
    found = list(Batches(30, on_gpu=True, steps=steps)(map(video, lengths)))
    assert [len(read.values_TF) for batch in found for read in batch] == lengths
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(len(read.values_TF) for read in batch) <= steps


def test_a_captioner_learns_from_what_was_chosen() -> None:
    captioner, tracks = Captioner(random_model()), [random_track(40, seed) for seed in range(90)]
    captioner.ahead = True  # as on a GPU
    sizes: list[int] = []

    def one(selection):  # type: ignore[no-untyped-def]
        sizes.append(len(selection.kept_BK))
        return best(selection, 1)

    assert [len(video.sentences) for video in captioner.captioned(tracks, choose=one)] == [1] * 90
    assert sizes == [16, 64, 10]


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    return Captioner(random_model())


def halved(track: FeatureTrack) -> FeatureTrack:
    return replace(track, values=track.values.astype(np.float16))


def widened(track: FeatureTrack) -> FeatureTrack:
    return replace(track, values=track.values.astype(np.float16).astype(np.float32))


TRACKS = [random_track(steps, steps) for steps in (40, 13, 29)]


def test_videos_are_padded_with_zeros(captioner: Captioner) -> None:
    uploaded = captioner.uploads([captioner.read(track) for track in TRACKS])
    assert uploaded.features_BTF.shape == (3, 40, 10) and uploaded.padded
    assert uploaded.lengths.steps_B.tolist() == [40, 13, 29]
    for row_TF, track in zip(uploaded.features_BTF.numpy(), TRACKS, strict=True):
        np.testing.assert_array_equal(row_TF[: len(track)], track.values)
        assert not row_TF[len(track) :].any()


@pytest.mark.parametrize("mixed", [False, True])
def test_half_precision_arrives_as_the_same_numbers(captioner: Captioner, mixed: bool) -> None:
    given = [halved(TRACKS[0]), widened(TRACKS[1]) if mixed else halved(TRACKS[1]), halved(TRACKS[2])]
    ours, theirs = (captioner.uploads(list(map(captioner.read, tracks))) for tracks in (given, map(widened, TRACKS)))
    assert ours.features_BTF.dtype == torch.float32
    assert torch.equal(ours.features_BTF, theirs.features_BTF)
    assert captioner.read(halved(TRACKS[0])).values_TF.dtype == np.float16
    assert list(captioner.caption_many(given)) == list(captioner.caption_many(map(widened, TRACKS)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused_in_half_precision_too(captioner: Captioner, bad: float) -> None:
    track = halved(TRACKS[0])
    track.values[17, 3] = bad
    with pytest.raises(InputError, match="NaN, infinity"):
        captioner.read(track)
    large = replace(track, values=np.full((40, 10), 60000, dtype=np.float16))  # their sum is no half, but they are
    assert len(captioner.read(large).values_TF) == 40
