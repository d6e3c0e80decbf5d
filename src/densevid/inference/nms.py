"""Non-maximum suppression: the proposals of many videos become the few that are captioned.

The paper: proposals scored over the threshold, those that overlap a better one by 90% or more removed, at least 50
and at most 500 left. The release takes the best max(count over threshold, 200), drops what reaches outside the
video, and compares each candidate's interval with the rounded windows of those kept.

Candidates stand in order of score, B x C. Suppression compares the best few hundred of all videos at once, and twice
as many again only while some video has too few events left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from densevid.config import InferenceConfig
from densevid.fast_forms import FastForm
from densevid.intervals import suppress, temporal_iou
from densevid.model.anchors import anchor_intervals
from densevid.model.event_mask import rounded_windows
from densevid.model.proposal_decoder import Proposals

SHORTEST = 1e-3
FIRST_CANDIDATES = 512
PAIRS_AT_ONCE = 1 << 26  # of candidates whose overlap is in memory together
WHOLE_VIDEO = -1  # the anchor of an event that no anchor proposed
FAST_SUPPRESS: FastForm[Callable[[Tensor], Tensor]] = FastForm()  # `intervals.suppress` on a GPU


@dataclass(frozen=True)
class Lengths:
    """Of every video: its own steps, the steps that are read of it, and where intervals must end. In steps."""

    steps_B: Tensor
    read_B: Tensor
    end_B: Tensor

    @property
    def limit_B(self) -> Tensor:
        """Where windows must end."""
        return torch.minimum(self.end_B, self.read_B)

    def to(self, dtype: torch.dtype) -> Lengths:
        """The same with fewer digits, to be compared with what a network computed."""
        return Lengths(self.steps_B.to(dtype), self.read_B.to(dtype), self.end_B.to(dtype))


@dataclass(frozen=True)
class Selection:
    """The chosen anchors of every video, best first, with their score and the interval to report, in steps.

    `ProposalGenerator` numbers anchors in the grid of each video by itself, whatever the other videos of its batch.
    Videos have different numbers of events: only places where `kept_BK` is true count. To choose among the events of a
    selection, clear places of `kept_BK`, on the device, for all videos together. Where scores were rescored
    (`rescoring.rescore_by_contrast`), `network_BK` holds the network's own.
    """

    anchor_BK: Tensor
    score_BK: Tensor
    reported_BK2: Tensor
    kept_BK: Tensor
    network_BK: Tensor | None = None

    @property
    def of_network(self) -> Tensor:
        """The network's own scores, before rescoring."""
        return self.score_BK if self.network_BK is None else self.network_BK

    @property
    def columns(self) -> tuple[Tensor, ...]:
        """Its tensors, in the order of its fields."""
        columns = (self.anchor_BK, self.score_BK, self.reported_BK2, self.kept_BK)
        return columns if self.network_BK is None else (*columns, self.network_BK)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Selection:
        """The same change to every column."""
        return Selection(*map(change, self.columns))

    def copied(self) -> Selection:
        """The same in tensors that nobody else writes to."""
        return self.mapped(torch.clone)

    def at_least_one(self, lengths: Lengths, score: float) -> Selection:
        """Where nothing was chosen, one event over everything, as the release has it."""
        if not self.kept_BK.shape[1]:
            return self.widened(1).at_least_one(lengths, score)
        first_BK = torch.arange(self.kept_BK.shape[1], device=self.kept_BK.device) == 0
        whole_BK = first_BK & ~self.kept_BK.any(dim=1, keepdim=True)
        everything_B2 = torch.stack((torch.zeros_like(lengths.limit_B), lengths.limit_B), dim=-1)
        return Selection(
            self.anchor_BK.masked_fill(whole_BK, WHOLE_VIDEO),
            self.score_BK.to(everything_B2.dtype).masked_fill(whole_BK, score),
            torch.where(whole_BK[..., None], everything_B2[:, None], self.reported_BK2.to(everything_B2.dtype)),
            self.kept_BK | whole_BK,
            None if self.network_BK is None else self.network_BK.to(everything_B2.dtype).masked_fill(whole_BK, score),
        )

    def widened(self, places: int) -> Selection:
        """With so many places for every video; those that are new are empty."""
        return self.mapped(lambda values: F.pad(values, (0, 0) * (values.ndim - 2) + (0, places - values.shape[1])))


