"""Timelines and clips as feature sources."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from densevid.config import Config
from densevid.data.dataset import SegmentDataset
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.sources import ClipFeatures, ComposedFeatures
from helpers.clip_collections import write_collection


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> ClipCollection:
    return ClipCollection.read(write_collection(tmp_path_factory.mktemp("sources") / "clips"))


@pytest.fixture(scope="module")
def config() -> Config:
    return Config().with_values(
        {
            "model": {"window": 120, "kernels": [1, 5]},
            "features": {"streams": ["clip"], "widths": [16]},
            "training": {"max_words": 8},
        }
    )


def test_composed_videos_can_be_trained_on_as_any_others(collection: ClipCollection, config: Config) -> None:
    generator = TimelineGenerator(collection, "train")
    source = ComposedFeatures(generator, 12)
    annotations = source.annotations(annotators=2)
    vocabulary = Vocabulary.build(generator.sentences(), min_count=1)
    data = SegmentDataset(annotations, source, vocabulary, config)
    assert len(source) == len(source.videos()) == data.report.videos == 12
    batch = data.collate([data[0], data[len(data) - 1]])
    assert batch.features_BTF.shape == (2, 120, 16)
    video = source.videos()[5]
    assert source.extent(video).steps == len(source.track(video)) and video in source
    events = annotations.events[video]
    assert len(events) == 2 * len(generator.plan(5).events)
    assert max(event.end for event in events) <= source.extent(video).duration + 1e-9
    with pytest.raises(InputError, match="train-9-000000: no features in the timelines of"):
        source.track("train-9-000000")


def test_clips_are_videos_with_one_event_each(collection: ClipCollection) -> None:
    source = ClipFeatures(collection, "test")
    clip = collection.split("test")[3]
    track = source.track(clip.name)
    np.testing.assert_array_equal(track.values, collection.features[clip.first_row : clip.first_row + clip.rows])
    events = source.annotations().events[clip.name]
    assert [event.sentence for event in events] == list(clip.captions)
    assert {(event.start, event.end) for event in events} == {(0.0, clip.seconds)}


def test_composed_videos_travel_to_other_processes(collection: ClipCollection) -> None:
    source = ComposedFeatures(TimelineGenerator(collection, "train"), 3)
    source.annotations()
    sent = pickle.loads(pickle.dumps(source))
    assert sent.annotations() == source.annotations()
    for video in source.videos():
        assert np.array_equal(sent.track(video).values, source.track(video).values)
