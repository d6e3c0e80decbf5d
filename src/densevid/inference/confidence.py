"""How much a video stirs: whether anything happens between two steps of it, as its features tell.

A photograph that stays has the features of what it shows, and a network may take it for an event; that its features
stand still is what gives it away. This is one of the things a confidence can be fitted to (`calibration`).

What a confidence may ask of the steps of an event: how much it stirs, and whether anything happens in it.

Either is one number a step, and its running total is all that is kept of a video.

Confidence: how probable it is that an event is right, from what the model says of it. A few numbers, fitted once.

Logistic curves, kept in the model folder as `calibration.toml`: `proposal` judges what is proposed, before a word is
said, and decides what a summary holds; `event` judges what was chosen, its sentence included: what people read. Where
a model knows whether anything happens (`model/priors.py`), a third curve judges that, and a proposal counts for as
much as both allow:

    P(right) = P(anything happens) x P(right, if anything does)

An event is right if it overlaps a true one with an IoU of at least `RIGHT_IOU`.
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

LEAST, ENOUGH = 1e-2, 1e-1  # of the size of the features: less is as little, and more says no more


def stirred(values_TF: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    """The changes from step to step, relative to the size of the features and added up: T numbers, the first 0."""
    values = np.asarray(values_TF, dtype=np.float32)
    size = max(float(np.linalg.norm(values, axis=1).mean()), 1e-12)
    change_T = np.concatenate([[0.0], np.linalg.norm(np.diff(values, axis=0), axis=1) / size])
    return np.cumsum(change_T).astype(np.float32)


def stir_of(spans_BK2: Tensor, stirred_BT: Tensor) -> Tensor:
    """The logarithm of the mean change inside each span, B x K; all that stirs enough is alike."""
    last = stirred_BT.shape[1] - 1
    first_BK = spans_BK2[..., 0].round().long().clamp(0, last)
    last_BK = (spans_BK2[..., 1].round().long() - 1).clamp(0, last).maximum(first_BK)
    change_BK = stirred_BT.gather(1, last_BK) - stirred_BT.gather(1, first_BK)
    return (change_BK / (last_BK - first_BK).clamp(min=1)).clamp(LEAST, ENOUGH).log()


STIR, HAPPENING = "stir", "happening"
Total = Callable[[npt.NDArray[np.floating]], npt.NDArray[np.float32]]


def totals_of(asked: Sequence[str], actionness: Actionness | None) -> dict[str, Total]:
    """How the running total of each of some things is computed from features."""
    if HAPPENING in asked and actionness is None:
        raise InputError("the model's confidence asks whether anything happens, but happening.safetensors is missing")
    known: dict[str, Total] = {STIR: stirred}
    if actionness is not None:
        known[HAPPENING] = lambda values_TF: mean_actionness(actionness, values_TF)
    return {name: known[name] for name in asked}


def side_by_side(totals: Sequence[npt.NDArray[np.float32]], device: torch.device) -> Tensor:
    """B x T; a video that has ended adds no more."""
    longest = max(len(total_T) for total_T in totals)
    rows = [np.pad(total_T, (0, longest - len(total_T)), "edge") for total_T in totals]
    return torch.from_numpy(np.stack(rows)).to(device)


def step_columns(spans_BK2: Tensor, read: ModelInputs) -> dict[str, Tensor]:
    """What was asked, of each span, B x K each."""
    found: dict[str, Tensor] = {}
    if STIR in read.totals:
        found[STIR] = stir_of(spans_BK2, read.totals[STIR])
    if HAPPENING in read.totals:
        found[HAPPENING] = actionness_of(spans_BK2, read.totals[HAPPENING], read.steps_B)
    return found


def mean_actionness(actionness: Actionness, values_TF: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    """Row t is the sum over all steps before t, T + 1 of them."""
    return np.concatenate([[0.0], actionness.of_steps(values_TF).cumsum(dtype=np.float64)]).astype(np.float32)


def actionness_of(spans_BK2: Tensor, happened_BT: Tensor, steps_B: Tensor) -> Tensor:
    """The logit that anything happens in each span of a video of `steps_B` steps, B x K."""
    end_B1 = steps_B[:, None]
    first_BK = spans_BK2[..., 0].round().long().clamp(min=0).minimum(end_B1 - 1)
    last_BK = spans_BK2[..., 1].round().long().minimum(end_B1).maximum(first_BK + 1)
    sum_BK = happened_BT.gather(1, last_BK) - happened_BT.gather(1, first_BK)
    return sum_BK / (last_BK - first_BK)


FORMAT = 1
RIGHT_IOU = 0.5

PROPOSAL_COLUMNS = ("logit", "log_steps", "share", "company", STIR)
EVENT_COLUMNS = ("confidence", "log_probability")
HAPPENING_COLUMNS = (HAPPENING,)


def proposal_columns(selection: Selection, read: ModelInputs) -> dict[str, Tensor]:
    """What a proposal is judged by, B x K each.

    The network's logit; how long it is, and what share of the steps that are read; its company: how much of it the
    other proposals confirm, as the logarithm of the sum of their scores x IoU; and what was asked of its steps.
    Contrast is not asked: it says where an event ends, and hides what the network knows of videos without any.
    """
    network_BK = selection.of_network
    spans_BK2 = selection.reported_BK2.float()
    steps_BK = (spans_BK2[..., 1] - spans_BK2[..., 0]).clamp(min=torch.finfo(torch.float32).eps)
    score_BK = torch.where(selection.kept_BK, network_BK, 0).to(spans_BK2.dtype)
    company_BK = (temporal_iou(spans_BK2, spans_BK2) @ score_BK[..., None])[..., 0]
    return {
        "logit": _logit(network_BK),
        "log_steps": steps_BK.log(),
        "share": steps_BK / read.steps_B.to(steps_BK)[:, None],
        "company": company_BK.clamp(min=1e-6).log(),
        **step_columns(spans_BK2, read),
    }


def event_columns(confidence: Tensor, log_probability: Tensor) -> dict[str, Tensor]:
    """What an event is judged by: what was thought of its proposal, and how sure of their words its sentence is."""
    return {"confidence": _logit(confidence), "log_probability": log_probability}


def _logit(probability: Tensor) -> Tensor:
    return probability.logit(eps=1e-6)


@dataclass(frozen=True)
class Calibration:
    """The curves, and what they were fitted on."""

    proposal: LogisticCurve
    event: LogisticCurve
    actionness: LogisticCurve | None = None
    fitted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asks(self) -> list[str]:
        """What it asks of the steps of a video."""
        stir = [STIR] if STIR in self.proposal.names else []
        return stir if self.actionness is None else [*stir, HAPPENING]

    def of_proposals(self, columns: Mapping[str, Tensor]) -> Tensor:
        """The confidence of what is proposed, before a word is said."""
        right = self.proposal(columns)
        return right if self.actionness is None else right * self.actionness(columns)

    def as_table(self) -> dict[str, Any]:
        """What `calibration.toml` holds."""
        return {
            "format": {"version": FORMAT},
            "proposal": self.proposal.as_table(),
            "event": self.event.as_table(),
            **({} if self.actionness is None else {"happening": self.actionness.as_table()}),
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
            happens = table.get("happening")
            actionness = None if happens is None else LogisticCurve.of_table(happens, HAPPENING_COLUMNS)
        except InputError as error:
            raise InputError(f"calibration.toml: {error}; fit it anew with densevid calibrate") from error
        fitted = table.get("fitted")
        return cls(proposal, event, actionness, dict(fitted) if isinstance(fitted, Mapping) else {})


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