Choose = Callable[[Selection], Selection]


@dataclass(frozen=True)
class SelectionAttempt:
    """A selection made without waiting for the device; final only if `enough_1`, else it takes more candidates."""

    selection: Selection
    enough_1: Tensor


def best(selection: Selection, count: int) -> Selection:
    """The first `count` of every video."""
    return replace(selection, kept_BK=selection.kept_BK & (selection.kept_BK.cumsum(dim=1) <= count))


def select(
    proposals: Proposals, lengths: Lengths, config: InferenceConfig, *, allow_sync: bool = True
) -> SelectionAttempt:
    """The paper's selection; intervals are cut to their video, and anchors that reach beyond it take no part.

    Args:
        proposals: Every anchor of every video.
        lengths: How long the videos are.
        config: The thresholds and counts.
        allow_sync: Whether the host may read from the device: to take more candidates where the first are too few, and
            to cut off unused places.

    Returns:
        The selection, and whether it is final.
    """
    steps_B1 = lengths.to(proposals.offsets_BA2.dtype).steps_B[:, None]
    clipped_BA2 = torch.minimum(proposals.intervals_BA2.clamp(min=0), steps_B1[..., None])
    fits_BA = (anchor_intervals(proposals.anchors_A2)[:, 1] <= steps_B1) & (
        clipped_BA2[..., 1] - clipped_BA2[..., 0] > SHORTEST
    )
    score_BA = torch.where(fits_BA, proposals.scores_BA, -1)
    ranked = score_BA.sort(dim=1, descending=True, stable=True)
    usable_B1 = fits_BA.sum(dim=1, keepdim=True)
    entering_B1 = (score_BA > config.score_threshold).sum(dim=1, keepdim=True).clamp(min=config.min_before_suppression)

    def settle(considered: int) -> tuple[Tensor, Tensor]:
        rank_C = torch.arange(considered, device=score_BA.device)
        spans_BC2 = _taken(clipped_BA2, ranked.indices[:, :considered])
        kept_BC = _greedy(spans_BC2, spans_BC2, rank_C < usable_B1, lambda iou: iou >= config.suppression_iou)
        chosen_BC = kept_BC & ((rank_C < entering_B1) | (kept_BC.cumsum(dim=1) <= config.min_proposals))
        have_B1 = chosen_BC.sum(dim=1, keepdim=True)
        through_B1 = (considered >= entering_B1) & (have_B1 >= config.min_proposals)
        return chosen_BC, through_B1 | (have_B1 >= config.max_proposals) | (considered >= usable_B1)

    first = max(FIRST_CANDIDATES, 4 * config.min_proposals)
    chosen_BC, enough_1 = _settled(settle, score_BA.shape[1], first, allow_sync=allow_sync)
    place_BK, kept_BK = _first(chosen_BC, config.max_proposals, allow_sync=allow_sync)
    anchor_BK = ranked.indices.gather(1, place_BK)
    selection = Selection(anchor_BK, ranked.values.gather(1, place_BK), _taken(clipped_BA2, anchor_BK), kept_BK)
    return SelectionAttempt(selection, enough_1)


def released_end(steps: int, seconds_per_step: float) -> float:
    """Where the release lets a video of `steps` steps end: it adds two steps in seconds, not in steps."""
    return steps + 2 * seconds_per_step


