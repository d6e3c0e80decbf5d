"""The trust in labels: it finds which classes are wrong, and which values are too high, of made labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from densevid.inference.fitting.label_trust import FEWEST, RIDGE, LabelOutcome, fit_label_trust
from densevid.inference.sentence_evidence import LabelTrust, NamedLabel, StreamTrust

EFFECTS = {"bowling": -3.0, "driving": 1.0, "singing": 0.0, "juggling": 2.0}


def outcomes(count: int, *, phrase: bool = True) -> list[LabelOutcome]:
    """Labels that are right with the chance of a known curve."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        name, value = list(EFFECTS)[number % len(EFFECTS)], float(rng.uniform(0.05, 0.95))
        logit = 0.7 * math.log(value / (1 - value)) - 0.4 + EFFECTS[name]
        right = rng.random() < 1 / (1 + math.exp(-logit))
        made.append(LabelOutcome(NamedLabel(name, name if phrase else None, value), float(right)))
    return made


def test_a_known_curve_is_found() -> None:
    trust = fit_label_trust(outcomes(40_000)).actions
    assert trust.slope == pytest.approx(0.7, abs=0.05)
    for name, effect in EFFECTS.items():
        for value in (0.2, 0.5, 0.9):
            want = 1 / (1 + math.exp(-(0.7 * math.log(value / (1 - value)) - 0.4 + effect)))
            assert trust(NamedLabel(name, name, value)) == pytest.approx(want, abs=0.02)


def test_what_is_found_is_the_best_of_all_curves() -> None:
    """The gradient of the penalised likelihood is zero."""
    found = outcomes(300)
    trust = fit_label_trust(found).actions
    gap = dict.fromkeys(EFFECTS, 0.0)
    for outcome in found:
        gap[outcome.label.name] += outcome.used - trust(outcome.label)
    for name, missing in gap.items():
        assert missing == pytest.approx(RIDGE * trust.effects[name], abs=0.05), "effects are rounded to thousandths"
    assert sum(gap.values()) == pytest.approx(0, abs=0.1), "the bias is free"


def test_a_class_seen_once_moves_little_and_an_unseen_one_not_at_all() -> None:
    once = LabelOutcome(NamedLabel("curling", "curling", 0.9), 0.0)
    trust = fit_label_trust([*outcomes(2000), once]).actions
    assert -2 < trust.effects["curling"] < 0 and trust.effects["bowling"] < -2
    value = trust(NamedLabel("unseen", "unseen", 0.5))
    assert value == pytest.approx(1 / (1 + math.exp(-trust.bias)))


def test_streams_are_fitted_apart_and_few_labels_change_nothing() -> None:
    trust = fit_label_trust([*outcomes(FEWEST - 1), *outcomes(FEWEST + 1, phrase=False)])
    assert trust.actions == StreamTrust() and trust.objects != StreamTrust()
    assert fit_label_trust([]) == LabelTrust()
