"""Confidence: the calibrated probability that an event is right, computed from a few confidence features.

A calibration holds logistic curves, fitted once on held-out videos (`fitting/calibration.py`) and kept in the model
folder as `calibration.toml`. The `proposal` curve gives the confidence before an event is captioned, by which a summary
is chosen; the `event` curve gives it with the sentence, as it is reported. A model with an actionness
(`model/priors.py`) has a third curve, and a proposal's confidence is

    P(right) = P(an event is shown) x P(right | an event is shown).

An event is right if it overlaps a true one with an IoU of at least `RIGHT_IOU`.

Features of the steps of an event, like actionness, are means over its steps. They are kept as running totals, one
number per step of a video, so that any number of events costs two look-ups each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.inference.batches import ModelInputs
from densevid.inference.fitting.logistic import Floats, LogisticCurve
from densevid.inference.nms import Selection
from densevid.intervals import temporal_iou
from densevid.model.priors import Actionness

FORMAT = 1
RIGHT_IOU = 0.5
ACTIONNESS = "actionness"
PROPOSAL_FEATURES = ("logit", "log_steps", "share", "neighbor_support")
EVENT_FEATURES = ("confidence", "log_probability")
ACTIONNESS_FEATURES = (ACTIONNESS,)
RunningTotal = Callable[[npt.NDArray[np.floating]], npt.NDArray[np.float32]]


def running_totals(step_features: Sequence[str], actionness: Actionness | None) -> dict[str, RunningTotal]:
    """How the running total of each step feature is computed from the features of a video.

    Args:
        step_features: The names that a calibration uses, `Calibration.step_features`.
        actionness: The model's actionness, if it has one.

    Returns:
        A function for each name.

    Raises:
        InputError: The calibration uses actionness, and the model has none.
    """
    if ACTIONNESS not in step_features:
        return {}
    if actionness is None:
        raise InputError("the model's calibration uses actionness, but actionness.safetensors is missing")
    return {ACTIONNESS: lambda values_TF: actionness_total(actionness, values_TF)}


def pad_totals(totals: Sequence[npt.NDArray[np.float32]], device: torch.device) -> Tensor:
    """The running totals of several videos as B x T; a video that has ended adds no more."""
    longest = max(len(total_T) for total_T in totals)
    rows = [np.pad(total_T, (0, longest - len(total_T)), "edge") for total_T in totals]
    return torch.from_numpy(np.stack(rows)).to(device)


def actionness_total(actionness: Actionness, values_TF: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    """Row t is the sum of the actionness of all steps before t, T + 1 of them."""
    return np.concatenate([[0.0], actionness.of_steps(values_TF).cumsum(dtype=np.float64)]).astype(np.float32)


def actionness_of(spans_BK2: Tensor, total_BT: Tensor, steps_B: Tensor) -> Tensor:
    """The mean actionness inside each span of a video of `steps_B` steps, B x K."""
    end_B1 = steps_B[:, None]
    first_BK = spans_BK2[..., 0].round().long().clamp(min=0).minimum(end_B1 - 1)
    last_BK = spans_BK2[..., 1].round().long().minimum(end_B1).maximum(first_BK + 1)
    sum_BK = total_BT.gather(1, last_BK) - total_BT.gather(1, first_BK)
    return sum_BK / (last_BK - first_BK)


def proposal_features(selection: Selection, inputs: ModelInputs) -> dict[str, Tensor]:
    """The confidence features of proposals.

    `logit` is the network's; `log_steps` the log of the length and `share` its share of the steps that are read;
    `neighbor_support` the log of the sum of score x IoU over all proposals of the video; `actionness` the mean over the
    steps, where `inputs` has it. Contrast is none of them: it shows where an event ends, but hides what the
    network knows of no-event videos.

    Args:
        selection: The proposals; only those that are kept support their neighbors.
        inputs: How many steps are read of each video, and the running totals of step features.

    Returns:
        Each feature by its name, B x K.
    """
    network_BK = selection.of_network
    spans_BK2 = selection.reported_BK2.float()
    steps_BK = (spans_BK2[..., 1] - spans_BK2[..., 0]).clamp(min=torch.finfo(torch.float32).eps)
    score_BK = torch.where(selection.kept_BK, network_BK, 0).to(spans_BK2.dtype)
    support_BK = (temporal_iou(spans_BK2, spans_BK2) @ score_BK[..., None])[..., 0]
    features = {
        "logit": _logit(network_BK),
        "log_steps": steps_BK.log(),
        "share": steps_BK / inputs.steps_B.to(steps_BK)[:, None],
        "neighbor_support": support_BK.clamp(min=1e-6).log(),
    }
    if ACTIONNESS in inputs.totals:
        features[ACTIONNESS] = actionness_of(spans_BK2, inputs.totals[ACTIONNESS], inputs.steps_B)
    return features


def event_features(confidence: Tensor, log_probability: Tensor) -> dict[str, Tensor]:
    """The confidence features of captioned events: the confidence of the proposal, and its sentence's likelihood."""
    return {"confidence": _logit(confidence), "log_probability": log_probability}


