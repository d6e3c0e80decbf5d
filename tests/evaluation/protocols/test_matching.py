"""SODA's matching against a plain recursion, and its limits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from densevid.evaluation.protocols.matching import align, batches_of_like_size

VALUES = st.sampled_from([0.0, 0.0, 0.1, 0.25, 0.5, 1.0])


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    golds, predictions = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    return np.array([[draw(VALUES) for _ in range(predictions)] for _ in range(golds)])


def recursive(table: np.ndarray) -> tuple[float, list[int]]:
    """The matching as its description reads: three choices a cell, the first of equal ones taken, then traced back."""

    @cache
    def best(i: int, j: int) -> tuple[float, bool]:
        skip_gold = best(i - 1, j)[0] if i else -1.0
        skip_prediction = best(i, j - 1)[0] if j else -1.0
        match = (best(i - 1, j - 1)[0] if i and j else 0.0) + float(table[i, j])
        return max(skip_gold, skip_prediction, match), match > max(skip_gold, skip_prediction)

    picked, limit = [-1] * len(table), table.shape[1] - 1
    for i in reversed(range(len(table))):
        matched = [j for j in range(limit + 1) if best(i, j)[1]]
        if matched:
            picked[i], limit = matched[-1], matched[-1] - 1
    return best(len(table) - 1, table.shape[1] - 1)[0], picked


@settings(max_examples=200, deadline=None)
@given(st.lists(tables(), min_size=1, max_size=4))
def test_many_padded_problems_equal_the_recursion(problems: list[np.ndarray]) -> None:
    golds, predictions = np.array([table.shape for table in problems]).T
    padded = np.full((len(problems), golds.max(), predictions.max()), 9.0)  # filler must not matter
    for place, table in enumerate(problems):
        padded[place, : len(table), : table.shape[1]] = table
    best, picked = align(padded, golds, predictions)
    for place, table in enumerate(problems):
        total, matches = recursive(table)
        assert best[place] == total
        assert picked[place, : len(table)].tolist() == matches


@settings(max_examples=100, deadline=None)
@given(tables())
def test_the_total_is_the_best_of_all_order_preserving_matchings(table: np.ndarray) -> None:
    def every(i: int, first: int) -> float:
        if i == len(table):
            return 0.0
        matched = (table[i, j] + every(i + 1, j + 1) for j in range(first, table.shape[1]))
        return max([every(i + 1, first), *matched])

    best, _ = align(table[None], np.array([len(table)]), np.array([table.shape[1]]))
    assert best[0] == pytest.approx(every(0, 0), abs=1e-12)  # the two add in different orders


def test_thousands_of_predictions_need_no_recursion() -> None:
    best, _ = align(np.ones((1, 30, 5000)), np.array([30]), np.array([5000]))
    assert best.tolist() == [30.0]


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=30))
def test_batches_hold_every_problem_once_and_pad_little(sizes: list[tuple[int, int]]) -> None:
    golds, predictions = np.array(sizes).T
    batches = list(batches_of_like_size(golds, predictions))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    for batch in batches:
        padded = golds[batch].max() * predictions[batch].max() * len(batch)
        assert padded <= 4 * (golds[batch] * predictions[batch]).sum()
