"""Temporal IoU against its definition, suppression against the plain greedy loop."""

from __future__ import annotations

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from densevid.intervals import suppress, temporal_iou

interval = st.tuples(st.floats(-50, 50), st.floats(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def plain_iou(a: tuple[float, float], b: tuple[float, float]) -> float:
    shared = max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    union = (a[1] - a[0]) + (b[1] - b[0]) - shared
    return shared / union if union > 0 else 0.0


@example([(0.0, 2e-311)], [(0.0, 2e-311)])
@given(st.lists(interval, min_size=1, max_size=6), st.lists(interval, min_size=1, max_size=6))
def test_iou_is_intersection_over_union(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> None:
    got = temporal_iou(torch.tensor(first, dtype=torch.float64), torch.tensor(second, dtype=torch.float64))
    want = torch.tensor([[plain_iou(a, b) for b in second] for a in first], dtype=torch.float64)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_iou_broadcasts_over_batches() -> None:
    torch.manual_seed(0)
    first, second = torch.rand(3, 4, 2).cumsum(-1), torch.rand(3, 5, 2).cumsum(-1)
    got = temporal_iou(first, second)
    assert got.shape == (3, 4, 5)
    torch.testing.assert_close(got[1], temporal_iou(first[1], second[1]))


@settings(max_examples=200)
@given(st.integers(0, 25), st.floats(0, 1), st.integers(0, 2**31))
def test_suppression_equals_the_greedy_loop(count: int, density: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    overlapping = torch.rand(count, count, generator=generator) < density
    kept: list[int] = []
    for i in range(count):
        if not any(overlapping[i, j] for j in kept):
            kept.append(i)
    assert suppress(overlapping).nonzero().flatten().tolist() == kept


def test_a_chain_keeps_every_second() -> None:
    chain = torch.diag(torch.ones(9, dtype=torch.bool), -1)
    assert suppress(chain).tolist() == [True, False] * 5
