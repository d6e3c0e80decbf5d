"""Logistic regression, fitted by Newton's method and kept as a curve over named columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.errors import InputError

LARGEST_LOGIT = 30.0  # a logit beyond which a probability is 0 or 1 to every digit
RIDGE = 1.0  # of standardised columns: one event's worth of doubt
STEPS = 50

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LogisticCurve:
    """P(right) = sigmoid(bias + sum of weight x column), the columns known by name."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    bias: float

    @classmethod
    def fit(cls, columns: Mapping[str, npt.ArrayLike], right_N: npt.ArrayLike) -> LogisticCurve:
        """The most likely curve, its weights drawn towards 0 a little."""
        names = tuple(columns)
        right = np.asarray(right_N, dtype=np.float64)
        values_NC = np.stack([np.asarray(columns[name], dtype=np.float64) for name in names], axis=1)
        if not 0 < right.sum() < len(right):
            found = f"{len(right)} events, {right.sum():.0f} of them right"
            raise InputError(f"{found}: a confidence needs both kinds; give more videos")
        mean_C, scale_C = values_NC.mean(axis=0), values_NC.std(axis=0)
        scale_C[scale_C == 0] = 1
        weights_C, bias = logistic_fit((values_NC - mean_C) / scale_C, right, np.ones(len(right)), RIDGE)
        slope_C = weights_C / scale_C
        return cls(names, tuple(slope_C.tolist()), float(bias - slope_C @ mean_C))

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        """The confidence of each, on the columns' own device."""
        logit = sum(weight * columns[name] for name, weight in zip(self.names, self.weights, strict=True)) + self.bias
        return torch.as_tensor(logit).sigmoid()

    def stretched(self, factor: float, shift: float) -> LogisticCurve:
        """The curve whose logit is so many times this one's, and so much more."""
        return LogisticCurve(self.names, tuple(factor * weight for weight in self.weights), factor * self.bias + shift)

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


def logistic_fit(values_NC: Floats, right_N: Floats, share_N: Floats, ridge: float) -> tuple[Floats, float]:
    """Fit weights and a bias by maximum likelihood.

    The penalty is half of `ridge` times the sum of squared weights. The bias is free, so the mean probability is
    the share of right rows.

    Args:
        values_NC: The columns of N rows.
        right_N: 1 for right rows, 0 for others.
        share_N: How much each row counts.
        ridge: The strength of the penalty.

    Returns:
        The weights and the bias.
    """
    values_NC = np.c_[values_NC, np.ones(len(values_NC))]
    weights_C = np.zeros(values_NC.shape[1])
    ridge_C = np.full_like(weights_C, ridge)
    ridge_C[-1] = 0
    for _ in range(STEPS):
        probability_N = 1 / (1 + np.exp(-np.clip(values_NC @ weights_C, -LARGEST_LOGIT, LARGEST_LOGIT)))
        slope_C = values_NC.T @ (share_N * (right_N - probability_N)) - ridge_C * weights_C
        spread_N = share_N * np.maximum(probability_N * (1 - probability_N), 1e-9)
        step_C = np.linalg.solve((values_NC.T * spread_N) @ values_NC + np.diag(ridge_C), slope_C)
        weights_C += step_C
        if np.abs(step_C).max() < 1e-10:
            break
    return weights_C[:-1], float(weights_C[-1])
