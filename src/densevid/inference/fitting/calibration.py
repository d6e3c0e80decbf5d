"""Fit a model's confidence on videos it has not learnt from: what it says against what is true.

First the curve that judges proposals, on everything that is proposed; then, with it, the curve that judges events, on
stories of at most as many as a summary of one window, however unsure: what is chosen is right more often than what is
proposed.
That is as true before a word is said, so it goes into the first curve, and the second adds what the words say. Where a
model knows whether anything happens, a curve of its own tells videos without events from right proposals, and the
others are fitted where something does. All are a handful of numbers and go into the model folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import (
    HAPPENING,
    RIGHT_IOU,
    STIR,
    Calibration,
    event_columns,
    proposal_columns,
    totals_of,
)
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.long_video import LongVideoCaptioner, model_inputs
from densevid.inference.nms import WHOLE_VIDEO
from densevid.inference.summary import SummaryRules
from densevid.intervals import temporal_iou
from densevid.tracks import FeatureTrack

AS_IT_IS = LogisticCurve(("confidence",), (1.0,), 0.0)
Truth = Mapping[str, Sequence[Event]]


@dataclass(frozen=True)
class HeldOut:
    """What events were judged by, column by column, which of them were right, and which are of videos without any."""

    columns: dict[str, npt.NDArray[np.float64]]
    right_N: npt.NDArray[np.bool_]
    quiet_N: npt.NDArray[np.bool_]

    def curve(self) -> LogisticCurve:
        """The curve of these events."""
        return LogisticCurve.fit(self.columns, self.right_N)

    def where(self, these_N: npt.NDArray[np.bool_]) -> HeldOut:
        """Some of them."""
        columns = {name: values[these_N] for name, values in self.columns.items()}
        return HeldOut(columns, self.right_N[these_N], self.quiet_N[these_N])

    def without(self, name: str) -> HeldOut:
        """The same, not judged by one of the columns."""
        return replace(self, columns={other: self.columns[other] for other in self.columns if other != name})

    def happening_curve(self) -> LogisticCurve | None:
        """The curve of whether anything happens: in what is right something does, in quiet videos nothing.

        None where nothing is proposed in quiet videos, and nothing has to be told apart.
        """
        known = self.where(self.right_N | self.quiet_N)
        if not known.quiet_N.any():
            return None
        return LogisticCurve.fit({HAPPENING: known.columns[HAPPENING]}, ~known.quiet_N)


def fit_calibration(captioner: Captioner, tracks: Mapping[str, FeatureTrack], truth: Truth) -> Calibration:
    """The curves, from what the captioner says of some videos; what it cannot read of a long one is not held true.

    A video that is known to have no events counts too: whatever is proposed there is wrong.
    """
    videos = [video for video in tracks if video in truth]
    if not any(truth[video] for video in videos):
        raise InputError("no video has both features and true events; are the ids written the same way?")
    proposed = held_out_proposals(captioner, [tracks[video] for video in videos], [truth[video] for video in videos])
    first = _before_words(proposed)
    counts = {"videos": len(videos), "quiet": sum(not truth[video] for video in videos)}
    if first.actionness is not None:
        videos = [video for video in videos if truth[video]]
    settings = captioner.config.inference
    rules = SummaryRules.of(settings, captioner.config.model.window, top=settings.summary_events)
    teller = LongVideoCaptioner(captioner, summary=rules, calibration=first)
    told = held_out_events(teller, [tracks[video] for video in videos], [truth[video] for video in videos])
    counts |= {"proposals": len(proposed.right_N), "events": len(told.right_N)}
    proposal, event = _with_words(first.proposal, told)
    return replace(first, proposal=proposal, event=event, fitted={**counts, "iou": RIGHT_IOU})


def _before_words(proposed: HeldOut) -> Calibration:
    """What is known before a word is said."""
    if HAPPENING not in proposed.columns:
        return Calibration(proposed.curve(), AS_IT_IS)
    lively = proposed.where(~proposed.quiet_N).without(HAPPENING)
    return Calibration(lively.curve(), AS_IT_IS, proposed.happening_curve())


def _with_words(proposal: LogisticCurve, told: HeldOut) -> tuple[LogisticCurve, LogisticCurve]:
    """Of proposals and of events, the first as sure as the second is of a sentence as sure of its words as most."""
    event = told.curve()
    factor, words = event.weights
    if factor <= 0:  # too few events to know better
        return proposal, event
    shift = words * float(told.columns["log_probability"].mean())
    return proposal.stretched(factor, event.bias + shift), replace(event, weights=(1.0, words), bias=-shift)


def held_out_proposals(
    captioner: Captioner, tracks: Sequence[FeatureTrack], truth: Sequence[Sequence[Event]]
) -> HeldOut:
    """All that is proposed in the first window of each video; nothing is captioned.

    Only videos without events can teach what it means that nothing happens: without them it is not asked. A model that
    nobody has shown any is asked how much they stir.
    """
    rows = iter(zip(tracks, truth, strict=True))
    columns: list[dict[str, Tensor]] = []
    right: list[Tensor] = []
    quiet: list[bool] = []
    asked = [HAPPENING if captioner.actionness is not None else STIR] if any(not events for events in truth) else []
    totals = totals_of(asked, captioner.actionness)
    for inputs, batch in captioner.proposed(tracks):
        selection = batch.selection
        kept_BK = selection.kept_BK & (selection.anchor_BK != WHOLE_VIDEO)
        found = proposal_columns(replace(selection, kept_BK=kept_BK), model_inputs(inputs, totals, captioner.device))
        columns.append({name: values[kept_BK].cpu() for name, values in found.items()})
        for spans_K2, own_K, (track, events) in zip(selection.reported_BK2, kept_BK, rows):  # noqa: B905
            right.append(right_steps(spans_K2[own_K].cpu(), track, events))
            quiet.extend([not events] * len(right[-1]))
    joined = {name: torch.cat([part[name] for part in columns]).double().numpy() for name in columns[0]}
    return HeldOut(joined, torch.cat(right).numpy(), np.array(quiet, dtype=np.bool_))


def held_out_events(
    teller: LongVideoCaptioner, tracks: Sequence[FeatureTrack], truth: Sequence[Sequence[Event]]
) -> HeldOut:
    """All that a teller's stories hold."""
    told = list(teller.captioned(tracks))
    score, words = (
        torch.from_numpy(np.concatenate([getattr(each, name) for each in told]))
        for name in ("score_P", "log_probability_P")
    )
    right = [
        right_steps(torch.from_numpy(each.reported_P2), track, events)
        for each, track, events in zip(told, tracks, truth, strict=True)
    ]
    columns = {name: values.numpy() for name, values in event_columns(score, words).items()}
    quiet = np.repeat([not events for events in truth], [len(rows) for rows in right])
    return HeldOut(columns, torch.cat(right).numpy(), quiet)


def right_steps(spans_P2: Tensor, track: FeatureTrack, events: Sequence[Event]) -> Tensor:
    """Which intervals, in steps, overlap a true event well enough."""
    seconds_G2 = np.array([(event.start, event.end) for event in events], dtype=np.float64).reshape(-1, 2)
    truth_G2 = torch.from_numpy(track.clock.steps(seconds_G2))
    return (temporal_iou(spans_P2.to(truth_G2), truth_G2) >= RIGHT_IOU).any(dim=1)
