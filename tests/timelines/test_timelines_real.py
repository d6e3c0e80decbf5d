"""Timelines of real clips: laid out as ActivityNet, and no single step gives away where an event begins."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.export import near_duplicates
from densevid.timelines.layouts import LayoutTable
from densevid.timelines.plan import TimelinePlan
from research.reports.timelines import (
    area_under_curve,
    dissolve_rates,
    distance,
    labelled_steps,
    linear_probe,
    shots_of_events,
)

Array = npt.NDArray[Any]
PROBED = 500  # videos to fit a probe on, and as many held out


@pytest.fixture(scope="module")
def clips(shared: Path) -> ClipCollection:
    return ClipCollection.read(shared / "data" / "msvd")


@pytest.fixture(scope="module")
def val(clips: ClipCollection) -> TimelineGenerator:
    return TimelineGenerator(clips, "val", seed=0)


def steps_of(generator: TimelineGenerator, videos: int) -> tuple[Array, Array]:
    return labelled_steps([generator.video(index) for index in range(videos)])


@pytest.fixture(scope="module")
def learned(clips: ClipCollection) -> tuple[Array, Array]:
    return steps_of(TimelineGenerator(clips, "train", seed=0), PROBED)


@pytest.fixture(scope="module")
def held_out(val: TimelineGenerator) -> tuple[Array, Array]:
    return steps_of(val, PROBED)


def test_the_area_under_the_curve_is_the_share_of_pairs_in_order() -> None:
    score, first = np.array([0.1, 0.7, 0.3, 0.9, 0.2]), np.array([False, True, False, True, True])
    pairs = [(a, b) for a in score[first] for b in score[~first]]
    assert area_under_curve(score, first) == pytest.approx(np.mean([a > b for a, b in pairs]))


def test_a_linear_probe_on_single_steps_cannot_tell_the_first_step_of_an_event(
    learned: tuple[Array, Array], held_out: tuple[Array, Array]
) -> None:
    for ridge in (0.1, 1.0):
        direction = linear_probe(*learned, ridge)
        assert abs(area_under_curve(held_out[0] @ direction, held_out[1]) - 0.5) <= 0.02


def test_no_single_statistic_of_a_step_gives_it_away(held_out: tuple[Array, Array]) -> None:
    values, first = held_out
    figures = {
        "norm": values[:, -1],
        "mean": values[:, :-1].mean(axis=1),
        "largest": np.abs(values[:, :-1]).max(axis=1),
        "spread": np.abs(values[:, :-1]).mean(axis=1),
    }
    areas = {name: area_under_curve(figure, first) for name, figure in figures.items()}
    assert {name: area for name, area in areas.items() if abs(area - 0.5) > 0.02} == {}


def test_the_probe_would_detect_a_marker(learned: tuple[Array, Array], held_out: tuple[Array, Array]) -> None:
    """If first steps were a tenth shorter, as unscaled dissolves would make them, or began with a common picture."""
    marked = [(values.copy(), first) for values, first in (learned, held_out)]
    for values, first in marked:
        values[first] *= 0.9
    assert area_under_curve(marked[1][0] @ linear_probe(*marked[0]), held_out[1]) > 0.6


def test_neighbouring_steps_are_repeated_no_more_at_borders(val: TimelineGenerator) -> None:
    same: dict[bool, list[bool]] = {True: [], False: []}
    for index in range(100):
        timeline = val.video(index)
        repeats = (timeline.track.values[1:] == timeline.track.values[:-1]).all(axis=1)
        first = np.isin(np.arange(1, len(timeline.track)), [event.start for event in timeline.plan.events])
        for kind in (True, False):
            same[kind] += repeats[first == kind].tolist()
    assert np.mean(same[True]) <= np.mean(same[False]) + 0.005


@pytest.fixture(scope="module", params=["train", "val"])
def plans(request: pytest.FixtureRequest, clips: ClipCollection) -> list[TimelinePlan]:
    generator = TimelineGenerator(clips, request.param, seed=0)
    return [generator.plan(index) for index in range(1000)]


def test_dissolves_are_as_frequent_at_borders_as_inside_events(plans: list[TimelinePlan]) -> None:
    border, inside = dissolve_rates(plans)
    assert border == pytest.approx(inside, abs=0.025)  # three times what chance does to 1,000 videos


def test_one_event_in_six_shows_more_than_five_shots_since_it_shares_some(plans: list[TimelinePlan]) -> None:
    whole, alone = shots_of_events(plans)
    assert alone.max() == 5
    assert (whole > 5).mean() == pytest.approx(0.16, abs=0.03)
    assert (whole[whole == alone] <= 5).all()


def test_events_lie_as_in_activitynet(shared: Path, clips: ClipCollection) -> None:
    real = LayoutTable.from_annotations(shared / "data" / "activitynet" / "train.json")
    generator = TimelineGenerator(clips, "train", seed=0)
    plans = [generator.plan(index) for index in range(400)]
    counts = [float(len(plan.events)) for plan in plans]
    spans = [[(e.start / plan.ticks, e.end / plan.ticks) for e in plan.events] for plan in plans]
    both = [np.concatenate(real.spans_V), np.array([span for video in spans for span in video])]
    assert distance([float(len(spans)) for spans in real.spans_V], counts) < 0.1
    assert distance(*((pair[:, 1] - pair[:, 0]).tolist() for pair in both)) < 0.12
    assert distance(*(pair[:, 0].tolist() for pair in both)) < 0.1
    assert distance(*(pair[:, 1].tolist() for pair in both)) < 0.1
    lengths = [(e.end - e.start) * plan.tick for plan in plans for e in plan.events]
    assert max(lengths) > 50
    assert np.median(lengths) == pytest.approx(21, abs=5)  # as in train.json
    overlapping = np.mean([any(a[1] > b[0] for a, b in pairwise(s)) for s in map(sorted, spans)])
    assert 0.25 < overlapping < 0.6


def test_val_has_no_near_duplicates_in_train(clips: ClipCollection) -> None:
    alike = near_duplicates(clips, "val", threshold=0.5)
    assert all(first.similarity >= second.similarity for first, second in pairwise(alike))
    assert len(near_duplicates(clips, "val")) <= 0.01 * len(clips.split("val"))
    assert not [pair for pair in alike if pair.similarity > 0.97]
