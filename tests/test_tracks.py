"""Clocks have an inverse, tracks check their parts, recipes are equal only if all of their values are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densevid.errors import InputError
from densevid.tracks import Clock, FeatureRecipe, FeatureTrack

LENGTHS = st.lists(st.floats(0.01, 100), min_size=1, max_size=30)
POSITIONS = st.lists(st.floats(-5, 40), min_size=1)


@given(st.floats(0.01, 100), POSITIONS)
def test_a_uniform_clock_multiplies_and_divides(seconds_per_step: float, steps: list[float]) -> None:
    clock = Clock.uniform(seconds_per_step)
    np.testing.assert_allclose(clock.seconds(steps), np.array(steps) * seconds_per_step)
    np.testing.assert_allclose(clock.steps(clock.seconds(steps)), steps, rtol=1e-12, atol=1e-300)


@given(LENGTHS, st.floats(-100, 100), POSITIONS)
def test_any_clock_is_undone_by_its_inverse(lengths: list[float], start: float, steps: list[float]) -> None:
    clock = Clock.from_edges(start + np.cumsum([0, *lengths]))
    np.testing.assert_allclose(clock.steps(clock.seconds(steps)), steps, atol=1e-6)
    assert (np.diff(clock.seconds(np.sort(steps))) >= -1e-9).all()


@given(LENGTHS)
def test_whole_steps_are_the_edges(lengths: list[float]) -> None:
    edges = np.cumsum([0, *lengths])
    clock = Clock.from_edges(edges)
    np.testing.assert_allclose(clock.seconds(np.arange(len(edges))), edges)
    np.testing.assert_allclose(clock.steps(edges), np.arange(len(edges)), atol=1e-9)
    assert clock.seconds_per_step == pytest.approx(edges[-1] / len(lengths))


@given(st.floats(0.1, 10), st.integers(1, 20), POSITIONS)
def test_even_edges_are_a_uniform_clock(seconds_per_step: float, count: int, steps: list[float]) -> None:
    edges = Clock.from_edges(np.arange(count + 1) * seconds_per_step)
    np.testing.assert_allclose(edges.seconds(steps), Clock.uniform(seconds_per_step).seconds(steps), atol=1e-9)


def test_between_and_beyond_the_edges() -> None:
    clock = Clock.from_edges([1, 2, 6])
    assert clock.seconds([0.5, 1.25, -1, 3]).tolist() == [1.5, 3, 0, 10]
    assert clock.steps([1.5, 3, 0, 10]).tolist() == [0.5, 1.25, -1, 3]
    assert float(clock.seconds(1)) == 2.0


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf])
def test_a_step_length_that_is_not_positive_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="seconds per step must be positive"):
        Clock.uniform(value)


@pytest.mark.parametrize("edges", [[], [1], [1, 1], [2, 1], [0, np.nan], [0, np.inf], [[0, 1]]])
def test_edges_that_do_not_increase_are_refused(edges: list[float]) -> None:
    with pytest.raises(InputError, match="strictly increasing"):
        Clock.from_edges(edges)


def track(values: np.ndarray, **more) -> FeatureTrack:
    return FeatureTrack(values, more.get("clock", Clock.uniform(0.5)), more.get("streams", (("a", 2), ("b", 1))))


def test_a_track_and_its_streams() -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    whole = track(values)
    assert len(whole) == 4 and whole.widths == (2, 1) and float(whole.seconds(3)) == 1.5
    np.testing.assert_array_equal(whole.stream("a"), values[:, :2])
    np.testing.assert_array_equal(whole.stream("b"), values[:, 2:])
    assert (whole.extent.steps, whole.extent.clock, whole.extent.duration) == (4, whole.clock, None)
    with pytest.raises(InputError, match="no stream 'c'; there are a, b"):
        whole.stream("c")


def test_a_track_prints_its_size_instead_of_its_values() -> None:
    values = np.zeros((4, 3), np.float16)
    assert repr(track(values)) == "FeatureTrack(a 2 + b 1; 4 steps x 3 float16, 2.0 s, recipe unknown)"
    known = FeatureTrack(values, Clock.uniform(1), (("a", 3),), recipe="mine-0123", duration=3.25)
    assert repr(known) == "FeatureTrack(a 3; 4 steps x 3 float16, 3.2 s, recipe mine-0123)"


@pytest.mark.parametrize(
    ("values", "more", "message"),
    [
        (np.zeros((0, 3)), {}, "neither of them 0"),
        (np.zeros((3, 0)), {"streams": ()}, "neither of them 0"),
        (np.zeros(3), {}, "steps x width"),
        (np.zeros((2, 4)), {}, "features are 4 wide"),
        (np.zeros((2, 3), int), {}, "floating-point"),
        (np.zeros((2, 3)), {"clock": Clock.from_edges([0, 1])}, "2 steps need a clock of 3 edges"),
    ],
)
def test_an_impossible_track(values: np.ndarray, more: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        track(values, **more)


TABLE = {"name": "two-stream", "version": 1, "weights": ["sha256:1", "sha256:2"], "sampling": {"seconds": 0.5}}


def test_recipes_differ_if_any_value_does() -> None:
    recipe = FeatureRecipe(TABLE)
    assert recipe.name == "two-stream" and recipe.id.startswith("two-stream-")
    again = FeatureRecipe({**dict(reversed(TABLE.items())), "weights": ("sha256:1", "sha256:2")})
    assert again.id == recipe.id and recipe.differences(again) == []
    other = FeatureRecipe({**TABLE, "sampling": {"seconds": 1.0}, "size": 224})
    assert other.id != recipe.id and recipe.differences(other) == ["sampling", "size"]


@pytest.mark.parametrize(
    "table", [{}, {"name": ""}, {"name": 3}, {"name": "a", "x": None}, {"name": "a", "x": [{1: b""}]}]
)
def test_a_recipe_is_plain_and_has_a_name(table: dict) -> None:
    with pytest.raises(InputError, match="recipe"):
        FeatureRecipe(table)
