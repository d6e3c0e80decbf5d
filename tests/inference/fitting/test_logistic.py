"""Logistic regression against its own optimum, and rows that count more than once against rows that are repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densevid.inference.fitting.logistic import logistic_fit


@given(st.integers(0, 200), st.floats(0.01, 5.0))
def test_nothing_pulls_at_what_was_fitted(seed: int, ridge: float) -> None:
    """The gradient, written out: right rows minus their probability, against the ridge."""
    rng = np.random.default_rng(seed)
    values, share = rng.normal(size=(40, 3)), rng.uniform(0.1, 2, 40)
    right = (values[:, 0] + rng.normal(size=40) > 0).astype(float)
    weights, bias = logistic_fit(values, right, share, ridge)
    missing = share * (right - 1 / (1 + np.exp(-(values @ weights + bias))))
    np.testing.assert_allclose(values.T @ missing, ridge * weights, atol=1e-6)
    assert missing.sum() == pytest.approx(0, abs=1e-6)


def test_a_row_that_counts_three_times_is_three_rows() -> None:
    rng = np.random.default_rng(0)
    values, share = rng.normal(size=(30, 2)), rng.integers(1, 4, 30)
    right = (values.sum(axis=1) + rng.normal(size=30) > 0).astype(float)
    weighted = logistic_fit(values, right, share.astype(float), 1.0)
    repeated = logistic_fit(values.repeat(share, axis=0), right.repeat(share), np.ones(share.sum()), 1.0)
    np.testing.assert_allclose(np.r_[weighted], np.r_[repeated], atol=1e-9)
