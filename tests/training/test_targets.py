"""Whole-tensor targets against a plain loop over anchors and events."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from densevid.config import TrainingConfig, load_config
from densevid.data.annotations import read_annotations
from densevid.intervals import temporal_iou
from densevid.model.anchors import AnchorGrid, anchor_intervals, apply_offsets
from densevid.training.targets import Truth, assign, count_without_positive, pools, random_keys

GRID = AnchorGrid.of([1, 2, 3, 5, 8, 13], 4)
STEPS = 30
ANCHORS = GRID.anchors(STEPS)
span = st.tuples(st.integers(0, 50), st.integers(2, 30)).map(lambda p: (p[0] / 2, p[0] / 2 + p[1] / 2))


def truth_of(videos: list[tuple[list[tuple[float, float]], int, int]]) -> Truth:
    most = max(len(events) for events, _, _ in videos)
    events = torch.zeros(len(videos), most, 2)
    valid = torch.zeros(len(videos), most, dtype=torch.bool)
    for row, (spans, _, _) in enumerate(videos):
        events[row, : len(spans)] = torch.tensor(spans)
        valid[row, : len(spans)] = True
    segment = torch.tensor([spans[own] for spans, own, _ in videos])
    return Truth(events, valid, segment, torch.tensor([length for _, _, length in videos]))


def iou(a: list[float], b: tuple[float, float]) -> float:
    shared = max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    return shared / ((a[1] - a[0]) + (b[1] - b[0]) - shared)


video = st.lists(span, min_size=1, max_size=4).flatmap(
    lambda spans: st.tuples(st.just(spans), st.integers(0, len(spans) - 1), st.integers(1, STEPS))
)


@settings(max_examples=60)
@given(st.lists(video, min_size=1, max_size=3), st.booleans())
def test_pools_equal_a_plain_loop(videos: list[tuple[list[tuple[float, float]], int, int]], released: bool) -> None:
    config = TrainingConfig()
    got = pools(ANCHORS, truth_of(videos), config, released=released)
    for row, (spans, own, length) in enumerate(videos):
        for index, interval in enumerate(anchor_intervals(ANCHORS).tolist()):
            within = interval[1] <= length
            overlaps = [iou(interval, event) for event in spans]
            if min(abs(overlap - limit) for overlap in overlaps for limit in (0.3, 0.7)) < 1e-5:
                continue  # on the border float32 may fall either way
            assert bool(got.positive_PA[row, index]) == (overlaps[own] >= 0.7 and within)
            far = max(overlaps) < 0.3
            assert bool(got.negative_PA[row, index]) == (far or not within if released else far and within)


@given(st.lists(video, min_size=1, max_size=3), st.integers(0, 1000))
def test_draws_come_from_the_pools_and_never_twice(
    videos: list[tuple[list[tuple[float, float]], int, int]], seed: int
) -> None:
    config = TrainingConfig()
    truth = truth_of(videos)
    available = pools(ANCHORS, truth, config)
    draw = random_keys(seed, 0, torch.arange(len(videos)), len(ANCHORS))
    targets = assign(ANCHORS, truth, config, draw)
    for row in range(len(videos)):
        positives = targets.positive_PU[row][targets.positive_present_PU[row]]
        negatives = targets.negative_PU[row][targets.negative_present_PU[row]]
        assert available.positive_PA[row, positives].all() and available.negative_PA[row, negatives].all()
        assert len(positives) == min(10, int(available.positive_PA[row].sum())) == len(positives.unique())
        assert len(negatives) == min(10, int(available.negative_PA[row].sum())) == len(negatives.unique())
        moved = apply_offsets(ANCHORS[positives], targets.offsets_PU2[row][targets.positive_present_PU[row]])
        torch.testing.assert_close(moved, truth.segment_P2[row].expand_as(moved), atol=1e-4, rtol=1e-4)
    assert targets.captioned_P.tolist() == targets.positive_PU[:, 0].tolist()
    assert targets.captioned_present_P.tolist() == available.positive_PA.any(dim=1).tolist()


def test_no_positive_anchor_means_no_caption() -> None:
    truth = truth_of([([(0.0, 29.0)], 0, STEPS)])
    targets = assign(ANCHORS, truth, TrainingConfig(), random_keys(0, 0, torch.arange(1), len(ANCHORS)))
    assert not targets.positive_present_PU.any() and not targets.captioned_present_P.any()
    assert targets.negative_present_PU.all()
    assert torch.isfinite(targets.offsets_PU2).all()


def test_draws_depend_on_seed_epoch_and_sample_alone() -> None:
    first = random_keys(1, 2, torch.tensor([10, 11, 12]), 500)[0]
    torch.testing.assert_close(random_keys(1, 2, torch.tensor([12, 10]), 500)[0], first[[2, 0]])
    for other in (random_keys(0, 2, torch.tensor([10]), 500), random_keys(1, 3, torch.tensor([10]), 500)):
        assert (other[0][0] != first[0]).all()
    assert (random_keys(1, 2, torch.tensor([10]), 500)[1][0] != first[0]).all()


@pytest.mark.parametrize("samples", [200])
def test_anchors_are_drawn_uniformly(samples: int) -> None:
    keys = random_keys(7, 0, torch.arange(samples), 400)[0].double() / 2**62
    assert (keys >= 0).all() and (keys < 1).all()
    assert abs(float(keys.mean()) - 0.5) < 0.01
    assert abs(float(keys.var()) - 1 / 12) < 0.002
    columns = keys.topk(1, dim=1).indices.flatten().bincount(minlength=400)
    assert int(columns.max()) <= 5, "no anchor is favoured"
    assert abs(float(torch.corrcoef(keys[:, :2].T)[0, 1])) < 0.25


@pytest.mark.parametrize(
    ("preset", "file", "split", "cut", "share"),
    [
        ("activitynet", "activitynet/train.json", None, True, 0.019),
        ("youcook2", "youcook2/youcookii_annotations_trainval.json", "training", False, 0.048),
        ("youcook2", "youcook2/youcookii_annotations_trainval.json", "training", True, 0.011),
    ],
)
def test_how_many_real_segments_have_no_positive_anchor(
    shared: Path, preset: str, file: str, split: str | None, cut: bool, share: float
) -> None:
    """Segments that reach over the end of the window are cut there, which saves most of YouCook2's."""
    config = load_config(preset)
    annotations = read_annotations(shared / "data" / file, split=split)
    grid = AnchorGrid.of(config.model.kernels, config.model.stride_factor)
    rows = [
        (event.start * 2, event.end * 2, min(480, math.ceil(2 * (annotations.durations[video] or 0))))
        for video, events in annotations.events.items()
        for event in events
        if event.start * 2 < 480
    ]
    table = torch.tensor(rows)
    segments = table[:, :2].clamp(max=480) if cut else table[:, :2]
    missing = count_without_positive(grid, 480, segments, table[:, 2], config.training)
    assert missing / len(rows) == pytest.approx(share, abs=0.002)


@given(st.lists(video, min_size=1, max_size=6))
def test_segments_without_a_positive_are_those_with_an_empty_pool(
    videos: list[tuple[list[tuple[float, float]], int, int]],
) -> None:
    truth, config = truth_of(videos), TrainingConfig()
    overlap = temporal_iou(anchor_intervals(ANCHORS)[None], truth.segment_P2[:, None]).squeeze(-1)
    assume(float((overlap - config.positive_iou).abs().min()) > 1e-5)  # on the border float32 may fall either way
    empty = int((~pools(ANCHORS, truth, config).positive_PA.any(dim=1)).sum())
    assert count_without_positive(GRID, STEPS, truth.segment_P2, truth.length_P.float(), config) == empty
