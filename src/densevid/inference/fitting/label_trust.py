"""Fit how far labels can be trusted, to the words of annotators of the videos they were predicted for.

A classifier has no class "none of these": some of its classes stand for whatever looks like nothing else, and those are
nearly always wrong. So beside the value of a label its class counts: P(word used) = sigmoid(slope x logit(value) +
bias + effect of the class), where the effects are drawn towards 0, the more the less often a class was predicted. The
videos need not be held out from captions, as nothing was learned of the classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from densevid.inference.fitting.logistic import Floats
from densevid.inference.sentence_evidence import SMALLEST_VALUE, LabelTrust, NamedLabel, StreamTrust

RIDGE = 0.5  # of the effect of a class: half a label's worth of doubt
SLOPE_RIDGE = 1.0  # of the slope, towards 1
ROUNDS = 60
FEWEST = 100  # labels of a stream; with fewer their values stay as they are


@dataclass(frozen=True)
class LabelOutcome:
    """A label that was predicted for a video, and the share of its content words that its annotators used."""

    label: NamedLabel
    used: float


def fit_label_trust(outcomes: Sequence[LabelOutcome]) -> LabelTrust:
    """Fit the trust in actions and in objects.

    Args:
        outcomes: Labels of any videos with annotators, but for those that a confidence of sentences is fitted on.

    Returns:
        The trust; that of a stream with few labels leaves their values as they are.
    """
    actions = [outcome for outcome in outcomes if outcome.label.phrase is not None]
    objects = [outcome for outcome in outcomes if outcome.label.phrase is None]
    return LabelTrust(_stream_trust(actions), _stream_trust(objects))


def _stream_trust(outcomes: Sequence[LabelOutcome]) -> StreamTrust:
    """Newton steps on the effects of the classes and on slope and bias, in turn; each is a convex problem."""
    if len(outcomes) < FEWEST:
        return StreamTrust()
    names = sorted({outcome.label.name for outcome in outcomes})
    number = {name: place for place, name in enumerate(names)}
    class_N = np.array([number[outcome.label.name] for outcome in outcomes])
    used_N = np.array([outcome.used for outcome in outcomes], dtype=np.float64)
    value_N = np.array([outcome.label.value for outcome in outcomes], dtype=np.float64)
    value_N = np.clip(value_N, SMALLEST_VALUE, 1 - SMALLEST_VALUE)
    columns_N2 = np.stack([np.log(value_N) - np.log1p(-value_N), np.ones(len(value_N))], axis=1)
    line_2, effect_C = np.array([1.0, 0.0]), np.zeros(len(names))
    for _ in range(ROUNDS):
        gap_N, spread_N = _gap_and_spread(columns_N2 @ line_2 + effect_C[class_N], used_N)
        slope_C = np.bincount(class_N, gap_N, len(names)) - RIDGE * effect_C
        effect_C += slope_C / (np.bincount(class_N, spread_N, len(names)) + RIDGE)
        gap_N, spread_N = _gap_and_spread(columns_N2 @ line_2 + effect_C[class_N], used_N)
        slope_2 = columns_N2.T @ gap_N - [SLOPE_RIDGE * (line_2[0] - 1), 0]
        line_2 += np.linalg.solve((columns_N2.T * spread_N) @ columns_N2 + np.diag([SLOPE_RIDGE, 0]), slope_2)
    effects = dict(zip(names, effect_C.round(3).tolist(), strict=True))
    return StreamTrust(float(line_2[0]), float(line_2[1]), effects)


def _gap_and_spread(logit_N: Floats, used_N: Floats) -> tuple[Floats, Floats]:
    probability_N = 1 / (1 + np.exp(-logit_N))
    return used_N - probability_N, np.maximum(probability_N * (1 - probability_N), 1e-9)
