"""Permuted channels: distances between steps are kept, and no clip can be recognised."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from densevid.timelines.dataset import GROUP, channel_permuted


@given(steps=st.integers(1, 6), width=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_lengths_and_distances_stay(steps: int, width: int, seed: int) -> None:
    values_TF = np.random.default_rng(seed).normal(size=(steps, width))
    shown_TF = channel_permuted(values_TF, np.random.default_rng(seed))
    assert np.allclose(shown_TF @ shown_TF.T, values_TF @ values_TF.T)


def test_axes_swap_among_neighbours_and_signs_turn() -> None:
    width = 3 * GROUP + 5
    axis_F = np.arange(1.0, width + 1)
    shown_F = channel_permuted(axis_F[None], np.random.default_rng(0))[0]
    came_from_F = np.abs(shown_F).astype(int) - 1
    assert sorted(came_from_F) == list(range(width))
    assert np.array_equal(came_from_F // GROUP, np.arange(width) // GROUP)
    assert not np.array_equal(came_from_F, np.arange(width))
    assert 0.2 < (shown_F < 0).mean() < 0.8


def test_two_videos_are_disguised_differently_and_half_precision_stays() -> None:
    rng, values_TF = np.random.default_rng(0), np.ones((2, 64), dtype=np.float16)
    first_TF, second_TF = channel_permuted(values_TF, rng), channel_permuted(values_TF, rng)
    assert first_TF.dtype == np.float16
    assert np.array_equal(first_TF[0], first_TF[1])
    assert not np.array_equal(first_TF, second_TF)