def _logit(probability: Tensor) -> Tensor:
    return probability.logit(eps=1e-6)


@dataclass(frozen=True)
class Calibration:
    """The curves of a model.

    Args:
        proposal: The confidence of a proposal, from `PROPOSAL_FEATURES`.
        event: The confidence of a captioned event, from `EVENT_FEATURES`.
        actionness: The probability that an event is shown, where the model has an actionness.
        fitted: How many videos and events it was fitted on.
    """

    proposal: LogisticCurve
    event: LogisticCurve
    actionness: LogisticCurve | None = None
    fitted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def step_features(self) -> list[str]:
        """The names of the step features that it uses."""
        return [] if self.actionness is None else [ACTIONNESS]

    def of_proposals(self, features: Mapping[str, Tensor]) -> Tensor:
        """The confidence of proposals, before they are captioned."""
        right = self.proposal(features)
        return right if self.actionness is None else right * self.actionness(features)

    def as_table(self) -> dict[str, Any]:
        """The content of `calibration.toml`."""
        return {
            "format": {"version": FORMAT},
            "proposal": self.proposal.as_table(),
            "event": self.event.as_table(),
            **({} if self.actionness is None else {ACTIONNESS: self.actionness.as_table()}),
            "fitted": dict(self.fitted),
        }

    @classmethod
    def of_table(cls, table: Mapping[str, Any]) -> Calibration:
        """The calibration of a `calibration.toml`, as `load_model` reads it.

        Raises:
            InputError: It is of another format, or uses features that this version does not know.
        """
        form = table.get("format")
        version = form.get("version") if isinstance(form, Mapping) else None
        if version != FORMAT:
            raise InputError(f"calibration.toml: format {version}; this densevid reads format {FORMAT}; fit it anew")
        try:
            proposal = LogisticCurve.of_table(table.get("proposal"), PROPOSAL_FEATURES)
            event = LogisticCurve.of_table(table.get("event"), EVENT_FEATURES)
            shown = table.get(ACTIONNESS)
            actionness = None if shown is None else LogisticCurve.of_table(shown, ACTIONNESS_FEATURES)
        except InputError as error:
            raise InputError(f"calibration.toml: {error}; fit it anew with densevid calibrate") from error
        fitted = table.get("fitted")
        return cls(proposal, event, actionness, dict(fitted) if isinstance(fitted, Mapping) else {})


@dataclass(frozen=True)
class Reliability:
    """Confidence against truth in bins of equal width: mean confidence, share of right events, number of events."""

    confidence_K: Floats
    right_K: Floats
    events_K: npt.NDArray[np.int64]

    @classmethod
    def of(cls, confidence_N: npt.ArrayLike, right_N: npt.ArrayLike, bins: int = 10) -> Reliability:
        """Bin N events; the numbers of a bin without any are 0."""
        confidence, right = np.asarray(confidence_N, dtype=np.float64), np.asarray(right_N, dtype=np.float64)
        bin_N = np.clip((confidence * bins).astype(np.int64), 0, bins - 1)
        events_K = np.bincount(bin_N, minlength=bins)
        sums = [np.bincount(bin_N, weights=values, minlength=bins) for values in (confidence, right)]
        confidence_K, right_K = (total_K / np.maximum(events_K, 1) for total_K in sums)
        return cls(confidence_K, right_K, events_K)

    @property
    def expected_error(self) -> float:
        """Expected calibration error: |confidence - share of right events|, averaged over the events."""
        return float(self.events_K @ np.abs(self.confidence_K - self.right_K) / max(int(self.events_K.sum()), 1))
