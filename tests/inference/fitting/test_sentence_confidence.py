"""The fit of sentence confidence: it finds the truth of made events, and holds on others."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.inference.confidence import Reliability
from densevid.inference.fitting import sentence_confidence as module
from densevid.inference.fitting.held_out_sentences import HeldOutSentence, NoAnnotators
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.fitting.sentence_confidence import (
    FREE_FEATURES,
    Choices,
    figures_of,
    fit_curve,
    fit_sentence_confidence,
)
from densevid.inference.sentence_confidence import SENTENCE_FEATURES, SentenceConfidence, options_of
from densevid.inference.sentence_evidence import LabelTrust, StreamTrust
from densevid.io import toml_text
from helpers.made_sentences import is_right, made_events

VOCABULARY = ("a", "man", "horse", "zebra")


@pytest.fixture(scope="module")
def events() -> list[HeldOutSentence]:
    return made_events(700, 0)


@pytest.fixture(scope="module")
def confidence(events: list[HeldOutSentence]) -> SentenceConfidence:
    return fit_sentence_confidence(events, VOCABULARY, folds=5)


@pytest.fixture(scope="module")
def shown(confidence: SentenceConfidence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence of what is shown of other events, whether it is right, and of which events nothing is shown."""
    others = made_events(900, 1)
    pairs = [(confidence.shown(event.evidence), event) for event in others]
    scores = np.array([one.score for one, _ in pairs if one.sentence])
    right = np.array([is_right(one.sentence, event.annotators) for one, event in pairs if one.sentence])
    nothing = np.array([not one.sentence for one, _ in pairs])
    return scores, right, nothing


