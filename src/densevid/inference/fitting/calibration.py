"""Fit a model's calibration on held-out videos: the confidence of events against whether they are right.

The `proposal` curve is fitted first, to everything that is proposed; then, with it, the `event` curve, to summaries of
at most as many events as one window may have, however unsure: events that are chosen are right more often than those
that are proposed. That holds before they are captioned, too, so it goes into the first curve, and the second adds the
likelihood of the sentence. Where the model has an actionness and some videos have no events, a curve of its own
separates no-event videos from right proposals, and the others are fitted to videos with events.
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
    ACTIONNESS,
    RIGHT_IOU,
    Calibration,
    event_features,
    proposal_features,
    running_totals,
)
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.long_video import LongVideoCaptioner, model_inputs
from densevid.inference.nms import WHOLE_VIDEO
from densevid.inference.summary import SummaryRules
from densevid.intervals import temporal_iou
from densevid.tracks import FeatureTrack

IDENTITY = LogisticCurve(("confidence",), (1.0,), 0.0)
Truth = Mapping[str, Sequence[Event]]


@dataclass(frozen=True)
class HeldOut:
    """N held-out events: their confidence features, whether they are right, and whether their video has no events."""

    features: dict[str, npt.NDArray[np.float64]]
    right_N: npt.NDArray[np.bool_]
    negative_N: npt.NDArray[np.bool_]

    def curve(self) -> LogisticCurve:
        """The curve that these events fit."""
        return LogisticCurve.fit(self.features, self.right_N)

    def where(self, these_N: npt.NDArray[np.bool_]) -> HeldOut:
        """Some of them."""
        features = {name: values[these_N] for name, values in self.features.items()}
        return HeldOut(features, self.right_N[these_N], self.negative_N[these_N])

    def without(self, name: str) -> HeldOut:
        """The same events without one of the features."""
        return replace(self, features={other: self.features[other] for other in self.features if other != name})

    def actionness_curve(self) -> LogisticCurve | None:
        """The curve of P(an event is shown), from right proposals and those of no-event videos.

        None where nothing is proposed in no-event videos: then there is nothing to separate.
        """
        known = self.where(self.right_N | self.negative_N)
        if not known.negative_N.any():
            return None
        return LogisticCurve.fit({ACTIONNESS: known.features[ACTIONNESS]}, ~known.negative_N)


def fit_calibration(captioner: Captioner, tracks: Mapping[str, FeatureTrack], truth: Truth) -> Calibration:
    """Fit the curves of a model.

    Args:
        captioner: The model.
        tracks: Features of held-out videos by their ids. Of a long video its first window gives the proposals.
        truth: Their true events. A video without any counts: whatever is proposed there is wrong.

    Returns:
        The calibration, to be written as `calibration.toml`.

    Raises:
        InputError: No video has both features and true events, or all events are right, or none.
    """
    videos = [video for video in tracks if video in truth]
    if not any(truth[video] for video in videos):
        raise InputError("no video has both features and true events; are the ids written the same way?")
    proposals = held_out_proposals(captioner, [tracks[video] for video in videos], [truth[video] for video in videos])
    first = _before_captions(proposals)
    counts = {"videos": len(videos), "negatives": sum(not truth[video] for video in videos)}
    if first.actionness is not None:
        videos = [video for video in videos if truth[video]]
    settings = captioner.config.inference
    rules = SummaryRules.of(settings, captioner.config.model.window, top=settings.summary_events)
    summaries = LongVideoCaptioner(captioner, summary=rules, calibration=first)
    events = held_out_events(summaries, [tracks[video] for video in videos], [truth[video] for video in videos])
    counts |= {"proposals": len(proposals.right_N), "events": len(events.right_N)}
    proposal, event = with_captions(first.proposal, events)
    return replace(first, proposal=proposal, event=event, fitted={**counts, "iou": RIGHT_IOU})


def _before_captions(proposals: HeldOut) -> Calibration:
    """What can be fitted before anything is captioned."""
    if ACTIONNESS not in proposals.features:
        return Calibration(proposals.curve(), IDENTITY)
    with_events = proposals.where(~proposals.negative_N).without(ACTIONNESS)
    return Calibration(with_events.curve(), IDENTITY, proposals.actionness_curve())


def with_captions(proposal: LogisticCurve, events: HeldOut) -> tuple[LogisticCurve, LogisticCurve]:
    """Curves of proposals and of events: the same confidence from both for a sentence of average likelihood."""
    event = events.curve()
    factor, words = event.weights
    if factor <= 0:  # too few events to know better
        return proposal, event
    shift = words * float(events.features["log_probability"].mean())
    return proposal.stretched(factor, event.bias + shift), replace(event, weights=(1.0, words), bias=-shift)


def held_out_proposals(
    captioner: Captioner, tracks: Sequence[FeatureTrack], truth: Sequence[Sequence[Event]]
) -> HeldOut:
    """Everything that is proposed in the first window of each video, without captions.

    Actionness is among the features only where some video has no events: other videos cannot teach it.
    """
    videos = iter(zip(tracks, truth, strict=True))
    features: list[dict[str, Tensor]] = []
    right: list[Tensor] = []
    negative: list[bool] = []
    known = captioner.actionness is not None and any(not events for events in truth)
    totals = running_totals([ACTIONNESS] if known else [], captioner.actionness)
    for inputs, batch in captioner.proposed(tracks):
        selection = batch.selection
        kept_BK = selection.kept_BK & (selection.anchor_BK != WHOLE_VIDEO)
        proposed = replace(selection, kept_BK=kept_BK)
        found = proposal_features(proposed, model_inputs(inputs, totals, captioner.device))
        features.append({name: values[kept_BK].cpu() for name, values in found.items()})
        for spans_K2, own_K, (track, events) in zip(selection.reported_BK2, kept_BK, videos):  # noqa: B905
            right.append(right_steps(spans_K2[own_K].cpu(), track, events))
            negative.extend([not events] * len(right[-1]))
    joined = {name: torch.cat([part[name] for part in features]).double().numpy() for name in features[0]}
    return HeldOut(joined, torch.cat(right).numpy(), np.array(negative, dtype=np.bool_))


def held_out_events(
    captioner: LongVideoCaptioner, tracks: Sequence[FeatureTrack], truth: Sequence[Sequence[Event]]
) -> HeldOut:
    """All events that a captioner's summaries hold."""
    videos = list(captioner.captioned(tracks))
    score, words = (
        torch.from_numpy(np.concatenate([getattr(each, name) for each in videos]))
        for name in ("score_P", "log_probability_P")
    )
    right = [
        right_steps(torch.from_numpy(each.reported_P2), track, events)
        for each, track, events in zip(videos, tracks, truth, strict=True)
    ]
    features = {name: values.numpy() for name, values in event_features(score, words).items()}
    negative = np.repeat([not events for events in truth], [len(rows) for rows in right])
    return HeldOut(features, torch.cat(right).numpy(), negative)


def right_steps(spans_P2: Tensor, track: FeatureTrack, events: Sequence[Event]) -> Tensor:
    """Which intervals, in steps, overlap a true event well enough."""
    seconds_G2 = np.array([(event.start, event.end) for event in events], dtype=np.float64).reshape(-1, 2)
    truth_G2 = torch.from_numpy(track.clock.steps(seconds_G2))
    return (temporal_iou(spans_P2.to(truth_G2), truth_G2) >= RIGHT_IOU).any(dim=1)
