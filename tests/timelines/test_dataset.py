"""Samples of composed videos and of clips: targets, shared features, and permuted channels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.config import Config
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataset import GROUP, TimelineDataset, channel_permuted
from helpers.clip_collections import write_collection
from helpers.timeline_setup import make


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> ClipCollection:
    return ClipCollection.read(write_collection(tmp_path_factory.mktemp("samples") / "clips"))


def test_samples_depend_on_their_index_alone(collection: ClipCollection) -> None:
    samples, again = make(collection), make(collection, timelines=99)
    assert len(samples) == 24 and len(again) == 99
    for index in (10**6 + 3, 2):
        first, second = samples[index], again[index]
        assert np.array_equal(first.features_TF, second.features_TF) and torch.equal(first.words_PL, second.words_PL)
        assert first.segment_index_P.tolist() == second.segment_index_P.tolist()
        assert int(first.segment_index_P) < len(first.events_G2)
        assert (first.events_G2[:, 0] < first.events_G2[:, 1]).all() and first.events_G2.max() <= first.steps
    words = {tuple(samples[index].words_PL.flatten().tolist()) for index in range(20)}
    assert len(words) > 5


def test_a_clip_is_one_event_with_several_captions(collection: ClipCollection) -> None:
    samples = make(collection, sentences_per_clip=3)
    clip = samples.clip(4)
    assert clip.video in {clip.name for clip in collection.clips}
    assert clip.events_G2.tolist() == [[0.0, float(clip.steps)]]
    assert clip.segment_index_P.tolist() == [0, 0, 0] and len(set(clip.number_P.tolist())) == 3
    assert len({tuple(words) for words in clip.words_PL.tolist()}) > 1
    assert len({samples.clip(index).video for index in range(20)}) > 5


def test_the_captions_task_trains_on_background_clips_too(collection: ClipCollection) -> None:
    events, words = make(collection), make(collection, task="captions")
    background = {clip.name for clip in events.generator.pool.background.clips if clip.captions}
    shown = [{samples.clip(index).video for index in range(400)} for samples in (events, words)]
    assert background and not shown[0] & background and shown[1] & background
    assert shown[1] <= {clip.name for clip in collection.split("train")}


def test_a_share_of_the_videos_is_permuted_and_has_no_captions(collection: ClipCollection) -> None:
    plain, half = make(collection), make(collection, channel_permuted=0.5, proposal_loss="overlap")
    hidden = [index for index in range(40) if not len(half[index].number_P)]
    assert 10 < len(hidden) < 30
    for index in range(40):
        shown, known = half[index], plain[index]
        assert torch.equal(shown.events_G2, known.events_G2)
        lengths = (np.linalg.norm(sample.features_TF.astype(float), axis=1) for sample in (shown, known))
        assert np.allclose(*lengths, rtol=1e-3)
        assert np.array_equal(shown.features_TF, known.features_TF) == (index not in hidden)


def test_several_events_of_a_video_share_its_features(collection: ClipCollection) -> None:
    samples = make(collection, segments_per_video=3)
    found = [samples[index] for index in range(12)]
    assert all(len(s.number_P) == min(3, len(s.events_G2)) == len(s.words_PL) for s in found)
    assert max(len(s.number_P) for s in found) > 1
    numbers = [number for s in found for number in s.number_P.tolist()]
    assert len(set(numbers)) == len(numbers)


def test_other_features_than_the_settings_want_are_refused(collection: ClipCollection) -> None:
    generator = TimelineGenerator(collection, "train")
    vocabulary = Vocabulary.build(generator.sentences(), min_count=1)
    with pytest.raises(InputError, match=r"are \(16,\) wide, the settings want \(2048, 1024\)"):
        TimelineDataset(generator, vocabulary, Config())


@given(steps=st.integers(1, 6), width=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_permuted_channels_keep_lengths_and_distances(steps: int, width: int, seed: int) -> None:
    values_TF = np.random.default_rng(seed).normal(size=(steps, width))
    shown_TF = channel_permuted(values_TF, np.random.default_rng(seed))
    assert np.allclose(shown_TF @ shown_TF.T, values_TF @ values_TF.T)


def test_channels_are_permuted_within_groups_and_signs_flip() -> None:
    width = 3 * GROUP + 5
    axis_F = np.arange(1.0, width + 1)
    shown_F = channel_permuted(axis_F[None], np.random.default_rng(0))[0]
    came_from_F = np.abs(shown_F).astype(int) - 1
    assert sorted(came_from_F) == list(range(width))
    assert np.array_equal(came_from_F // GROUP, np.arange(width) // GROUP)
    assert not np.array_equal(came_from_F, np.arange(width))
    assert 0.2 < (shown_F < 0).mean() < 0.8


def test_two_videos_are_permuted_differently_and_stay_float16() -> None:
    rng, values_TF = np.random.default_rng(0), np.ones((2, 64), dtype=np.float16)
    first_TF, second_TF = channel_permuted(values_TF, rng), channel_permuted(values_TF, rng)
    assert first_TF.dtype == np.float16
    assert np.array_equal(first_TF[0], first_TF[1])
    assert not np.array_equal(first_TF, second_TF)
