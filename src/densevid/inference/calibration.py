"""Confidence: how probable it is that an event is right, from what the model says of it. A few numbers, fitted once.

Two logistic curves, kept in the model folder as `calibration.toml`: `proposal` judges what is proposed, before a word
is said, and decides what a summary holds; `event` judges what was chosen, its sentence included: what people read.
An event is right if it overlaps a true one with an IoU of at least `RIGHT_IOU`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.errors import InputError
from densevid.inference.captioned_video import ReadVideos
from densevid.inference.selection import Selection
from densevid.inference.stir import stir_of
from densevid.intervals import temporal_iou

FORMAT = 1
RIGHT_IOU = 0.5
SURE = 30.0  # a logit beyond which a probability is 0 or 1 to every digit
RIDGE = 1.0  # of standardised columns: one event's worth of doubt
STEPS = 50

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LogisticCurve:
    """P(right) = sigmoid(bias + sum of weight x column), the columns known by name."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    bias: float

    @classmethod
    def fit(cls, columns: Mapping[str, npt.ArrayLike], right_N: npt.ArrayLike) -> LogisticCurve:
        """The most likely curve (Newton's method), its weights drawn towards 0 a little."""
        names = tuple(columns)
        right = np.asarray(right_N, dtype=np.float64)
        values_NC = np.stack([np.asarray(columns[name], dtype=np.float64) for name in names], axis=1)
        if not 0 < right.sum() < len(right):
            found = f"{len(right)} events, {right.sum():.0f} of them right"
            raise InputError(f"{found}: a confidence needs both kinds; give more videos")
        mean_C, scale_C = values_NC.mean(axis=0), values_NC.std(axis=0)
        scale_C[scale_C == 0] = 1
        weights = _newton(np.c_[(values_NC - mean_C) / scale_C, np.ones(len(right))], right)
        slope_C = weights[:-1] / scale_C
        return cls(names, tuple(slope_C.tolist()), float(weights[-1] - slope_C @ mean_C))

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        """The confidence of each, on the columns' own device."""
        logit = sum(weight * columns[name] for name, weight in zip(self.names, self.weights, strict=True)) + self.bias
        return torch.as_tensor(logit).sigmoid()

    def as_table(self) -> dict[str, Any]:
        """The curve as TOML values."""
        return {"names": list(self.names), "weights": list(self.weights), "bias": self.bias}

    @classmethod
    def of_table(cls, table: Any, known: Sequence[str]) -> LogisticCurve:
        """The curve of such a table; one that this version cannot compute is an error."""
        try:
            names, weights = tuple(map(str, table["names"])), tuple(map(float, table["weights"]))
            curve = cls(names, weights, float(table["bias"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("a curve needs names, weights and a bias") from error
        if len(names) != len(weights) or not np.isfinite([*weights, curve.bias]).all():
            raise InputError("a curve needs one finite weight per name")
        if unknown := sorted(set(names) - set(known)):
            raise InputError(f"unknown column {unknown[0]!r}; there are {', '.join(known)}")
        return curve


def _newton(values_NC: Floats, right_N: Floats) -> Floats:
    weights_C = np.zeros(values_NC.shape[1])
    doubt_C = np.full_like(weights_C, RIDGE)
    doubt_C[-1] = 0  # the bias is free: on the whole as many are right as are said to be
    for _ in range(STEPS):
        probability_N = 1 / (1 + np.exp(-np.clip(values_NC @ weights_C, -SURE, SURE)))
        slope_C = values_NC.T @ (right_N - probability_N) - doubt_C * weights_C
        spread_N = np.maximum(probability_N * (1 - probability_N), 1e-9)
        step_C = np.linalg.solve((values_NC.T * spread_N) @ values_NC + np.diag(doubt_C), slope_C)
        weights_C += step_C
        if np.abs(step_C).max() < 1e-10:
            break
    return weights_C


STIR = "stir"
PROPOSAL_COLUMNS = ("logit", "log_steps", "share", "company", STIR)
EVENT_COLUMNS = ("confidence", "log_probability")


def proposal_columns(selection: Selection, read: ReadVideos) -> dict[str, Tensor]:
    """What a proposal is judged by, B x K each.

    The network's logit; how long it is, and what share of the steps that are read; its company: how much of it the
    other proposals confirm, as the logarithm of the sum of their scores x IoU; and, where it was read, how much it
    stirs. Contrast is not asked: it says where an event ends, and hides what the network knows of videos without any.
    """
    network_BK = selection.of_network
    spans_BK2 = selection.reported_BK2.float()
    steps_BK = (spans_BK2[..., 1] - spans_BK2[..., 0]).clamp(min=torch.finfo(torch.float32).eps)
    score_BK = torch.where(selection.kept_BK, network_BK, 0).to(spans_BK2.dtype)
    company_BK = (temporal_iou(spans_BK2, spans_BK2) @ score_BK[..., None])[..., 0]
    columns = {
        "logit": _logit(network_BK),
        "log_steps": steps_BK.log(),
        "share": steps_BK / read.steps_B.to(steps_BK)[:, None],
        "company": company_BK.clamp(min=1e-6).log(),
    }
    if read.stirred_BT is not None:
        columns[STIR] = stir_of(spans_BK2, read.stirred_BT)
    return columns


def event_columns(confidence: Tensor, log_probability: Tensor) -> dict[str, Tensor]:
    """What an event is judged by: what was thought of its proposal, and how sure of their words its sentence is."""
    return {"confidence": _logit(confidence), "log_probability": log_probability}


def _logit(probability: Tensor) -> Tensor:
    return probability.logit(eps=1e-6)


@dataclass(frozen=True)
class Calibration:
    """Both curves, and what they were fitted on."""

    proposal: LogisticCurve
    event: LogisticCurve
    fitted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stirs(self) -> bool:
        """Whether it asks how much a video stirs."""
        return STIR in self.proposal.names

    def as_table(self) -> dict[str, Any]:
        """What `calibration.toml` holds."""
        return {
            "format": {"version": FORMAT},
            "proposal": self.proposal.as_table(),
            "event": self.event.as_table(),
            "fitted": dict(self.fitted),
        }

    @classmethod
    def of_table(cls, table: Mapping[str, Any]) -> Calibration:
        """What `calibration.toml` says."""
        form = table.get("format")
        version = form.get("version") if isinstance(form, Mapping) else None
        if version != FORMAT:
            raise InputError(f"calibration.toml: format {version}; this densevid reads format {FORMAT}; fit it anew")
        try:
            proposal = LogisticCurve.of_table(table.get("proposal"), PROPOSAL_COLUMNS)
            event = LogisticCurve.of_table(table.get("event"), EVENT_COLUMNS)
        except InputError as error:
            raise InputError(f"calibration.toml: {error}; fit it anew with densevid calibrate") from error
        fitted = table.get("fitted")
        return cls(proposal, event, dict(fitted) if isinstance(fitted, Mapping) else {})


@dataclass(frozen=True)
class Reliability:
    """What was said against what was so, in bins of equal width: mean confidence, share right, events."""

    confidence_K: Floats
    right_K: Floats
    events_K: npt.NDArray[np.int64]

    @classmethod
    def of(cls, confidence_N: npt.ArrayLike, right_N: npt.ArrayLike, bins: int = 10) -> Reliability:
        """Bins without an event say nothing: both of their numbers are 0."""
        confidence, right = np.asarray(confidence_N, dtype=np.float64), np.asarray(right_N, dtype=np.float64)
        bin_N = np.clip((confidence * bins).astype(np.int64), 0, bins - 1)
        events_K = np.bincount(bin_N, minlength=bins)
        sums = [np.bincount(bin_N, weights=values, minlength=bins) for values in (confidence, right)]
        said_K, so_K = (total_K / np.maximum(events_K, 1) for total_K in sums)
        return cls(said_K, so_K, events_K)

    @property
    def expected_error(self) -> float:
        """Expected calibration error: |said - so|, averaged over the events."""
        return float(self.events_K @ np.abs(self.confidence_K - self.right_K) / max(int(self.events_K.sum()), 1))
