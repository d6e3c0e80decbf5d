"""The summary of a video: few of its proposals, one after another, chosen before any sentence is generated.

A summary is the chain of events that follow each other with the greatest total worth, where an event of more confidence
is worth more. It is exact, for many videos at once, in as many whole-tensor rounds as the longest chain has events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.config import InferenceConfig


@dataclass(frozen=True)
class SummaryRules:
    """How many events a summary has, how confident each must be, and how much two may overlap.

    Attributes:
        most: At most so many events for every `steps_each` steps of the video, and at least for the first ones.
        least_confidence: Every event must exceed it.
        overlap: Two events overlap by at most this share of their mean length.
        steps_each: See `most`.
        top: At most so many events instead, whatever their confidence.
        worth: What an event's worth follows from: its "confidence", or the "score" that ranks events.
    """

    most: int = 10
    least_confidence: float = 0.4
    overlap: float = 0.0
    steps_each: int = 480
    top: int | None = None
    worth: str = "confidence"

    @classmethod
    def of(cls, config: InferenceConfig, window: int, top: int | None = None) -> SummaryRules:
        """The rules that a model's settings ask for."""
        most, least, overlap = config.summary_events, config.summary_confidence, config.summary_overlap
        return cls(most, least, overlap, window, top, config.summary_worth)

    def count(self, steps: int) -> int:
        """The most events that a video of so many steps may have."""
        return self.top if self.top is not None else math.ceil(self.most * max(1.0, steps / self.steps_each))

    @property
    def least(self) -> float:
        """The confidence that every event must exceed."""
        return 0.0 if self.top is not None else self.least_confidence


def choose(
    intervals_BP2: Tensor, confidence_BP: Tensor, most: int, rules: SummaryRules, score_BP: Tensor | None = None
) -> Tensor:
    """Which proposals each summary holds, B x P; a place without a proposal has confidence 0 and is never chosen.

    An event is worth confidence^2 - least^2, so that one confident event is worth more than two of half its confidence;
    on held-out timelines this did better than the plain difference, higher powers and a greedy choice. With
    `rules.worth == "score"` an event that is confident enough is worth the square of its score instead.
    """
    worth_BP = confidence_BP.clamp(min=0).square() - rules.least**2
    if score_BP is not None and rules.worth == "score":
        worth_BP = torch.where(worth_BP > 0, score_BP.square().to(worth_BP), worth_BP)
    return best_chain(intervals_BP2, worth_BP, most, rules.overlap)


def best_chain(intervals_BP2: Tensor, worth_BP: Tensor, most: int, overlap: float = 0.0) -> Tensor:
    """At most `most` events, one after another, of the greatest total worth, B x P; only worth above 0 is ever chosen.

    Each interval loses half of `overlap` of its length at both ends, and what is left must be disjoint. In order
    of their ends, V_k(p), the best worth of at most k events among the first p, is

        V_k(p) = max over i < p of worth_i + V_{k-1}(events that end before i begins),     V_0 = 0,

    a gather and a running maximum a round; the rounds end when one more event helps no video.
    """
    start_BP, end_BP = _cores(intervals_BP2, overlap)
    end_BP, order_BP = end_BP.sort(dim=1, stable=True)
    worth_BP = worth_BP.gather(1, order_BP)
    worth_BP = torch.where(worth_BP > 0, worth_BP, -torch.inf)
    before_BP = torch.searchsorted(end_BP, start_BP.gather(1, order_BP).contiguous(), right=True)

    total_BP = worth_BP
    value_BQ, last_BQ = _best_of_first(total_BP)
    rounds = [last_BQ]
    while len(rounds) < min(most, worth_BP.shape[1]):
        longer_BP = worth_BP + value_BQ.gather(1, before_BP)
        if torch.equal(longer_BP, total_BP):
            break
        total_BP = longer_BP
        value_BQ, last_BQ = _best_of_first(total_BP)
        rounds.append(last_BQ)
    kept_BP = _trace(rounds, before_BP)
    return torch.zeros_like(kept_BP).scatter(1, order_BP, kept_BP)


def _best_of_first(total_BP: Tensor) -> tuple[Tensor, Tensor]:
    """For every number p of first events, Q = P + 1 of them: V_k(p), and the event that its chain ends with, or -1."""
    best = torch.cat((total_BP.new_zeros(len(total_BP), 1), total_BP), dim=1).cummax(dim=1)
    return best.values, (best.indices - 1).to(torch.int32)


def _cores(intervals_BP2: Tensor, overlap: float) -> tuple[Tensor, Tensor]:
    """Intervals without the share of both ends that may overlap."""
    start_BP, end_BP = intervals_BP2.unbind(-1)
    given_BP = (end_BP - start_BP) * (overlap / 2)
    return start_BP + given_BP, end_BP - given_BP


def _trace(rounds: list[Tensor], before_BP: Tensor) -> Tensor:
    """Back from the last round to the first: the last event of the best chain, then the best among those before it."""
    videos, nothing = before_BP.shape
    kept_BQ = before_BP.new_zeros((videos, nothing + 1), dtype=torch.bool)
    first_B1 = before_BP.new_full((videos, 1), nothing)
    before_BQ = torch.cat((before_BP, torch.zeros_like(first_B1)), dim=1)
    for last_BQ in reversed(rounds):
        event_B1 = last_BQ.gather(1, first_B1).long()
        event_B1 = torch.where(event_B1 < 0, nothing, event_B1)
        kept_BQ.scatter_(1, event_B1, True)
        first_B1 = before_BQ.gather(1, event_B1)
    return kept_BQ[:, :-1]
