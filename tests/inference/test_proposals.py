"""An anchor keeps its place when its number changes: the same center and length in both grids, by looking it up."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.inference.proposals import AnchorNumbering
from densevid.model.anchors import AnchorGrid

CPU = torch.device("cpu")


@given(
    kernels=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    stride_factor=st.sampled_from([None, 5, 50]),
    steps=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    more=st.integers(0, 40),
)
def test_the_same_anchor_under_another_number(
    kernels: list[int], stride_factor: int | None, steps: list[int], more: int
) -> None:
    grid, shared_steps = AnchorGrid.of(kernels, stride_factor), max(steps) + more
    shared_A2 = grid.anchors(shared_steps)
    numbers = AnchorNumbering(grid, CPU)(shared_steps, torch.tensor(steps, dtype=torch.float64))
    for video, count in enumerate(steps):
        own_A2 = grid.anchors(count)
        own_A = torch.arange(len(own_A2))
        shared_A = numbers.shared(torch.full_like(own_A, video), own_A)
        assert torch.equal(shared_A2[shared_A], own_A2)
        assert len(shared_A.unique()) == len(shared_A), "kernels of one size twice are two"
        anchor_BN = torch.full((len(steps), len(own_A)), -1)
        anchor_BN[video] = shared_A
        back_BN = numbers.own(anchor_BN)
        assert torch.equal(back_BN[video], own_A)
        assert (back_BN[torch.arange(len(steps)) != video] == -1).all(), "no anchor stays none"
