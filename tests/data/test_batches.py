"""Samples and batches: steps by the track's clock, cut to the window, padded, all of it checked by plain loops."""

from __future__ import annotations

import multiprocessing
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from densevid.config import Config, load_config
from densevid.data.annotations import Annotations, read_annotations
from densevid.data.batches import Batch
from densevid.data.dataloader import epoch_order
from densevid.data.dataset import SegmentDataset
from densevid.data.store.reader import FeatureStore
from densevid.data.vocabulary import EOS, INIT, PAD, Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.tracks import Clock, Extent, FeatureTrack

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
STREAMS = (("a", 3), ("b", 2))
SENTENCES = ["the dog runs", "a man walks", "the end", "a dog", "the man"]
VOCABULARY = Vocabulary.build(SENTENCES, 1)
WINDOW, MAX_WORDS = 8, 4


def config(**more: int) -> Config:
    window = more.get("window", WINDOW)
    assignments = [f"model.window={window}", "model.kernels=[1, 2]", f"training.max_words={MAX_WORDS}"]
    return load_config(None, [*assignments, 'features.streams=["a", "b"]', "features.widths=[3, 2]"])


def store_of(path: Path, clocks: dict[str, Clock], steps: dict[str, int]) -> FeatureStore:
    store = FeatureStore.create(path, STREAMS)
    for number, (video, clock) in enumerate(clocks.items()):
        values = np.random.default_rng(number).normal(size=(steps[video], 5)).astype(np.float16)
        store.add(video, FeatureTrack(values, clock, STREAMS))
    store.refresh()
    return store


@pytest.fixture
def dataset(tmp_path: Path) -> SegmentDataset:
    events = {
        "short": [Event(0, 1, SENTENCES[0]), Event(0.5, 2.5, SENTENCES[1])],
        "featureless": [Event(0, 1, "nobody sees this")],
        "long": [
            Event(3, 5, SENTENCES[2]),
            Event(4, 6, "left out: it starts where the window ends"),
            Event(1, 2, SENTENCES[3]),
        ],
        "uneven": [Event(0.5, 4, SENTENCES[4])],
        "eventless": [],
    }
    clocks = {
        "short": Clock.uniform(0.5),
        "long": Clock.uniform(0.5),
        "uneven": Clock.from_edges([0, 1, 3, 7]),
        "eventless": Clock.uniform(1),
    }
    source = store_of(tmp_path, clocks, {"short": 4, "long": 30, "uneven": 3, "eventless": 2})
    return SegmentDataset(Annotations(events, dict.fromkeys(events), []), source, VOCABULARY, config())


def test_every_usable_segment_is_a_sample(dataset: SegmentDataset) -> None:
    assert len(dataset) == 5
    assert dataset.report.summary() == (
        "5 segments of 4 videos; 1 videos without features; "
        "1 segments outside the window left out; 1 segments cut at the end of the window"
    )


def test_a_batch_has_every_field_of_its_samples(dataset: SegmentDataset) -> None:
    batch = dataset.collate([dataset[index] for index in range(5)])
    assert batch.videos == ["short", "short", "long", "long", "uneven"] and len(batch) == 5
    assert batch.features_BTF.shape == (5, WINDOW, 5) and batch.features_BTF.dtype == torch.float16
    assert batch.valid_BT.sum(1).tolist() == [4, 4, 8, 8, 3] and batch.valid_BT.dtype == torch.bool
    for features_TF, valid_T, video in zip(batch.features_BTF, batch.valid_BT, batch.videos, strict=True):
        wanted = dataset.source.track(video).values[:WINDOW]
        np.testing.assert_array_equal(features_TF[valid_T].numpy(), wanted)
        assert not features_TF[~valid_T].any() and valid_T[: len(wanted)].all()
    short, long, uneven = [[0, 2], [1, 4]], [[6, 8], [2, 4]], [[0.5, 2.25], [0, 0]]
    assert batch.events_BG2.tolist() == [
        short,
        short,
        long,
        long,
        uneven,
    ]  # short: its second event ends with the track
    assert batch.event_valid_BG.tolist() == [[True, True]] * 4 + [[True, False]]
    assert batch.segment_index_P.tolist() == [0, 1, 0, 1, 0]
    assert batch.segment_P2.tolist() == [[0, 2], [1, 4], [6, 8], [2, 4], [0.5, 2.25]]
    assert batch.words_PL.shape == (5, MAX_WORDS + 1) and batch.words_PL.dtype == torch.int64
    for words_L, sentence in zip(batch.words_PL.tolist(), SENTENCES, strict=True):
        assert words_L[0] == INIT and VOCABULARY.decode(words_L[1:]) == sentence
        assert set(words_L[words_L.index(EOS) + 1 :]) <= {PAD}


