"""What an explanation shows, and one window of a video to look it up in: its proposals and the mask of any event.

Shown are the most confident events of the timeline (of an empty timeline the best proposals) and some proposals of low
score. Windows that captioning kept are not computed again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.compat import behavior_of
from densevid.inference.nms import SHORTEST, WHOLE_VIDEO, Lengths
from densevid.inference.proposals import ProposedBatch
from densevid.inference.rescoring import refine_boundaries, similarity_space
from densevid.inference.windows import Windows, cut
from densevid.intervals import suppress, temporal_iou
from densevid.model.event_mask import EventMask
from densevid.model.masked_transformer import EncodedVideo
from densevid.model.proposal_decoder import Proposals
from densevid.tracks import FeatureTrack

DIFFERENT = 0.5  # IoU; a proposal that overlaps a shown one by more is not shown
UNSURE = 0.7  # the paper shows two proposals scored above .9 and two below .7
LOW_END = 0.1  # of all proposals by score: from these some are taken that lie apart in time
MOST_COMPARED = 2000  # suppression compares all pairs
GIVEN = -2  # the anchor of a given span


@dataclass(frozen=True)
class ProposalRef:
    """A proposal: the first step of its window, and the number of its anchor in that window.

    The anchor is `WHOLE_VIDEO` where no anchor proposed it and `GIVEN` for a given span. `event` is its event in the
    timeline, None where the timeline does not show it.
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
        """The proposals of highest score that differ."""
        return self.at(_different(self.interval_P2, self.score_P)[:each])

    def least_sure(self, each: int, shown_S2: Tensor) -> Candidates:
        """Proposals of low score that differ from those shown, spread over time; the higher score first."""
        new_P = (temporal_iou(self.interval_P2, shown_S2) <= DIFFERENT).all(dim=1) & (self.score_P < UNSURE)
        others = self.at(new_P)
        low_L = _different(others.interval_P2, -others.score_P)
        low = others.at(low_L[: max(each, math.ceil(LOW_END * len(low_L)))])
        in_time_L = low.interval_P2.mean(dim=1).argsort(stable=True)
        spread_U = torch.linspace(0, max(0, len(in_time_L) - 1), each).round().long().unique()
        spread = low.at(in_time_L[spread_U.to(in_time_L.device)] if len(in_time_L) else in_time_L)
        return spread.at(spread.score_P.argsort(descending=True, stable=True))

    def refs(self) -> list[ProposalRef]:
        """As references."""
        return [ProposalRef(*place) for place in zip(self.first_P.tolist(), self.anchor_P.tolist(), strict=True)]

    @property
    def _columns(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.first_P, self.anchor_P, self.interval_P2, self.score_P


def confident_and_unsure(
    kept: Candidates, shown: Sequence[ProposalRef], shown_S2: Tensor, each: int
) -> tuple[list[ProposalRef], list[ProposalRef]]:
    """The `each` most confident events of a timeline that differ, and `each` proposals of low score.

    The timeline's events are at the steps `shown_S2`. Without an event the best proposals take their place. A proposal
    of low score that is in the timeline comes with its event.
    """
    if shown:
        confidence_S = torch.tensor([ref.event.score if ref.event else 0.0 for ref in shown]).to(shown_S2)
        best_S = _different(shown_S2, confidence_S)[:each]
        confident, shown_S2 = [shown[place] for place in best_S.tolist()], shown_S2[best_S]
    else:
        best = kept.best(each)
        confident, shown_S2 = best.refs(), best.interval_P2
    in_timeline = {(ref.first, ref.anchor): ref for ref in shown}
    unsure = kept.least_sure(each, shown_S2).refs()
    return confident, [in_timeline.get((ref.first, ref.anchor), ref) for ref in unsure]


def _different(interval_P2: Tensor, preference_P: Tensor) -> Tensor:
    """The numbers of those that no preferred one overlaps too much, the most preferred first."""
    order_P = preference_P.argsort(descending=True, stable=True)[:MOST_COMPARED]
    ordered_P2 = interval_P2[order_P]
    return order_P[suppress(temporal_iou(ordered_P2, ordered_P2) > DIFFERENT)]


Span = tuple[float, float]


def _features(loaded: LoadedModel, part: FeatureTrack) -> Tensor:
    """The features of one window as the network reads them."""
    steps = len(part)
    with np.errstate(over="ignore"):
        values = np.asarray(part.values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise InputError("its features hold NaN, infinity or numbers too large for float32")
    values = np.pad(values, ((0, behavior_of(loaded.config).steps_read(steps) - steps), (0, 0)))
    return torch.from_numpy(values)[None].to(loaded.model.device)


def _computed(loaded: LoadedModel, part: FeatureTrack) -> tuple[Tensor, EncodedVideo, Proposals]:
    """The features of one window, encoded, and its proposals."""
    model, config, steps = loaded.model, loaded.config, len(part)
    features_1TF = _features(loaded, part)
    valid_1T = torch.ones(features_1TF.shape[:2], dtype=torch.bool, device=model.device)
    video, own_1 = model.encode(features_1TF, valid_1T), torch.tensor([steps], device=model.device)
    compared_1TC = similarity_space(loaded.word_prior_on(model.device), config.inference)(features_1TF)
    return features_1TF, video, refine_boundaries(model.propose(video), compared_1TC, own_1, config.inference)


def windows_read(loaded: LoadedModel, track: FeatureTrack) -> Windows:
    """The windows in which a video is captioned; only the first where the model reads no more."""
    window = loaded.config.model.window
    if behavior_of(loaded.config).reads_all:
        return Windows.over(track, window)
    steps = min(len(track), window)
    return Windows((0,), steps, steps)


@dataclass(frozen=True)
class MaskedEvent:
    """An event's interval in steps of its window, its masks, its score and the gate P_e of its mask, if it has them."""

    interval: Span
    masks: EventMask
    score: float | None = None
    gate: float | None = None


@dataclass(frozen=True)
class ReadWindow:
    """The only window of `windows`: its part of the track, encoded, and all that is proposed in it.

    `begin` is its first second, `features_1TF` what the network reads of it.
    """

    loaded: LoadedModel
    windows: Windows
    part: FeatureTrack
    begin: float
    features_1TF: Tensor
    video: EncodedVideo
    proposals: Proposals

    @classmethod
    def of(
        cls,
        loaded: LoadedModel,
        track: FeatureTrack,
        windows: Windows,
        first: int,
        kept: Mapping[int, ProposedBatch] | None = None,
    ) -> ReadWindow:
        """The window of a track that begins with the step `first`: as it was kept of captioning, or computed now."""
        only = replace(windows, starts=(first,))
        part, begin = only.part(track, 0), float(track.seconds(first))
        batch = (kept or {}).get(first)
        if batch is not None and batch.found.numbers is None and batch.steps == [len(part)]:  # not padded
            features_1TF = _features(loaded, part)
            video = replace(batch.found.video, features_BTF=features_1TF)  # which the kept one lacks
            return cls(loaded, only, part, begin, features_1TF, video, batch.found.proposals)
        return cls(loaded, only, part, begin, *_computed(loaded, part))

    @property
    def first(self) -> int:
        """Its first step."""
        return self.windows.starts[0]

    def kept(self) -> Candidates:
        """The proposals of the dense list, without those that the borders of the window cut."""
        chosen = behavior_of(self.loaded.config).select(self.proposals, self._lengths)
        anchor_K = chosen.anchor_BK[0, chosen.kept_BK[0]]
        inside_K2 = self.proposals.intervals_BA2[0, anchor_K].clamp(0, len(self.part))  # the release reaches beyond
        interval_K2 = inside_K2 + self.first
        whole_K = ~cut(self.windows, interval_K2[None])[0] & (inside_K2[:, 1] - inside_K2[:, 0] > SHORTEST)
        anchor_P = anchor_K[whole_K]
        score_P = self.proposals.scores_BA[0, anchor_P]
        return Candidates(torch.full_like(anchor_P, self.first), anchor_P, interval_K2[whole_K], score_P)

    def masked(self, ref: ProposalRef) -> MaskedEvent:
        """The masks of an event of this window: proposed by an anchor, by none, or a given span."""
        if ref.anchor == GIVEN and ref.event is not None:
            begin, end = self.part.clock.steps([ref.event.start - self.begin, ref.event.end - self.begin])
            return self._window_alone((max(0.0, float(begin)), float(end)))
        if ref.anchor == WHOLE_VIDEO:
            return self._window_alone((0.0, float(len(self.part))))
        anchor_1 = torch.tensor([ref.anchor], device=self.loaded.model.device)
        picked = self.proposals.pick(torch.zeros_like(anchor_1), anchor_1)
        start, end = picked.intervals_P2[0].clamp(0, len(self.part)).tolist()
        score = float(self.proposals.scores_BA[0, ref.anchor])
        gate = float(picked.logits_P[0].sigmoid()) if self.loaded.config.model.mask == "gated" else None
        return MaskedEvent((start, end), self.masks(anchor_1), score, gate)

    def masks(self, anchor_P: Tensor) -> EventMask:
        """The masks that proposals are captioned under."""
        picked = self.proposals.pick(torch.zeros_like(anchor_P), anchor_P)
        limit_P = torch.full_like(picked.logits_P, float(self._lengths.limit_B[0]))
        return self.loaded.model.event_mask(picked, self.proposals.steps, limit_P)

    def masks_of(self, anchors: Sequence[int]) -> Tensor:
        """The masks applied to the events of anchors, P x T; an anchor of -1 is all of the window."""
        if not len(self.proposals.anchors_A2):
            return torch.ones(len(anchors), len(self.part))
        anchor_P = torch.tensor(anchors, dtype=torch.long, device=self.loaded.model.device)
        mask_PT = self.masks(anchor_P.clamp(min=0)).mask_PT
        return torch.where(anchor_P[:, None] < 0, 1.0, mask_PT)[:, : len(self.part)]

    def _window_alone(self, interval: Span) -> MaskedEvent:
        """The mask of a given interval, without a learned part."""
        device = self.loaded.model.device
        mask_1T = self.loaded.model.segment_mask(
            torch.tensor([interval], device=device), self.proposals.steps, torch.tensor([len(self.part)], device=device)
        )
        return MaskedEvent(interval, EventMask(mask_1T, mask_1T, None))

    @property
    def _lengths(self) -> Lengths:
        """As in `DeviceBatch`."""
        rules, steps = behavior_of(self.loaded.config), len(self.part)
        counts = (steps, rules.steps_read(steps), rules.end(steps, self.part.clock.seconds_per_step))
        device = self.loaded.model.device
        dtype = torch.float32 if device.type == "mps" else torch.float64
        return Lengths(*torch.tensor(counts, dtype=dtype, device=device)[:, None])