def select_released(
    proposals: Proposals, lengths: Lengths, config: InferenceConfig, *, allow_sync: bool = True
) -> SelectionAttempt:
    """The release's selection, with the arguments of `select`; `lengths.end_B` has the mixed units of `released_end`.

    Kernels longer than the video take no part. Its minimum of 50 never has an effect, so `min_proposals` has none here.
    """
    lengths, intervals_BA2 = lengths.to(proposals.offsets_BA2.dtype), proposals.intervals_BA2
    score_BA = proposals.scores_BA
    usable_BA = proposals.anchors_A2[:, 1] <= lengths.steps_B[:, None]
    usable_BA &= anchor_intervals(proposals.anchors_A2)[:, 1] <= lengths.read_B[:, None]
    over_BA = (score_BA > config.score_threshold) & usable_BA
    count_B1 = over_BA.sum(dim=1, keepdim=True).clamp(min=config.min_before_suppression)
    count_B1 = torch.minimum(count_B1, usable_BA.sum(dim=1, keepdim=True))
    ranked = torch.where(usable_BA, score_BA, -1).sort(dim=1, descending=True, stable=True)
    windows_BA2 = rounded_windows(intervals_BA2, lengths.limit_B[:, None])

    def settle(considered: int) -> tuple[Tensor, Tensor]:
        order_BC = ranked.indices[:, :considered]
        spans_BC2, rank_C = _taken(intervals_BA2, order_BC), torch.arange(considered, device=score_BA.device)
        start_BC, stop_BC = spans_BC2.unbind(-1)
        enters_BC = (rank_C < count_B1) & (start_BC < stop_BC) & (start_BC >= 0) & (stop_BC < lengths.end_B[:, None])
        windows_BC2 = _taken(windows_BA2, order_BC).double()
        kept_BC = _greedy(spans_BC2.double(), windows_BC2, enters_BC, lambda iou: iou > config.suppression_iou)
        enough_B1 = kept_BC.sum(dim=1, keepdim=True) >= config.max_proposals
        return kept_BC, enough_B1 | (considered >= count_B1)

    chosen_BC, enough_1 = _settled(settle, score_BA.shape[1], FIRST_CANDIDATES, allow_sync=allow_sync)
    place_BK, kept_BK = _first(chosen_BC, config.max_proposals, allow_sync=allow_sync)
    anchor_BK = ranked.indices.gather(1, place_BK)
    selection = Selection(anchor_BK, score_BA.gather(1, anchor_BK), _taken(windows_BA2, anchor_BK), kept_BK)
    return SelectionAttempt(selection, enough_1)


def _settled(
    settle: Callable[[int], tuple[Tensor, Tensor]], anchors: int, considered: int, *, allow_sync: bool
) -> tuple[Tensor, Tensor]:
    """Consider twice as many candidates until every video has enough, or once; and whether that was enough."""
    while True:
        considered = min(considered, anchors)
        chosen_BC, enough_B1 = settle(considered)
        enough_1 = enough_B1.all() | (considered == anchors)
        if not allow_sync or considered == anchors or bool(enough_1):
            return chosen_BC, enough_1
        considered *= 2


def _greedy(first_BC2: Tensor, second_BC2: Tensor, enters_BC: Tensor, too_near: Callable[[Tensor], Tensor]) -> Tensor:
    """Those who enter, and lose to nobody better who is kept; i loses to j where first i is too near to second j."""
    videos = max(1, PAIRS_AT_ONCE // max(1, enters_BC.shape[1] ** 2))
    parts = zip(first_BC2.split(videos), second_BC2.split(videos), enters_BC.split(videos), strict=True)
    kept = [
        _suppressed(too_near(temporal_iou(first, second)) & enters[:, None, :]) & enters
        for first, second, enters in parts
    ]
    return torch.cat(kept)


def _suppressed(overlapping_BCC: Tensor) -> Tensor:
    """`suppress` of every video."""
    fast = FAST_SUPPRESS.find() if overlapping_BCC.is_cuda else None
    return (fast or suppress)(overlapping_BCC)


def _first(chosen_BC: Tensor, most: int, *, allow_sync: bool) -> tuple[Tensor, Tensor]:
    """The places of the first `most` chosen of every video, side by side, and where there are so many."""
    chosen_BC = chosen_BC & (chosen_BC.cumsum(dim=1) <= most)
    columns = min(most, chosen_BC.shape[1])
    if allow_sync:
        columns = int(chosen_BC.sum(dim=1).max()) if chosen_BC.numel() else 0
    place_BK = chosen_BC.byte().argsort(dim=1, descending=True, stable=True)[:, :columns]
    return place_BK, chosen_BC.gather(1, place_BK)


def _taken(values_BA2: Tensor, index_BC: Tensor) -> Tensor:
    return values_BA2.gather(1, index_BC[..., None].expand(-1, -1, 2))
