"""The grid against the release's enumeration and against what convolutions produce; offsets round-trip."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.config import ACTIVITYNET_KERNELS
from densevid.model.anchors import AnchorGrid, anchor_intervals, apply_offsets, offsets_to


def test_the_papers_grid_has_6338_anchors() -> None:
    assert len(AnchorGrid.of(ACTIVITYNET_KERNELS, 50).anchors(480)) == 6338


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 60), st.integers(1, 80))
def test_centers_are_those_of_the_release(kernels: list[int], factor: int, steps: int) -> None:
    if min(kernels) > steps:
        return
    grid = AnchorGrid.of(kernels, factor)
    want = [
        (center, kernel)
        for kernel in kernels
        for center in np.arange(kernel / 2, steps + 1 - kernel / 2, math.ceil(kernel / factor))
        if kernel <= steps
    ]
    assert grid.anchors(steps).tolist() == [[center, kernel] for center, kernel in want]
    assert sum(grid.counts(steps)) == len(want)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(9, 40))
def test_as_many_anchors_as_a_convolution_has_outputs(kernel: int, factor: int, steps: int) -> None:
    grid = AnchorGrid.of([kernel], factor)
    convolution = torch.nn.Conv1d(1, 1, kernel, grid.strides[0])
    assert convolution(torch.zeros(1, 1, steps)).shape[-1] == grid.counts(steps)[0]


def test_procnets_slides_by_one() -> None:
    assert AnchorGrid.of([3, 100], None).strides == (1, 1)


@given(st.floats(0, 400), st.floats(1, 250), st.floats(-100, 400), st.floats(0.5, 300))
def test_offsets_of_an_interval_give_the_interval(center: float, length: float, start: float, seconds: float) -> None:
    anchors = torch.tensor([[center, length]], dtype=torch.float64)
    interval = torch.tensor([[start, start + seconds]], dtype=torch.float64)
    torch.testing.assert_close(apply_offsets(anchors, offsets_to(anchors, interval)), interval, rtol=1e-9, atol=1e-6)


def test_no_offset_overflows() -> None:
    offsets = torch.tensor([[0.0, 200.0]], requires_grad=True)
    apply_offsets(torch.tensor([[5.0, 2.0]]), offsets).sum().backward()
    assert apply_offsets(torch.tensor([[5.0, 2.0]]), offsets).isfinite().all()
    assert offsets.grad is not None and offsets.grad.isfinite().all()


def test_zero_offsets_leave_the_anchor() -> None:
    anchors = AnchorGrid.of([1, 5], 50).anchors(20)
    torch.testing.assert_close(apply_offsets(anchors, torch.zeros_like(anchors)), anchor_intervals(anchors))
