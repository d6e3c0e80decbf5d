"""One window of a video as the network reads it, to be looked into: what it proposes, and the mask of any event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel
from densevid.errors import InputError
from densevid.inference.borders import at_changes
from densevid.inference.compared import compared_by
from densevid.inference.rules import rules_of
from densevid.inference.selection import SHORTEST, WHOLE_VIDEO, Lengths
from densevid.inference.shown_proposals import GIVEN, Candidates, Sought
from densevid.inference.windows import Windows, cut
from densevid.model.event_mask import EventMask
from densevid.model.masked_transformer import EncodedVideo
from densevid.model.proposal_decoder import Proposals
from densevid.tracks import FeatureTrack

Span = tuple[float, float]


def windows_read(loaded: LoadedModel, track: FeatureTrack) -> Windows:
    """The windows in which a video is captioned; the first alone where the model's rules read no more."""
    window = loaded.config.model.window
    if rules_of(loaded.config).reads_all:
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

    `begin` is its first second, and what the network reads is `features_1TF`.
    """

    loaded: LoadedModel
    windows: Windows
    part: FeatureTrack
    begin: float
    features_1TF: Tensor
    video: EncodedVideo
    proposals: Proposals

    @classmethod
    def of(cls, loaded: LoadedModel, track: FeatureTrack, windows: Windows, first: int) -> ReadWindow:
        """The window of a track that begins with the step `first`."""
        only = replace(windows, starts=(first,))
        part = only.part(track, 0)
        model, config, steps = loaded.model, loaded.config, len(part)
        with np.errstate(over="ignore"):
            values = np.asarray(part.values, dtype=np.float32)
        if not np.isfinite(values).all():
            raise InputError("its features hold NaN, infinity or numbers too large for float32")
        values = np.pad(values, ((0, rules_of(config).steps_read(steps) - steps), (0, 0)))
        features_1TF = torch.from_numpy(values)[None].to(model.device)
        valid_1T = torch.ones(features_1TF.shape[:2], dtype=torch.bool, device=model.device)
        video, own_1 = model.encode(features_1TF, valid_1T), torch.tensor([steps], device=model.device)
        compared_1TC = compared_by(loaded.expected_on(model.device), config.inference)(features_1TF)
        proposals = at_changes(model.propose(video), compared_1TC, own_1, config.inference)
        return cls(loaded, only, part, float(track.seconds(first)), features_1TF, video, proposals)

    @property
    def first(self) -> int:
        """Its first step."""
        return self.windows.starts[0]

    def kept(self) -> Candidates:
        """The proposals that a dense list would have, but for those that the borders of the window cut."""
        chosen = rules_of(self.loaded.config).select(self.proposals, self._lengths)
        anchor_K = chosen.anchor_BK[0, chosen.kept_BK[0]]
        inside_K2 = self.proposals.intervals_BA2[0, anchor_K].clamp(0, len(self.part))  # the release reaches beyond
        interval_K2 = inside_K2 + self.first
        whole_K = ~cut(self.windows, interval_K2[None])[0] & (inside_K2[:, 1] - inside_K2[:, 0] > SHORTEST)
        anchor_P = anchor_K[whole_K]
        score_P = self.proposals.scores_BA[0, anchor_P]
        return Candidates(torch.full_like(anchor_P, self.first), anchor_P, interval_K2[whole_K], score_P)

    def masked(self, sought: Sought) -> MaskedEvent:
        """An event that was found here: by an anchor, by none, or by whoever gave its span."""
        if sought.anchor == GIVEN and sought.event is not None:
            begin, end = self.part.clock.steps([sought.event.start - self.begin, sought.event.end - self.begin])
            return self._window_alone((max(0.0, float(begin)), float(end)))
        if sought.anchor == WHOLE_VIDEO:
            return self._window_alone((0.0, float(len(self.part))))
        anchor_1 = torch.tensor([sought.anchor], device=self.loaded.model.device)
        picked = self.proposals.pick(torch.zeros_like(anchor_1), anchor_1)
        start, end = picked.intervals_P2[0].clamp(0, len(self.part)).tolist()
        score = float(self.proposals.scores_BA[0, sought.anchor])
        gate = float(picked.logits_P[0].sigmoid()) if self.loaded.config.model.mask == "gated" else None
        return MaskedEvent((start, end), self.masks(anchor_1), score, gate)

    def masks(self, anchor_P: Tensor) -> EventMask:
        """The masks that proposals are captioned under."""
        picked = self.proposals.pick(torch.zeros_like(anchor_P), anchor_P)
        limit_P = torch.full_like(picked.logits_P, float(self._lengths.limit_B[0]))
        return self.loaded.model.event_mask(picked, self.proposals.steps, limit_P)

    def masks_of(self, anchors: Sequence[int]) -> Tensor:
        """The masks that are applied to anchors, P x T; an anchor of -1 is all of the window."""
        if not len(self.proposals.anchors_A2):
            return torch.ones(len(anchors), len(self.part))
        anchor_P = torch.tensor(anchors, dtype=torch.long, device=self.loaded.model.device)
        mask_PT = self.masks(anchor_P.clamp(min=0)).mask_PT
        return torch.where(anchor_P[:, None] < 0, 1.0, mask_PT)[:, : len(self.part)]

    def _window_alone(self, interval: Span) -> MaskedEvent:
        """What is captioned as it is given, without a learned mask."""
        device = self.loaded.model.device
        mask_1T = self.loaded.model.segment_mask(
            torch.tensor([interval], device=device), self.proposals.steps, torch.tensor([len(self.part)], device=device)
        )
        return MaskedEvent(interval, EventMask(mask_1T, mask_1T, None))

    @property
    def _lengths(self) -> Lengths:
        """As `uploads.py` has them."""
        rules, steps = rules_of(self.loaded.config), len(self.part)
        counts = (steps, rules.steps_read(steps), rules.end(steps, self.part.clock.seconds_per_step))
        device = self.loaded.model.device
        dtype = torch.float32 if device.type == "mps" else torch.float64
        return Lengths(*torch.tensor(counts, dtype=dtype, device=device)[:, None])
