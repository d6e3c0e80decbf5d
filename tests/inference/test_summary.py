"""The summary against every possible choice, and the laws it must obey."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.config import InferenceConfig
from densevid.inference.summary import SummaryRules, best_chain, choose
from densevid.intervals import suppress, temporal_iou


def random_proposals(seed: int, videos: int, proposals: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Intervals that partly share their borders, with confidences."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 12, (videos, proposals))
    intervals = np.stack([start, start + rng.integers(1, 7, (videos, proposals))], axis=-1)
    return torch.from_numpy(intervals).double(), torch.from_numpy(rng.random((videos, proposals)))


def shared_of_mean_length(first: torch.Tensor, second: torch.Tensor) -> float:
    shared = min(first[1], second[1]) - max(first[0], second[0])
    return float(shared / ((first[1] - first[0] + second[1] - second[0]) / 2))


def allowed(intervals: torch.Tensor, group: tuple[int, ...], overlap: float) -> bool:
    """Whether what each event keeps for itself is disjoint from what the others keep."""
    given_away = (intervals[:, 1] - intervals[:, 0]) * overlap / 2
    kept = torch.stack((intervals[:, 0] + given_away, intervals[:, 1] - given_away), dim=1)
    pairs = [(kept[a], kept[b]) for a, b in combinations(group, 2)]
    return all(first[1] <= second[0] or second[1] <= first[0] for first, second in pairs)


def best_of_all(intervals: torch.Tensor, worth: torch.Tensor, most: int, overlap: float) -> float:
    groups = (group for size in range(most + 1) for group in combinations(range(len(worth)), size))
    return max(float(worth[list(group)].sum()) for group in groups if allowed(intervals, group, overlap))


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.3, 0.7]), st.sampled_from([0.0, 0.4, 0.99]))
def test_no_other_choice_is_worth_more(seed: int, most: int, overlap: float, least: float) -> None:
    intervals_BP2, confidence_BP = random_proposals(seed, 2, 8)
    rules = SummaryRules(least_confidence=least, overlap=overlap)
    kept_BP = choose(intervals_BP2, confidence_BP, most, rules)
    for intervals, confidence, kept in zip(intervals_BP2, confidence_BP, kept_BP, strict=True):
        group = tuple(kept.nonzero()[:, 0].tolist())
        assert len(group) <= most and (confidence[kept] > least).all() and allowed(intervals, group, overlap)
        worth = confidence**2 - least**2
        assert float(worth[kept].sum()) == pytest.approx(best_of_all(intervals, worth, most, overlap))


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.4]), st.booleans())
def test_the_score_can_choose_among_what_is_sure_enough(seed: int, most: int, least: float, topped: bool) -> None:
    intervals_BP2, confidence_BP = random_proposals(seed, 2, 8)
    score_BP = torch.from_numpy(np.random.default_rng(seed + 1).random((2, 8)))
    rules = SummaryRules(least_confidence=least, overlap=0.3, top=most if topped else None, worth="score")
    kept_BP = choose(intervals_BP2, confidence_BP, most, rules, score_BP)
    for intervals, confidence, score, kept in zip(intervals_BP2, confidence_BP, score_BP, kept_BP, strict=True):
        sure = confidence > rules.least
        worth = torch.where(sure, score**2, -1.0)
        assert not (kept & ~sure).any()
        assert float(worth[kept].sum()) == pytest.approx(best_of_all(intervals, worth, most, 0.3))


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.2, 0.5]))
def test_two_events_share_at_most_the_limit(seed: int, overlap: float) -> None:
    intervals_BP2, confidence_BP = random_proposals(seed, 1, 60)
    chosen = intervals_BP2[0][choose(intervals_BP2, confidence_BP, 60, SummaryRules(overlap=overlap))[0]]
    assert len(chosen) > 1
    assert all(shared_of_mean_length(a, b) <= overlap + 1e-9 for a, b in combinations(chosen, 2))


def test_without_confident_events_the_summary_is_empty() -> None:
    intervals_BP2, confidence_BP = random_proposals(1, 3, 20)
    assert not choose(intervals_BP2, confidence_BP * 0.29, 10, SummaryRules(least_confidence=0.3)).any()
    assert not choose(intervals_BP2[:, :0], confidence_BP[:, :0], 10, SummaryRules()).any()


def test_a_video_among_others_gets_the_summary_it_gets_alone() -> None:
    intervals_BP2, confidence_BP = random_proposals(2, 5, 40)
    confidence_BP[1, 7:] = -1  # the rest of the row is no proposal at all
    intervals_BP2[1, 7:] = 0
    together = choose(intervals_BP2, confidence_BP, 6, SummaryRules())
    for row in range(5):
        alone = choose(intervals_BP2[row : row + 1], confidence_BP[row : row + 1], 6, SummaryRules())
        assert torch.equal(together[row], alone[0])
    assert not together[1, 7:].any()
    assert torch.equal(together[1, :7], choose(intervals_BP2[1:2, :7], confidence_BP[1:2, :7], 6, SummaryRules())[0])


def test_a_summary_is_worth_at_least_as_much_as_a_greedy_choice() -> None:
    intervals_BP2, confidence_BP = random_proposals(3, 20, 80)
    order = confidence_BP.argsort(dim=1, descending=True)
    ranked = intervals_BP2.gather(1, order[..., None].expand(-1, -1, 2))
    greedy = suppress(temporal_iou(ranked, ranked) > 0)
    greedy_worth = (confidence_BP.gather(1, order) * greedy).sum(dim=1)
    kept = best_chain(intervals_BP2, confidence_BP, 80)
    worth = (confidence_BP * kept).sum(dim=1)
    assert (worth >= greedy_worth - 1e-12).all() and (worth > greedy_worth + 1e-12).any()


def test_a_long_video_may_have_more_events_and_top_says_how_many() -> None:
    rules = SummaryRules.of(InferenceConfig(summary_events=4), window=100)
    assert [rules.count(steps) for steps in (1, 100, 150, 1000)] == [4, 4, 6, 40]
    top = SummaryRules.of(InferenceConfig(), window=100, top=3)
    assert top.count(10_000) == 3 and top.least == 0
