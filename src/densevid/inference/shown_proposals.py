"""What is worth a look inside the model: the surest events of the timeline, and proposals from the low end.

Of a timeline without an event the best proposals stand in for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.events import Event
from densevid.intervals import suppress, temporal_iou

DIFFERENT = 0.5  # what overlaps a shown one by more than this would show the same again
UNSURE = 0.7  # the paper shows two proposals scored above .9 and two below .7
LOW_END = 0.1  # of all proposals: from the least sure of them some are taken that lie apart
MOST_COMPARED = 2000  # suppression compares all pairs
GIVEN = -2  # the anchor of an event whose span somebody gave


@dataclass(frozen=True)
class Sought:
    """Where something to look at was found: the first step of its window, and the number of its anchor in there.

    `WHOLE_VIDEO` is the anchor of what none proposed, `GIVEN` that of a given span. `event` is what the timeline shows
    of it, its score the confidence that is shown; None where the timeline does not show it.
    """

    first: int
    anchor: int
    event: Event | None = None


@dataclass(frozen=True)
class Candidates:
    """Proposals of a video: first step of the window, anchor in it, interval in steps of the video, score, 0 to 1."""

    first_P: Tensor
    anchor_P: Tensor
    interval_P2: Tensor
    score_P: Tensor

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """Those of several windows."""
        return cls(*map(torch.cat, zip(*(part._columns for part in parts), strict=True)))

    def at(self, chosen: Tensor) -> Candidates:
        """Some of them: where a mask is true, or by their numbers and in that order."""
        return Candidates(*(column[chosen] for column in self._columns))

    def best(self, each: int) -> Candidates:
        """The surest that show different things."""
        return self.at(_different(self.interval_P2, self.score_P)[:each])

    def least_sure(self, each: int, shown_S2: Tensor) -> Candidates:
        """Some of the low end that show nothing again, as far apart in time as can be; the surer first."""
        new_P = (temporal_iou(self.interval_P2, shown_S2) <= DIFFERENT).all(dim=1) & (self.score_P < UNSURE)
        others = self.at(new_P)
        low_L = _different(others.interval_P2, -others.score_P)
        low = others.at(low_L[: max(each, math.ceil(LOW_END * len(low_L)))])
        in_time_L = low.interval_P2.mean(dim=1).argsort(stable=True)
        spread_U = torch.linspace(0, max(0, len(in_time_L) - 1), each).round().long().unique()
        spread = low.at(in_time_L[spread_U.to(in_time_L.device)] if len(in_time_L) else in_time_L)
        return spread.at(spread.score_P.argsort(descending=True, stable=True))

    def sought(self) -> list[Sought]:
        """Where they are found."""
        return [Sought(*place) for place in zip(self.first_P.tolist(), self.anchor_P.tolist(), strict=True)]

    @property
    def _columns(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.first_P, self.anchor_P, self.interval_P2, self.score_P


def sure_and_unsure(
    kept: Candidates, told: Sequence[Sought], told_S2: Tensor, each: int
) -> tuple[list[Sought], list[Sought]]:
    """The `each` surest events of a timeline that differ, and `each` of the low end of proposals.

    The timeline is at the steps `told_S2`. Without an event the best proposals are the surest. What is unsure and yet
    in the timeline is known as its event.
    """
    if told:
        confidence_S = torch.tensor([found.event.score if found.event else 0.0 for found in told]).to(told_S2)
        surest_S = _different(told_S2, confidence_S)[:each]
        sure, shown_S2 = [told[place] for place in surest_S.tolist()], told_S2[surest_S]
    else:
        best = kept.best(each)
        sure, shown_S2 = best.sought(), best.interval_P2
    in_timeline = {(found.first, found.anchor): found for found in told}
    unsure = kept.least_sure(each, shown_S2).sought()
    return sure, [in_timeline.get((found.first, found.anchor), found) for found in unsure]


def _different(interval_P2: Tensor, preference_P: Tensor) -> Tensor:
    """The numbers of those that no preferred one shows already, the most preferred first."""
    order_P = preference_P.argsort(descending=True, stable=True)[:MOST_COMPARED]
    ordered_P2 = interval_P2[order_P]
    return order_P[suppress(temporal_iou(ordered_P2, ordered_P2) > DIFFERENT)]
