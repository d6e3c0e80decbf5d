"""Clips without captions: background between events, and videos without events (negatives)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from densevid.config import Config
from densevid.data.batches import collate
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataloader import TimelineLoader
from densevid.timelines.dataset import TimelineDataset
from densevid.timelines.export import near_duplicates
from densevid.training.objective import total_loss
from helpers.clip_collections import write_collection

MODEL = {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 160, "kernels": [3, 7, 20]}
Made = Callable[[int], ClipCollection]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("negatives")

    def collection(count: int) -> ClipCollection:
        return ClipCollection.read(write_collection(folder / str(count), clips=200, negatives=count))

    return collection


def samples_of(collection: ClipCollection, **training: object) -> TimelineDataset:
    settings = {"timelines": 100, "segments_per_video": 2, "proposal_loss": "overlap", "max_words": 8, **training}
    features = {"streams": ["clip"], "widths": [16]}
    config = Config().with_values({"model": MODEL, "features": features, "training": settings})
    generator = TimelineGenerator(collection, "train")
    return TimelineDataset(generator, Vocabulary.build(generator.sentences(), min_count=1), config)


def test_clips_without_captions_are_background_and_never_part_of_an_event(made: Made) -> None:
    generator = TimelineGenerator(made(12), "train")
    assert len(generator.pool.negatives) == 12 and not generator.pool.events.clips[0].name.startswith("negative")
    shown = 0
    for plan in map(generator.plan, range(150)):
        covered = np.zeros(plan.ticks, dtype=bool)
        for event in plan.events:
            covered[event.start : event.end] = True
        is_negative = np.repeat([not shot.clip.captions for shot in plan.shots], [shot.ticks for shot in plan.shots])
        assert not (is_negative & covered).any()
        shown += bool(is_negative.any())
    assert shown > 10, "some videos show negatives as background"


def test_clips_without_captions_change_neither_the_background_pool_nor_the_events(made: Made) -> None:
    without, with_some = (TimelineGenerator(made(count), "train") for count in (0, 12))
    names = {clip.name for clip in with_some.pool.background.clips if clip.captions}
    assert names == {clip.name for clip in without.pool.background.clips}
    assert with_some.sentences() == without.sentences()
    whole = [index for index in range(60) if sum(e.end - e.start for e in without.plan(index).events) == 0]
    assert not whole
    same = [index for index in range(60) if without.plan(index).shots == with_some.plan(index).shots]
    assert same, "videos without background are the very same"


def test_a_negative_video_shows_them_alone_and_is_as_long_as_others(made: Made) -> None:
    generator = TimelineGenerator(made(12), "train")
    videos = [generator.negative_video(index) for index in range(80)]
    assert all(not shot.clip.captions for video in videos for shot in video.plan.shots)
    assert all(not video.plan.events and len(video.track) == video.plan.ticks for video in videos)
    assert {len({shot.clip.name for shot in video.plan.shots}) for video in videos} == {1, 2, 3}
    lengths = [
        np.median([plan(index).ticks for index in range(80)]) for plan in (generator.negative_plan, generator.plan)
    ]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.35)
    again = TimelineGenerator(made(12), "train").negative_video(7)
    np.testing.assert_array_equal(videos[7].track.values, again.track.values)
    with pytest.raises(InputError, match="no clip is without captions"):
        TimelineGenerator(made(0), "train").negative_video(0)


def test_some_samples_are_negatives_and_a_batch_with_one_trains(made: Made) -> None:
    samples = samples_of(made(12))
    negative = samples.negatives_every - 1
    assert len(samples[negative].events_G2) == 0 == len(samples[negative].number_P) and samples[negative].steps > 0
    assert [len(samples[index].number_P) > 0 for index in range(13)] == [True] * 12 + [False]
    assert (
        "12 of them without captions" in samples.summary() and "without captions" not in samples_of(made(0)).summary()
    )
    config = Config().with_values({"model": MODEL, "features": {"streams": ["clip"], "widths": [16]}})
    config = config.with_settings(["training.proposal_loss=overlap", "training.max_words=8"])
    model = MaskedTransformer(config, len(samples.vocabulary))
    batch = collate([samples[negative], samples[0], samples[1]], 160)
    assert batch.video_P is not None and set(batch.video_P.tolist()) == {1, 2}
    alone = collate([samples[negative], samples[negative + samples.negatives_every]], 160)
    assert not alone.event_valid_BG.any() and len(alone.sample_P) == 0
    for each in (batch, alone):
        model.zero_grad()
        total, losses = total_loss(model, each, config)
        total.backward()
        assert torch.isfinite(total) and losses.score > 0
        assert all(weight.grad is not None and torch.isfinite(weight.grad).all() for weight in model.parameters())


def test_a_video_with_one_segment_and_a_negative_are_not_mixed_up(made: Made) -> None:
    samples = samples_of(made(12), segments_per_video=1)
    pair = [samples[samples.negatives_every - 1], samples[0]]
    batch = collate(pair, 160)
    assert batch.video_P is not None and batch.video_P.tolist() == [1]
    np.testing.assert_array_equal(batch.segment_P2[0], pair[1].events_G2[int(pair[1].segment_index_P[0])])
    assert collate([samples[0], samples[1]], 160).video_P is None


def test_negatives_score_lower_after_some_training(made: Made) -> None:
    """The purpose of negatives: proposals in a video without events score lower than in others."""
    samples = samples_of(made(30), timelines=192)
    training = {"proposal_loss": "overlap", "max_words": 8, "task": "proposals"}
    values = {"model": MODEL | {"dropout": 0.0, "input_dropout": 0.0}, "training": training}
    config = Config().with_values({**values, "features": {"streams": ["clip"], "widths": [16]}})
    torch.manual_seed(0)
    model = MaskedTransformer(config, len(samples.vocabulary)).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for batch in TimelineLoader(samples, 8).batches(0):
        optimizer.zero_grad()
        total_loss(model, batch, config)[0].backward()
        optimizer.step()
    fresh = TimelineGenerator(samples.generator.collection, "train", seed=9)
    scores = [
        _best_score(model.eval(), [make(index).track.values for index in range(20)])
        for make in (fresh.negative_video, fresh.video)
    ]
    assert scores[0] < scores[1] - 0.05


@torch.no_grad()
def _best_score(model: MaskedTransformer, tracks: list[np.ndarray]) -> float:
    best = []
    for values in tracks:
        features_BTF = torch.zeros(1, 160, 16)
        features_BTF[0, : len(values)] = torch.from_numpy(values[:160].astype(np.float32))
        valid_BT = torch.arange(160)[None] < len(values)
        proposals = model.propose(model.encode(features_BTF, valid_BT))
        inside_A = proposals.anchors_A2.sum(dim=1) <= len(values)
        best.append(float(proposals.logits_BA[0][inside_A].sigmoid().max()))
    return float(np.mean(best))


def test_a_batch_that_could_be_negatives_alone_is_refused(made: Made) -> None:
    with pytest.raises(InputError, match="no-event videos alone"):
        TimelineLoader(samples_of(made(12)), 1)
    assert TimelineLoader(samples_of(made(0)), 1)


def test_clips_without_captions_are_no_near_duplicates(made: Made) -> None:
    assert not [
        pair for pair in near_duplicates(made(12), "test", threshold=-1.0) if "negative" in pair.clip + pair.other
    ]


def test_the_files_of_a_collection_keep_them(tmp_path: Path) -> None:
    collection = ClipCollection.read(write_collection(tmp_path / "clips", negatives=2))
    assert [clip.captions for clip in collection.clips if clip.name.startswith("negative")] == [()] * 4