def test_a_batch_moves_as_a_whole(dataset: SegmentDataset) -> None:
    batch = dataset.collate([dataset[0], dataset[4]])
    moved = batch.to("meta")
    assert moved.videos == batch.videos
    for item in fields(Batch)[1:]:
        value = getattr(moved, item.name)
        if isinstance(value, torch.Tensor):
            assert value.device.type == "meta" and value.shape == getattr(batch, item.name).shape


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_loading_processes_give_the_same_batches(dataset: SegmentDataset, start: str) -> None:
    sequence = epoch_order(len(dataset), seed=1, epoch=0)
    loader = DataLoader(
        dataset,
        batch_size=2,
        sampler=sequence,
        collate_fn=dataset.collate,
        num_workers=1,
        multiprocessing_context=multiprocessing.get_context(start),
    )
    batches = list(loader)
    assert [len(batch) for batch in batches] == [2, 2, 1]
    for number, batch in enumerate(batches):
        wanted = dataset.collate([dataset[index] for index in sequence[2 * number : 2 * number + 2]])
        assert batch.videos == wanted.videos
        for ours, theirs in ((getattr(batch, item.name), getattr(wanted, item.name)) for item in fields(Batch)[1:]):
            assert torch.equal(ours, theirs) if isinstance(ours, torch.Tensor) else ours == theirs


def test_order_depends_on_seed_and_epoch_alone() -> None:
    assert epoch_order(50, 3, 2) == epoch_order(50, 3, 2) and sorted(epoch_order(50, 3, 2)) == list(range(50))
    assert len({tuple(epoch_order(50, seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_annotations_and_features_without_a_common_video_are_refused(tmp_path: Path) -> None:
    source = store_of(tmp_path / "s", {"abc": Clock.uniform(1)}, {"abc": 4})
    apart = Annotations({"v_abc": [Event(0, 1, "x")]}, {}, [])
    with pytest.raises(InputError, match=r"no annotated video has features: .* ids like 'v_abc', the features 'abc'"):
        SegmentDataset(apart, source, VOCABULARY, config())
    with pytest.raises(InputError, match="nothing at all"):
        SegmentDataset(apart, FeatureStore.create(tmp_path / "empty", STREAMS), VOCABULARY, config())
    late = Annotations({"abc": [Event(9, 10, "x")]}, {}, [])
    with pytest.raises(InputError, match=r"none of the events of 1 videos with features lies in the window"):
        SegmentDataset(late, source, VOCABULARY, config())
    with pytest.raises(
        InputError,
        match=r"features are a 3 \+ b 2, the settings want resnet 2048 \+ bn 1024; to learn from them: --set",
    ):
        SegmentDataset(late, source, VOCABULARY, Config())


class HalfSecondSteps:
    """Features with a known length whose values are never read."""

    streams = (("resnet", 2048), ("bn", 1024))
    recipe = None

    def __init__(self, durations: dict[str, float]) -> None:
        self.durations = durations

    def __contains__(self, video: object) -> bool:
        return video in self.durations

    def extent(self, video: str) -> Extent:
        return Extent(int(np.ceil(self.durations[video] / 0.5)), Clock.uniform(0.5))


@pytest.mark.skipif(not SHARED.exists(), reason="the real annotations are not beside this checkout")
@pytest.mark.parametrize(
    ("name", "split"),
    [("activitynet/train.json", None), ("youcook2/youcookii_annotations_trainval.json", "validation")],
)
def test_what_the_window_loses_of_the_real_data(name: str, split: str | None) -> None:
    annotations = read_annotations(SHARED / name, split=split)
    vocabulary = Vocabulary.build(annotations.sentences(), 5)
    dataset = SegmentDataset(
        annotations, HalfSecondSteps(annotations.durations), vocabulary, load_config("activitynet")
    )
    events = [event for rows in annotations.events.values() for event in rows]
    assert dataset.report.outside_window == sum(event.start >= 240 for event in events)
    assert dataset.report.cut_by_window == sum(event.start < 240 < event.end for event in events)
    assert len(dataset) == len(events) - dataset.report.outside_window
