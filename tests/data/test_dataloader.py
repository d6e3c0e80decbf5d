"""Which segments make up a batch: every one once, the same batches for any number of ranks, from any position on."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from densevid.config import load_config
from densevid.data.annotations import Annotations
from densevid.data.batches import Batch
from densevid.data.dataloader import BatchSampler, SegmentLoader, Shard, epoch_order, freeze_inherited
from densevid.data.dataset import SegmentDataset
from densevid.data.layouts import open_features
from densevid.data.sources import InMemoryFeatures
from densevid.data.store.reader import FeatureStore
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.tracks import Clock, FeatureTrack

STREAMS = (("a", 3), ("b", 2))
VOCABULARY = Vocabulary.build(["a dog runs"], 1)
SETTINGS = ["model.window=8", "model.kernels=[1, 2]", 'features.streams=["a", "b"]', "features.widths=[3, 2]"]


def dataset_of(events: list[int], dtype: str = "float32") -> SegmentDataset:
    """Videos with given numbers of events, in memory."""
    rng = np.random.default_rng(0)
    tracks = {
        f"v{number}": FeatureTrack(rng.normal(size=(4 + number % 6, 5)).astype(dtype), Clock.uniform(1), STREAMS)
        for number in range(len(events))
    }
    truth = {
        f"v{n}": [Event(i % 3, i % 3 + 1 + i / 100, "a dog") for i in range(count)] for n, count in enumerate(events)
    }
    return SegmentDataset(Annotations(truth, {}, []), InMemoryFeatures(tracks), VOCABULARY, load_config(None, SETTINGS))


counts = st.lists(st.integers(0, 6), min_size=1, max_size=12).filter(lambda events: sum(events) > 0)


@settings(max_examples=80)
@given(counts, st.integers(1, 9), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_an_epoch_has_every_segment_once(events: list[int], size: int, together: int, epoch: int, mixed: bool) -> None:
    dataset = dataset_of(events)
    batches = BatchSampler(size, 5, together, mixed).batches(dataset, epoch)
    assert sorted(number for groups in batches for group in groups for number in group) == list(range(sum(events)))
    groups = [group for batch in batches for group in batch]
    assert all(len(group) <= together and len({int(dataset.video_N[n]) for n in group}) == 1 for group in groups)
    rows_of_video = np.bincount([int(dataset.video_N[group[0]]) for group in groups], minlength=len(events))
    assert rows_of_video.tolist() == [-(-count // together) for count in events]
    sizes = [len(batch) for batch in batches]
    assert max(sizes) - min(sizes) <= 1 and (min(sizes) >= 2 or len(groups) == 1)
    assert max(sizes) <= max(size, 3)


@given(counts, st.integers(2, 9), st.integers(1, 5))
def test_the_ranks_share_every_batch(events: list[int], size: int, ranks: int) -> None:
    for batch in BatchSampler(size, 0).batches(dataset_of(events), 1):
        shares = [Shard(rank, ranks).of(batch) for rank in range(ranks)]
        assert sorted(group[0] for share in shares for group in share) == sorted(group[0] for group in batch)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_epochs_and_seeds_have_different_orders() -> None:
    dataset = dataset_of([4] * 10)
    plans = {(seed, epoch): BatchSampler(8, seed).batches(dataset, epoch) for seed in (0, 1) for epoch in (0, 1)}
    assert len({str(batches) for batches in plans.values()}) == 4
    assert BatchSampler(8, 0, shuffled=False).batches(dataset, 0) == BatchSampler(8, 1, shuffled=False).batches(
        dataset, 3
    )
    assert epoch_order(5, 0, 0) != sorted(epoch_order(5, 0, 0)) or epoch_order(5, 0, 1) != sorted(epoch_order(5, 0, 1))


def test_more_ranks_than_a_batch_has_videos() -> None:
    with pytest.raises(
        InputError, match=r"a batch of 3 videos is too small for 4 processes; raise training.batch_size"
    ):
        SegmentLoader(dataset_of([9]), BatchSampler(4, 0), Shard(0, 4))


def same(one: Batch, other: Batch) -> bool:
    pairs = [(getattr(one, item.name), getattr(other, item.name)) for item in fields(Batch)]
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


@pytest.mark.parametrize("together", [1, 3])
def test_a_loader_goes_on_from_any_position(together: int) -> None:
    loader = SegmentLoader(dataset_of([3, 5, 1, 2]), BatchSampler(2, 0, together))
    whole = list(loader.batches(2))
    assert len(whole) == loader.steps(2)
    for position in range(len(whole) + 1):
        rest = list(loader.batches(2, position))
        assert len(rest) == len(whole) - position
        assert all(map(same, rest, whole[position:]))


def test_loading_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    list(SegmentLoader(dataset_of([3, 5]), BatchSampler(2, 0)).batches(0))
    assert torch.equal(state, torch.get_rng_state())


def test_segments_of_a_video_share_its_row() -> None:
    dataset = dataset_of([3, 1])
    (batch,) = SegmentLoader(dataset, BatchSampler(9, 0, 4, shuffled=False)).batches(0)
    assert batch.videos == ["v0", "v1"] and len(batch) == 4
    assert batch.video_P is not None and batch.video_P.tolist() == [0, 0, 0, 1]
    assert batch.features_BTF.shape[0] == batch.valid_BT.shape[0] == batch.events_BG2.shape[0] == 2
    apart = dataset.collate([dataset[number] for number in range(4)])
    assert apart.video_P is None
    for name in ("features_BTF", "valid_BT", "events_BG2", "event_valid_BG"):
        torch.testing.assert_close(batch.of_segments(getattr(batch, name)), getattr(apart, name))
    for name in ("sample_P", "segment_P2", "segment_index_P", "words_PL"):
        torch.testing.assert_close(getattr(batch, name), getattr(apart, name))


@pytest.mark.parametrize("together", [1, 2])
def test_features_on_the_device_are_those_of_the_files(tmp_path: Path, together: int) -> None:
    dataset = dataset_of([3, 5, 0, 2], "float16")
    resident = SegmentLoader(dataset, BatchSampler(2, 0, together), resident=True)
    assert all(map(same, resident.batches(1), SegmentLoader(dataset, BatchSampler(2, 0, together)).batches(1)))


def test_features_beyond_float16_are_refused() -> None:
    track = FeatureTrack(np.full((4, 5), 1e5, np.float32), Clock.uniform(1), STREAMS)
    events = Annotations({"big": [Event(0, 1, "a dog"), Event(1, 2, "a dog")]}, {}, [])
    dataset = SegmentDataset(events, InMemoryFeatures({"big": track}), VOCABULARY, load_config(None, SETTINGS))
    with pytest.raises(InputError, match="big: its features exceed what float16 can hold"):
        SegmentLoader(dataset, BatchSampler(2, 0), resident=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_give_the_same_batches_from_a_store(tmp_path: Path, workers: int) -> None:
    dataset = dataset_of([3, 5, 1], "float16")
    store = FeatureStore.create(tmp_path / "store", STREAMS)
    for video in dataset.videos:
        store.add(video, dataset.source.track(video))
    store.refresh()
    events: dict[str, list[Event]] = {video: [] for video in dataset.videos}
    for number, event in enumerate(dataset.events):
        events[dataset.videos[int(dataset.video_N[number])]].append(event)
    stored = SegmentDataset(Annotations(events, {}, []), store, VOCABULARY, load_config(None, SETTINGS))
    share = Shard(1, 2)
    ours = list(SegmentLoader(stored, BatchSampler(4, 0), share, workers=workers).batches(0, 1))
    assert ours and all(map(same, ours, SegmentLoader(dataset, BatchSampler(4, 0), share).batches(0, 1)))


@pytest.mark.parametrize("workers", [0, 1])
def test_bad_features_raise_the_same_error_from_any_process(tmp_path: Path, workers: int) -> None:
    whole = dataset_of([2, 2])
    for video in whole.videos:
        np.save(tmp_path / f"{video}.npy", whole.source.track(video).values)
    source = open_features(tmp_path, seconds_per_step=1.0)
    events = {video: [Event(0, 2, "a dog"), Event(1, 3, "a dog")] for video in whole.videos}
    config = load_config(None, [*SETTINGS[:2], 'features.streams=["features"]', "features.widths=[5]"])
    dataset = SegmentDataset(Annotations(events, {}, []), source, VOCABULARY, config)
    (tmp_path / "v1.npy").write_bytes((tmp_path / "v1.npy").read_bytes()[:-4])
    with pytest.raises(InputError, match=r"^v1: \S+v1.npy is not a whole .npy array \([^\n]*\)$"):
        list(SegmentLoader(dataset, BatchSampler(2, 0), workers=workers).batches(0))


class Cycle:
    """Garbage that only a collector finds, as a graph of tensors may be; it counts its deaths."""

    died = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Cycle.died += 1


class DiesOnReading(Dataset[int]):
    """Collects garbage in the process that reads it and returns how many objects died of it."""

    def __getitem__(self, index: int) -> int:
        gc.collect()
        return Cycle.died


@pytest.mark.parametrize(("start", "deaths"), [(None, 1), (freeze_inherited, 0)])
def test_a_loading_process_leaves_garbage_of_its_parent_alone(start: Callable[[int], None] | None, deaths: int) -> None:
    gc.collect()
    Cycle.died = 0
    gc.disable()
    try:
        Cycle()
        loader = DataLoader(
            DiesOnReading(),
            batch_size=None,
            sampler=[0],
            num_workers=1,
            worker_init_fn=start,
            multiprocessing_context="fork",
        )
        assert list(loader) == [deaths]
    finally:
        gc.enable()
