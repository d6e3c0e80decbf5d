"""Windows over long videos: where they lie, and what is left of what they propose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.inference.windows import Windows, cut, merge, strongest_changes
from densevid.tracks import Clock, FeatureTrack

STREAMS = (("one", 3),)


def track_of(values: np.ndarray, clock: Clock | None = None) -> FeatureTrack:
    return FeatureTrack(values.astype(np.float32), clock or Clock.uniform(0.5), STREAMS)


def scenes(seed: int, steps: int) -> np.ndarray:
    """Features that jump from scene to scene, with a little noise."""
    rng = np.random.default_rng(seed)
    scene = np.cumsum(rng.random(steps) < 0.05)
    return rng.normal(size=(steps + 1, 3))[scene] * 3 + rng.normal(size=(steps, 3)) * 0.1


@given(st.integers(0, 10**6), st.integers(1, 900), st.integers(1, 120))
def test_every_step_is_read_and_windows_follow_by_at_most_half(seed: int, steps: int, window: int) -> None:
    windows = Windows.over(track_of(scenes(seed, steps)), window)
    starts = np.asarray(windows.starts)
    assert starts[0] == 0 and starts[-1] + windows.size == steps and windows.size == min(window, steps)
    assert (np.diff(starts) > 0).all() and (np.diff(starts) <= max(1, window // 2)).all()


def test_windows_depend_on_what_is_shown_and_not_on_where_counting_began() -> None:
    values = scenes(1, 3000)
    whole, later = (Windows.over(track_of(values[first:]), 100) for first in (0, 25))
    ours, theirs = {start for start in whole.starts if start > 100}, {start + 25 for start in later.starts}
    assert len(ours - theirs) <= 1 and len(ours) > 40


def test_changes_are_found_where_they_are_and_in_pieces_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.repeat([[0.0, 0, 0], [5, 0, 0], [5, 9, 0], [1, 9, 0]], 40, axis=0)
    assert strongest_changes(track_of(values), reach=3, around=15).tolist() == [40, 80, 120]
    assert strongest_changes(track_of(np.ones((50, 3))), reach=3, around=15).tolist() == []
    drifting = track_of(scenes(2, 500))
    in_one = strongest_changes(drifting, reach=4, around=20)
    monkeypatch.setattr("densevid.inference.windows.STEPS_AT_ONCE", 7)
    assert strongest_changes(drifting, reach=4, around=20).tolist() == in_one.tolist() and len(in_one) > 5


def test_a_part_is_a_view_with_a_clock_of_its_own() -> None:
    edges = np.cumsum(np.random.default_rng(0).random(301))
    track = track_of(scenes(3, 300), Clock.from_edges(edges))
    windows = Windows.over(track, 80)
    part = windows.part(track, 2)
    start = windows.starts[2]
    assert np.shares_memory(part.values, track.values) and len(part) == 80
    assert part.seconds([0, 10.5]) == pytest.approx(track.seconds([start, start + 10.5]) - track.seconds(start))


def four_windows() -> Windows:
    return Windows((0, 50, 100, 150), 100, 250)


def test_a_proposal_that_a_window_cuts_is_left_to_the_neighbour() -> None:
    windows = four_windows()
    inside, at_end, at_start, too_long = [60.0, 80.0], [70.0, 100.0], [100.0, 120.0], [20.0, 100.0]
    spans = torch.tensor([[inside, at_end, too_long], [inside, at_end, [0, 0]], [at_start, [0, 0], [0, 0]]])
    spans = torch.cat((spans, torch.tensor([[[150.0, 170.0], [200.0, 250.0], [230.0, 250.0]]])))
    expected = [[False, True, False], [False, False, False], [True, False, False], [True, False, False]]
    judged = cut(windows, spans)
    assert judged[0].tolist() == expected[0] and judged[3].tolist() == expected[3]
    assert judged[1, :2].tolist() == expected[1][:2] and judged[2, 0].item() is True


def test_of_equal_proposals_of_two_windows_the_better_is_kept() -> None:
    windows = four_windows()
    spans = torch.tensor([[[60.0, 90.0], [10.0, 30.0]], [[60.0, 91.0], [110.0, 140.0]]])
    spans = torch.cat((spans, torch.tensor([[[110.0, 140.0], [120.0, 140.0]], [[210.0, 220.0], [0.0, 0.0]]])))
    score = torch.tensor([[0.5, 0.4], [0.6, 0.7], [0.7, 0.9], [0.1, 0.0]])
    kept = torch.ones(4, 2, dtype=torch.bool)
    kept[3, 1] = False
    left = merge(windows, spans, score, kept, alike=0.9)
    assert left.tolist() == [[False, True], [True, True], [False, True], [True, False]]


@given(st.integers(0, 10**6))
def test_pieces_of_any_size_merge_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = Windows((0, 20, 50, 90, 110, 160), 100, 260)
    start = np.asarray(windows.starts)[:, None] + rng.integers(0, 60, (6, 9))
    spans = torch.from_numpy(np.stack([start, start + rng.integers(5, 40, (6, 9))], axis=-1)).double()
    score = torch.from_numpy(rng.integers(0, 4, (6, 9)) / 4)
    kept = torch.from_numpy(rng.random((6, 9)) < 0.8)
    whole = merge(windows, spans, score, kept, alike=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("densevid.inference.windows.PAIRS_AT_ONCE", 1)
        assert torch.equal(merge(windows, spans, score, kept, alike=0.5), whole)
    assert torch.equal(whole, greedily_merged(windows, spans, score, kept & ~cut(windows, spans), alike=0.5))


def greedily_merged(
    windows: Windows, spans: torch.Tensor, score: torch.Tensor, kept: torch.Tensor, alike: float
) -> torch.Tensor:
    """The best first, each unless it is alike to one of another window that stays."""
    left = torch.zeros_like(kept)
    for window, place in sorted(kept.nonzero().tolist(), key=lambda at: (-float(score[at[0], at[1]]), at)):
        start, end = spans[window, place].tolist()
        others = [spans[a, b].tolist() for a, b in left.nonzero().tolist() if a != window]
        shared = [max(0.0, min(end, other[1]) - max(start, other[0])) for other in others]
        unions = [end - start + b - a - part for (a, b), part in zip(others, shared, strict=True)]
        left[window, place] = all(part / union < alike for part, union in zip(shared, unions, strict=True))
    return left


def test_an_event_that_overlaps_only_suppressed_ones_stays() -> None:
    """The second loses to the third, and then nobody speaks for the first."""
    windows = Windows((0, 20, 40), 100, 180)
    spans = torch.tensor([[[45.0, 75]], [[50.0, 80]], [[55.0, 85]]])
    left = merge(windows, spans, torch.tensor([[0.7], [0.8], [0.9]]), torch.ones(3, 1, dtype=torch.bool), alike=0.6)
    assert left.tolist() == [[True], [False], [True]]


@pytest.mark.filterwarnings("error")
def test_changes_too_large_for_float32_are_changes() -> None:
    values = np.repeat([[3e38, 0, 0], [-3e38, 0, 0]], 40, axis=0)
    assert strongest_changes(track_of(values), reach=3, around=15).tolist() == [38]