def test_what_is_shown_of_other_events_is_right_as_often_as_it_says(
    shown: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    scores, right, nothing = shown
    assert Reliability.of(scores, right, bins=5).expected_error < 0.06
    assert scores.mean() == pytest.approx(right.mean(), abs=0.05)
    surest = scores >= np.median(scores)
    assert right[surest].mean() > right[~surest].mean() + 0.1, "confidence tells right from wrong"
    assert nothing.mean() < 0.3


def test_the_confidence_of_any_caption_holds_too(confidence: SentenceConfidence) -> None:
    """Not only that of what is chosen; there it may be too low, never far too high."""
    others = made_events(900, 2)
    scores = np.array([confidence.of_caption(event.evidence) for event in others])
    right = np.array([is_right(event.evidence.caption, event.annotators) for event in others])
    for low, high in ((0, 0.25), (0.25, 0.5), (0.5, 1.01)):
        part = (scores >= low) & (scores < high)
        if part.sum() >= 60:
            assert right[part].mean() > scores[part].mean() - 0.12
    assert np.corrcoef(scores, right)[0, 1] > 0.3


def test_its_figures_are_those_of_the_events(events: list[HeldOutSentence], confidence: SentenceConfidence) -> None:
    fitted = confidence.fitted
    assert (fitted["events"], fitted["sources"]) == (700, 350)
    low, high = fitted["calibration_error_interval"]
    assert 0 <= low <= high < 0.2 and fitted["calibration_error"] < 0.1
    assert sum(fitted["bins"]["sentences"]) == round(fitted["coverage"] * 700)
    shown = [(confidence.shown(event.evidence), event) for event in events]
    coverage = np.mean([bool(one.sentence) for one, _ in shown])
    assert fitted["coverage"] == pytest.approx(coverage, abs=0.06)
    right = np.mean([is_right(one.sentence, event.annotators) for one, event in shown if one.sentence])
    assert fitted["support"] == pytest.approx(right, abs=0.08)


def test_weights_may_only_raise_the_confidence(confidence: SentenceConfidence) -> None:
    for curve in (confidence.word, confidence.sentence):
        assert all(
            weight >= 0 for name, weight in zip(curve.names, curve.weights, strict=True) if name not in FREE_FEATURES
        )
    assert "share" in confidence.word.names and set(confidence.sentence.names) <= set(SENTENCE_FEATURES)
    assert 0 <= confidence.least <= 1 and confidence.caution in module.GRID


@pytest.mark.parametrize("factor", [3.0, 0.4])
def test_a_curve_that_is_too_sure_or_unsure_is_stretched_until_it_holds(
    events: list[HeldOutSentence], monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    """As choosing the surest makes it."""
    curves = module._sentence_curves

    def wrong(*given: Any) -> tuple[LogisticCurve, list[np.ndarray]]:
        curve, confidences = curves(*given)
        return curve.stretched(factor, 0.5), [module._stretched(values, factor, 0.5) for values in confidences]

    monkeypatch.setattr(module, "_sentence_curves", wrong)
    fitted = fit_sentence_confidence(events, VOCABULARY, folds=5)
    others = [(fitted.shown(event.evidence), event) for event in made_events(900, 1)]
    scores = np.array([one.score for one, _ in others if one.sentence])
    right = np.array([is_right(one.sentence, event.annotators) for one, event in others if one.sentence])
    assert Reliability.of(scores, right, bins=5).expected_error < 0.07
    assert fitted.fitted["mean_confidence"] == pytest.approx(fitted.fitted["support"], abs=0.03)


def test_the_rates_of_an_event_do_not_count_its_own_annotators(events: list[HeldOutSentence]) -> None:
    """Else what is right would be known from how often it is said."""
    some = events[:12]
    rates, without = module._rates(some, ["zebra"])
    for event in some:
        others = [other for other in some if other is not event]
        total = sum(other.annotators.annotators for other in others)
        for word in ("man", "horse", "zebra"):
            used = sum(other.annotators.users(word) for other in others)
            assert without(event, word) == pytest.approx((used + 0.05) / (total + 10))
    assert rates["unheard"] == rates["zebra"] == rates.unknown


def test_rates_are_how_often_annotators_say_a_word(
    events: list[HeldOutSentence], confidence: SentenceConfidence
) -> None:
    total = sum(event.annotators.annotators for event in events)
    for word in ("man", "horse", "stage", "zebra"):
        used = sum(event.annotators.users(word) for event in events)
        assert confidence.rates[word] == pytest.approx((used + 0.05) / (total + 10), rel=0.01)


def test_a_fit_is_the_same_again_and_survives_its_file(events: list[HeldOutSentence]) -> None:
    one, other = (fit_sentence_confidence(events[:200], VOCABULARY, folds=4) for _ in range(2))
    assert one.as_table() == other.as_table()
    again = SentenceConfidence.of_table(tomllib.loads(toml_text(one.as_table())))
    assert json.dumps(again.as_table()) == json.dumps(one.as_table())
    for event in events[:20]:
        assert again.shown(event.evidence) == one.shown(event.evidence)


def test_too_few_sources_or_one_kind_are_refused(events: list[HeldOutSentence]) -> None:
    with pytest.raises(InputError, match="events of 5 sources, 10 are needed: give more videos"):
        fit_sentence_confidence(events[:10], VOCABULARY)
    wrong = [replace(event, annotators=NoAnnotators()) for event in events[:60]]
    with pytest.raises(InputError, match="0 of them right: a confidence needs both kinds"):
        fit_sentence_confidence(wrong, VOCABULARY)


def test_a_known_curve_is_found() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20_000, 3))
    probability = 1 / (1 + np.exp(-(1.5 * values[:, 0] + 0.5 * values[:, 2] - 0.7)))
    curve = fit_curve(("a", "b", "count"), values, rng.random(20_000) < probability, np.ones(20_000), ("count",))
    weights = dict(zip(curve.names, curve.weights, strict=True))
    assert weights["a"] == pytest.approx(1.5, abs=0.08) and weights["count"] == pytest.approx(0.5, abs=0.05)
    assert abs(weights.get("b", 0.0)) < 0.05 and curve.bias == pytest.approx(-0.7, abs=0.05)


def test_what_would_lower_the_confidence_is_left_out_unless_it_may() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(5_000, 2))
    right = rng.random(5_000) < 1 / (1 + np.exp(-(values[:, 0] - 2 * values[:, 1])))
    bound = fit_curve(("a", "b"), values, right, np.ones(5_000))
    free = fit_curve(("a", "b"), values, right, np.ones(5_000), ("b",))
    assert bound.names == ("a",) and free.names == ("a", "b")
    assert free.weights[1] == pytest.approx(-2, abs=0.2)
    alone = fit_curve(("b",), values[:, 1:], right, np.ones(5_000))
    assert alone.names == () and 1 / (1 + math.exp(-alone.bias)) == pytest.approx(right.mean(), abs=1e-3)


