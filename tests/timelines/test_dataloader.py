"""Batches of samples without end: the same for any number of processes, and as the device blends them."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from densevid.data.batches import Batch, Sample
from densevid.data.dataloader import Shard
from densevid.data.vocabulary import PAD, Vocabulary
from densevid.errors import InputError
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataloader import TimelineLoader
from densevid.timelines.dataset import TimelineDataset
from densevid.timelines.layouts import LayoutTable
from helpers.clip_collections import write_collection
from helpers.timeline_setup import make, settings


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> ClipCollection:
    return ClipCollection.read(write_collection(tmp_path_factory.mktemp("samples") / "clips"))


def all_batches(loader: TimelineLoader, epoch: int, position: int = 0) -> list[Batch]:
    return list(loader.batches(epoch, position))


def test_every_sample_comes_once_and_none_comes_again(collection: ClipCollection) -> None:
    loader = TimelineLoader(make(collection), 4)
    assert loader.steps(0) == 6
    epochs = [all_batches(loader, epoch) for epoch in (0, 1)]
    assert [len(batches) for batches in epochs] == [6, 6]
    numbers = [int(n) // 64 for batches in epochs for batch in batches for n in batch.sample_P]
    assert sorted(numbers) == list(range(48))


@pytest.mark.parametrize("position", [1, 4, 5])
def test_a_run_goes_on_where_it_stopped(collection: ClipCollection, position: int) -> None:
    samples = make(collection, clips_per_batch=2)
    whole, rest = all_batches(TimelineLoader(samples, 4), 1), all_batches(TimelineLoader(samples, 4), 1, position)
    assert len(rest) == 6 - position
    for first, second in zip(whole[position:], rest, strict=True):
        assert torch.equal(first.features_BTF, second.features_BTF) and torch.equal(first.words_PL, second.words_PL)
        assert first.clips and second.clips and torch.equal(first.clips.words_PL, second.clips.words_PL)


def test_batches_hold_videos_of_like_length_and_are_no_longer_than_they_must_be(collection: ClipCollection) -> None:
    loader = TimelineLoader(make(collection), 4)
    for batch in all_batches(loader, 0):
        longest = int(batch.valid_BT.sum(dim=1).max())
        assert batch.valid_BT.shape[1] == min(120, -(-longest // 96) * 96)
        assert (batch.words_PL[:, 0] != PAD).all()


def test_clips_stand_beside_every_batch(collection: ClipCollection) -> None:
    loader = TimelineLoader(make(collection, clips_per_batch=5), 4)
    batches = [*all_batches(loader, 0), *all_batches(loader, 1)]
    assert [len(batch.clips.videos) for batch in batches if batch.clips] == [5] * 12
    numbers = [int(n) for batch in batches if batch.clips for n in batch.clips.sample_P]
    assert len(set(numbers)) == len(numbers) == 60


def test_ranks_share_every_step(collection: ClipCollection) -> None:
    samples = make(collection)
    shares = [TimelineLoader(samples, 4, Shard(rank, 2)) for rank in range(2)]
    both = [[*all_batches(share, 0), *all_batches(share, 1)] for share in shares]
    parts = [{int(n) // 64 for batch in batches for n in batch.sample_P} for batches in both]
    assert parts[0] | parts[1] == set(range(48)) and not parts[0] & parts[1]
    with pytest.raises(InputError, match="4 videos is too small for 5 processes"):
        TimelineLoader(samples, 4, Shard(0, 5))
    with pytest.raises(InputError, match="1 clips beside them is too small for 2 processes"):
        TimelineLoader(make(collection, clips_per_batch=1), 4, Shard(0, 2))


def numbers(batch: Batch) -> list[int]:
    return [int(video.split("-")[2]) for video in batch.videos]


@pytest.mark.parametrize("negatives", [0, 3])
@pytest.mark.parametrize(("size", "ranks"), [(4, 2), (7, 3)])
def test_a_step_has_the_same_samples_however_many_share_it(
    tmp_path: Path, negatives: int, size: int, ranks: int
) -> None:
    samples = make(
        ClipCollection.read(write_collection(tmp_path, negatives=negatives)), clips_per_batch=5, negatives_every=5
    )
    whole = all_batches(TimelineLoader(samples, size), 0) + all_batches(TimelineLoader(samples, size), 1)
    loaders = [TimelineLoader(samples, size, Shard(rank, ranks)) for rank in range(ranks)]
    shares = [all_batches(loader, 0) + all_batches(loader, 1) for loader in loaders]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert sorted(n for part in parts for n in numbers(part)) == sorted(numbers(batch))
        beside = sorted(int(n) for part in parts if part.clips for n in part.clips.sample_P)
        assert batch.clips and beside == sorted(batch.clips.sample_P.tolist())
        assert max(map(len, map(numbers, parts))) - min(map(len, map(numbers, parts))) <= 1
        assert {part.valid_BT.shape[1] for part in parts} == {batch.valid_BT.shape[1]}, "anchors follow the length"
        assert all(any(not video.endswith("negative") for video in part.videos) for part in parts)


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_process_has_captions_however_many_videos_are_permuted(tmp_path: Path, ranks: int) -> None:
    collection = ClipCollection.read(write_collection(tmp_path, negatives=3))
    samples = make(collection, channel_permuted=1.0, proposal_loss="overlap", negatives_every=5)
    for rank in range(ranks):
        for batch in islice(TimelineLoader(samples, 20, Shard(rank, ranks)).batches(0), 4):
            assert len(batch.sample_P) == 2 // ranks < len(batch.videos)
    with pytest.raises(InputError, match="processes needs one"):
        TimelineLoader(samples, 16, Shard(0, 2))


def test_a_batch_of_negatives_alone_is_refused(tmp_path: Path) -> None:
    samples = make(ClipCollection.read(write_collection(tmp_path, negatives=3)), negatives_every=1)
    with pytest.raises(InputError, match="too many of the 4 videos of a batch have no events"):
        all_batches(TimelineLoader(samples, 4), 0)


def test_one_process_has_the_batches_that_sorting_composed_videos_gives(tmp_path: Path) -> None:
    """Where every first layout can be filled, as on real training splits."""
    collection = ClipCollection.read(write_collection(tmp_path, clips=300))
    layouts = LayoutTable(np.linspace(20.0, 60.0, 30), [np.array([[0.0, 0.5], [0.5, 1.0]])] * 30)
    generator = TimelineGenerator(collection, "train", layouts=layouts)
    vocabulary = Vocabulary.build(generator.sentences(), min_count=1)
    samples = TimelineDataset(generator, vocabulary, settings())
    assert [samples.estimated_steps(index) for index in range(48)] == [samples[index].steps for index in range(48)]
    loader, size = TimelineLoader(samples, 4), 4
    batches = all_batches(loader, 0) + all_batches(loader, 1)
    for group in range(3):
        first = group * 4 * size
        together = sorted((samples[index] for index in range(first, first + 4 * size)), key=lambda s: s.steps)
        places = np.random.default_rng((0, 7, first)).permutation(4).tolist()
        wanted = [[s.video for s in together[place * size : (place + 1) * size]] for place in places]
        assert [list(batch.videos) for batch in batches[group * 4 : group * 4 + 4]] == wanted


class Unreadable(TimelineDataset):
    """A dataset whose videos cannot be composed."""

    def video(self, index: int, **_: Any) -> Sample:
        raise InputError(f"timeline {index}: the disk is gone")


@pytest.mark.parametrize("workers", [0, 1])
def test_errors_of_loading_processes_arrive_unchanged(collection: ClipCollection, workers: int) -> None:
    samples = make(collection)
    samples.__class__ = Unreadable
    with pytest.raises(InputError, match=r"^timeline \d+: the disk is gone$"):
        next(TimelineLoader(samples, 4, workers=workers).batches(0))


def test_closing_ends_the_processes_and_others_go_on_from_there(collection: ClipCollection) -> None:
    loader, undisturbed = (TimelineLoader(make(collection), 2, workers=1) for _ in range(2))
    batches = loader.batches(0)
    first, before = next(batches), len(multiprocessing.active_children())
    assert before
    del batches
    loader.close()
    assert len(multiprocessing.active_children()) == before - 1
    again = next(loader.batches(0, 1))
    assert [first.videos, again.videos] == [batch.videos for batch in islice(undisturbed.batches(0), 2)]


@pytest.mark.parametrize("precision", [np.float16, np.float32, np.float64, ">f4"])
def test_rows_that_the_device_blends_are_the_features_of_the_videos(collection: ClipCollection, precision: Any) -> None:
    assert collection.features is not None
    stored = replace(collection, features=collection.features.astype(precision))
    samples = make(stored, clips_per_batch=5, segments_per_video=2)
    composed, gathered = (TimelineLoader(samples, 4, resident=resident) for resident in (False, True))
    dissolved = 0
    for ours, theirs in zip(gathered.batches(0), composed.batches(0), strict=True):
        assert ours.rows is None and theirs.rows is None
        dissolved += sum(len(samples.generator.plan(int(name[-6:])).dissolves) for name in ours.videos)
        for one, other in ((ours, theirs), (ours.clips, theirs.clips)):
            assert one is not None and other is not None
            assert one.features_BTF.dtype == other.features_BTF.dtype
            torch.testing.assert_close(one.features_BTF, other.features_BTF)
            assert torch.equal(one.valid_BT, other.valid_BT) and torch.equal(one.words_PL, other.words_PL)
            assert (one.features_BTF[~one.valid_BT] == 0).all()
    assert dissolved


def test_loading_processes_of_resident_footage_send_no_features(collection: ClipCollection) -> None:
    sent = TimelineLoader(make(collection, clips_per_batch=5), 4, resident=True)._begin(0)
    batch = next(sent)
    assert batch.features_BTF.numel() == 0 and batch.rows is not None
    assert batch.clips is not None and batch.clips.features_BTF.numel() == 0
