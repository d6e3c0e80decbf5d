from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from densevid.video.sampling import LONGEST_HOLD, BrokenClock, SkipPlan, StepSelector

gaps = st.lists(st.floats(0.004, 3.0), min_size=0, max_size=60)


def frame_times(start: float, gap_list: list[float]) -> list[float]:
    return [float(time) for time in start + np.concatenate([[0.0], np.cumsum(gap_list)])]


def shown_by(times: list[float], end: float, seconds_per_step: float) -> list[tuple[float, int]]:
    """The rule of the module docstring, step by step and with all frames at hand."""
    steps: list[tuple[float, int]] = []
    target_number = 0
    while target_number * seconds_per_step < end or not steps:
        target = target_number * seconds_per_step
        candidates = [n for n, time in enumerate(times) if time <= target or time - target < seconds_per_step / 2]
        target_number += 1
        if not candidates:
            continue
        nearest = min(candidates, key=lambda n: (abs(times[n] - target), n))
        repeats = any(number == nearest for _, number in steps)
        steps.append((target if repeats else times[nearest], nearest))
    return steps


def run(times: list[float], end: float, seconds_per_step: float) -> list[tuple[float, int]]:
    selector = StepSelector(seconds_per_step)
    steps = []
    for number, time in enumerate(times):
        steps += [(step, number - 1) for step in selector.push(time)]
    return steps + [(step, len(times) - 1) for step in selector.finish(end)]


@example(1.35, [], 1.0, 0.1)  # half a step after 1.3 and not after it, as floats are
@given(st.floats(0, 2), gaps, st.floats(0.01, 2.0), st.sampled_from([0.1, 0.5, 1.0]))
def test_every_step_shows_the_frame_nearest_to_its_turn(start, gap_list, last, seconds_per_step) -> None:
    times = frame_times(start, gap_list)
    end = times[-1] + last
    assert run(times, end, seconds_per_step) == shown_by(times, end, seconds_per_step)


@given(st.floats(0, 2), gaps, st.floats(0.01, 2.0), st.sampled_from([0.1, 0.5, 1.0]))
def test_step_times_increase_up_to_the_end(start, gap_list, last, seconds_per_step) -> None:
    times = frame_times(start, gap_list)
    end = times[-1] + last
    edges = [time for time, _ in run(times, end, seconds_per_step)] + [end]
    assert (np.diff(edges) > 0).all()


@pytest.mark.parametrize("fps", [23.976, 25, 29.97, 50, 60])
def test_at_a_constant_rate_a_step_is_less_than_half_a_frame_off_its_turn(fps: float) -> None:
    times = [number / fps for number in range(round(20 * fps))]
    steps = np.array([time for time, _ in run(times, 20.0, 0.5)])
    assert len(steps) == 40
    assert (np.abs(steps - np.arange(40) * 0.5) <= 0.5 / fps + 1e-9).all()


def test_a_held_picture_is_shown_again_at_the_time_of_each_step() -> None:
    assert run([0.0, 2.1], 3.0, 0.5) == [(0.0, 0), (0.5, 0), (1.0, 0), (1.5, 0), (2.1, 1), (2.5, 1)]


def test_steps_before_the_first_picture_are_left_out() -> None:
    assert run([1.3, 1.4, 2.0], 2.1, 0.5) == [(1.4, 1), (2.0, 2)]


def test_a_jump_of_hours_is_a_broken_clock() -> None:
    selector = StepSelector(0.5)
    selector.push(0.0)
    with pytest.raises(BrokenClock, match=r"jumps from 0\.0 s"):
        selector.push(LONGEST_HOLD + 1)


@given(gaps, st.integers(1, 8), st.randoms(use_true_random=False), st.sampled_from([0.2, 0.5]))
def test_the_plan_needs_just_what_the_steps_use_however_packets_are_reordered(
    gap_list, frames_per_step, random, seconds_per_step
) -> None:
    times = frame_times(0.0, gap_list * 3)
    order = sorted(range(len(times)), key=lambda number: number + random.uniform(0, 12))
    plan = SkipPlan(seconds_per_step, frames_per_step)
    settled_as_needed: dict[int, bool] = {}
    queue: list[int] = []
    for number in order:
        plan.add(times[number])
        queue.append(number)
        while queue and plan.is_settled(times[queue[0]]):
            first = queue.pop(0)
            settled_as_needed[first] = plan.needs(times[first])
    undecided = [times[number] for number in queue if not plan.is_settled(times[number])]
    assert all(plan.needs(time) for time in undecided), "what is undecided at the end must be decoded"

    used = {
        number + offset
        for _, number in run(times, times[-1] + 0.01, seconds_per_step)
        for offset in range(frames_per_step)
    }
    for number, needed in settled_as_needed.items():
        assert needed == (number in used), number


@pytest.mark.parametrize("late", [None, 0.01])
def test_the_plan_gives_up_where_packet_times_make_no_sense(late: float | None) -> None:
    plan = SkipPlan(0.5, 1)
    for number in range(100):
        plan.add(number / 25)
    assert plan.is_settled(0.04) and not plan.needs(0.04)
    plan.add(late)
    assert plan.is_settled(3.9) and plan.needs(0.08)