def test_rows_count_by_their_share() -> None:
    """Two rows of half a share are one."""
    rng = np.random.default_rng(2)
    values, right = rng.normal(size=(60, 1)), rng.random(60) < 0.5
    whole = fit_curve(("count",), values, right, np.ones(60), ("count",))
    halves = fit_curve(("count",), np.repeat(values, 2, axis=0), np.repeat(right, 2), np.full(120, 0.5), ("count",))
    assert halves.weights == pytest.approx(whole.weights) and halves.bias == pytest.approx(whole.bias)


def test_figures_of_choices_by_hand() -> None:
    confidence = np.array([0.95, 0.55, 0.45, np.nan])
    choices = Choices(confidence, np.array([1, 0, 1, 0], bool), np.array([4.0, 2, 3, 0]), np.array([0, 1, 0, 0], bool))
    assert choices.support_at(0.25) == 1 and choices.support_at(0.5) == 0.5 and choices.support_at(1.0) == 0
    assert choices.right_information == 7 / 4
    assert choices.lacking == pytest.approx(0.65 - 0.5 + 0.45 - 0), "nine tenths are not shown"
    figures = figures_of(choices, ["a", "a", "b", "c"])
    assert figures["coverage"] == 0.75 and figures["support"] == pytest.approx(2 / 3)
    assert figures["shortened"] == pytest.approx(1 / 3)
    assert figures["calibration_error"] == pytest.approx((0.05 + 0.55 + 0.55) / 3)
    assert figures["mean_confidence"] == pytest.approx(1.95 / 3)
    assert figures["bins"]["sentences"] == [1, 1, 1]
    surer = choices.where(confidence >= 0.5)
    assert surer.shown_E.tolist() == [True, True, False, False] and surer.right_information == 1
    nothing = figures_of(choices.where(np.zeros(4, bool)), ["a", "a", "b", "c"])
    assert nothing["coverage"] == 0 and nothing["support"] == 0 and nothing["calibration_error_interval"] == [0, 1]


def test_it_is_no_more_cautious_than_support_wants(
    events: list[HeldOutSentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for wanted in ({0.5: 0.0}, {0.5: 0.8, 0.9: 0.7}, {0.5: 1.0}):
        monkeypatch.setattr(module, "WANTED", wanted)
        found[len(found)] = fit_sentence_confidence(events, VOCABULARY, folds=5)
    free, usual, strict = found.values()
    assert free.caution == min(module.GRID) <= usual.caution <= strict.caution
    assert free.fitted["right_information"] > strict.fitted["right_information"]
    assert free.fitted["support_at_50"] < strict.fitted["support_at_50"]


def test_the_trust_in_labels_is_used_and_kept(events: list[HeldOutSentence]) -> None:
    trust = LabelTrust(actions=StreamTrust(slope=0.0, bias=-20.0))
    fitted, plain = (fit_sentence_confidence(events[:200], VOCABULARY, trust=t, folds=4) for t in (trust, None))
    assert fitted.trust == trust and plain.trust == LabelTrust()
    worthless = []
    for event in events[:200]:
        labels = tuple(replace(label, value=0.0) for label in event.evidence.labels)
        worthless.append(replace(event, evidence=replace(event.evidence, labels=labels)))
    without = fit_sentence_confidence(worthless, VOCABULARY, folds=4)
    assert fitted.sentence.weights == pytest.approx(without.sentence.weights, abs=1e-4)
    assert fitted.fitted["support"] == without.fitted["support"]
    assert plain.sentence.weights != pytest.approx(without.sentence.weights, abs=1e-2)


def test_an_event_without_options_is_shown_without_a_sentence(events: list[HeldOutSentence]) -> None:
    """A beam of no sentence at all neither breaks the fit nor counts as right."""
    empty = replace(events[0].evidence, caption="the", sentences=("the",), log_probability=(-1.0,), labels=())
    assert options_of(empty) == []
    mixed = [*events[1:200], replace(events[0], evidence=empty)]
    fitted = fit_sentence_confidence(mixed, VOCABULARY, folds=4)
    assert fitted.fitted["coverage"] < 1 and fitted.shown(empty).sentence == ""
