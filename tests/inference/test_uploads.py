"""Batches on their way to the device: zeros behind short videos; half precision is a shorter way to the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from densevid.errors import InputError
from densevid.inference.captioner import Captioner
from densevid.tracks import FeatureTrack
from helpers.random_models import random_model, random_track


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
def test_what_is_no_number_is_found_in_half_precision_too(captioner: Captioner, bad: float) -> None:
    track = halved(TRACKS[0])
    track.values[17, 3] = bad
    with pytest.raises(InputError, match="NaN, infinity"):
        captioner.read(track)
    large = replace(track, values=np.full((40, 10), 60000, dtype=np.float16))  # their sum is no half, but they are
    assert len(captioner.read(large).values_TF) == 40
