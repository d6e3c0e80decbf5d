"""Selection against plain greedy loops that follow the paper's and the release's words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from densevid.config import InferenceConfig
from densevid.inference.nms import Lengths, Selection, select, select_released
from densevid.model.anchors import AnchorGrid
from densevid.model.proposal_decoder import Proposals

GRID = AnchorGrid.of([1, 2, 4, 8, 16], 3)
STEPS = 24


def proposals_from(seed: int, spread: float, steps: int = STEPS) -> Proposals:
    generator = torch.Generator().manual_seed(seed)
    anchors = GRID.anchors(steps)
    logits = torch.randn(1, len(anchors), generator=generator) * 2
    return Proposals(logits, torch.randn(1, len(anchors), 2, generator=generator) * spread, anchors, steps)


def iou(a: list[float], b: list[float]) -> float:
    shared = max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    union = a[1] - a[0] + b[1] - b[0] - shared
    return shared / union if union else 0.0


def plain_paper(proposals: Proposals, steps: int, config: InferenceConfig) -> list[int]:
    scores = proposals.logits_BA[0].sigmoid().tolist()
    spans = proposals.intervals_BA2[0].clamp(0, steps).tolist()
    ends = (proposals.anchors_A2[:, 0] + proposals.anchors_A2[:, 1] / 2).tolist()
    usable = [i for i in range(len(scores)) if ends[i] <= steps and spans[i][1] - spans[i][0] > 1e-3]
    order = sorted(usable, key=lambda i: -scores[i])
    entering = max(sum(scores[i] > config.score_threshold for i in order), config.min_before_suppression)
    kept: list[int] = []
    for rank, i in enumerate(order):
        if rank >= entering and len(kept) >= config.min_proposals:
            break
        if all(iou(spans[i], spans[j]) < config.suppression_iou for j in kept):
            kept.append(i)
    return kept[: config.max_proposals]


def plain_released(
    proposals: Proposals, steps: int, config: InferenceConfig, per_step: float
) -> list[tuple[int, int, int]]:
    scores = proposals.logits_BA[0].sigmoid().numpy()
    spans = proposals.intervals_BA2[0].numpy()
    usable = [i for i in range(len(scores)) if proposals.anchors_A2[i, 1] <= steps]
    order = sorted(usable, key=lambda i: -scores[i])
    order = order[
        : max(sum(scores[i] > np.float32(config.score_threshold) for i in usable), config.min_before_suppression)
    ]
    limit = steps + 2 * per_step
    kept: list[tuple[int, int, int]] = []
    for i in order:
        start, end = map(float, spans[i])
        if start >= end or start < 0 or end >= limit:
            continue
        if any(iou([start, end], [low, high]) > config.suppression_iou for _, low, high in kept):
            continue
        top = min(limit, proposals.steps)
        kept.append((i, math.floor(max(min(start, top - 1), 0)), math.ceil(max(min(end, top), 1))))
    return kept[: config.max_proposals]


def lengths_of(proposals: Proposals, steps: int, per_step: float = 0.0) -> Lengths:
    return Lengths(*torch.tensor([[steps], [proposals.steps], [steps + 2 * per_step]], dtype=torch.float32))


def only(selection: Selection) -> tuple[list[int], torch.Tensor, torch.Tensor]:
    """Anchors, scores and intervals of the only video."""
    kept = selection.kept_BK[0]
    return selection.anchor_BK[0][kept].tolist(), selection.score_BK[0][kept], selection.reported_BK2[0][kept]


configs = st.builds(
    InferenceConfig,
    score_threshold=st.sampled_from([0.3, 0.7, 0.95, 1.0]),
    min_before_suppression=st.sampled_from([0, 5, 40]),
    suppression_iou=st.sampled_from([0.3, 0.6, 0.9]),
    min_proposals=st.sampled_from([0, 3, 10]),
    max_proposals=st.sampled_from([10, 500]),
)


@settings(max_examples=150)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.7]), st.integers(1, STEPS), configs)
def test_the_papers_selection(seed: int, spread: float, steps: int, config: InferenceConfig) -> None:
    proposals = proposals_from(seed, spread)
    anchors, score_P, reported_P2 = only(select(proposals, lengths_of(proposals, steps), config).selection)
    assert anchors == plain_paper(proposals, steps, config)
    assert (score_P.diff() <= 0).all()
    assert (reported_P2 >= 0).all() and (reported_P2 <= steps).all()


@settings(max_examples=150)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.1, 0.4]),
    st.integers(1, STEPS),
    configs,
    st.sampled_from([0.37, 0.5, 1.1]),
)
def test_the_releases_selection(seed: int, spread: float, steps: int, config: InferenceConfig, per_step: float) -> None:
    proposals = proposals_from(seed, spread)
    anchors, _, reported_P2 = only(select_released(proposals, lengths_of(proposals, steps, per_step), config).selection)
    want = plain_released(proposals, steps, config, per_step)
    rows = [(a, *map(int, w)) for a, w in zip(anchors, reported_P2.tolist(), strict=True)]
    assert rows == want


def test_a_selection_has_between_min_and_max_proposals() -> None:
    proposals = proposals_from(1, 0.3)
    lengths = lengths_of(proposals, STEPS)
    few = InferenceConfig(score_threshold=1.0, min_proposals=12, max_proposals=500)
    assert int(select(proposals, lengths, few).selection.kept_BK.sum()) == 12
    many = replace(few, score_threshold=0.0, max_proposals=20)
    assert int(select(proposals, lengths, many).selection.kept_BK.sum()) == 20
    none = replace(few, min_proposals=0)
    assert int(select(proposals, lengths, none).selection.kept_BK.sum()) == 0
