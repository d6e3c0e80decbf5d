"""Fit the confidence of sentences to held-out events with the words of their annotators.

Both curves are logistic regressions; their figures are cross-validated, folds by source video:

1. `word`, of all content words of an event's options, against whether two annotators used the word;
2. `sentence`, of all options, with the words' probabilities from the curves of the other folds, against whether all
   words are right;
3. what would be shown is chosen in each held-out fold. The choice favours options whose confidence is too high, so the
   second curve is stretched until the confidence of what is shown is right.

The same choices give how much a surer sentence is preferred to one with more content: the least `caution` with which
the surest half of what is shown, and nine tenths of it, are right as often as is wanted. `least` leaves nearly all
events a sentence, unless those would be wrong too often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.errors import InputError
from densevid.inference.confidence import Reliability
from densevid.inference.fitting.held_out_sentences import HeldOutSentence
from densevid.inference.fitting.logistic import Floats, LogisticCurve, logistic_fit
from densevid.inference.sentence_confidence import (
    SENTENCE_FEATURES,
    WORD_FEATURES,
    EventWords,
    Option,
    SentenceConfidence,
    WordRates,
    choose,
    curve_values,
    log_probabilities,
    options_of,
)
from densevid.inference.sentence_evidence import LabelTrust
from densevid.language.words import content_words

FOLDS = 10
ENOUGH_ANNOTATORS, FEW_ANNOTATORS = 2, 5  # of so few one is enough
FREE_FEATURES = ("count", "rate")  # may weigh either way; all others may only raise the confidence
RIDGE = 1.0
SMALLEST_SPREAD = 1e-6  # of a feature; with less it is constant
PRIOR_USERS, PRIOR_ANNOTATORS = 0.05, 10.0  # of a word, as if seen besides
RATE_EVENTS = 1000  # enough to know how often words are used
GRID = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)  # of caution
WANTED = {0.5: 0.65, 0.9: 0.45}  # support at a coverage
SHOWN, LEAST_CONFIDENCE = 0.92, 0.2  # of all events, where they are at least so sure
BINS = 10
DRAWS = 1000
Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EventRows:
    """The rows of one event: its options, their words, and which are right."""

    event: EventWords
    options: list[Option]
    words: list[str]
    word_NC: Floats
    label_N: Floats
    word_right_N: Booleans
    right_O: Booleans


@dataclass(frozen=True)
class Choices:
    """What is shown of each event with some thresholds: confidence (NaN: nothing), and whether it is right."""

    confidence_E: Floats
    right_E: Booleans
    information_E: Floats
    shortened_E: Booleans

    @property
    def shown_E(self) -> Booleans:
        """Of which events something is shown."""
        return ~np.isnan(self.confidence_E)

    def support_at(self, coverage: float) -> float:
        """How often the surest are right; 0 where too few are shown."""
        count = round(coverage * len(self.confidence_E))
        if count < 1 or self.shown_E.sum() < count:
            return 0.0
        order = np.argsort(-np.where(self.shown_E, self.confidence_E, -1), kind="stable")[:count]
        return float(self.right_E[order].mean())

    @property
    def lacking(self) -> float:
        """By how much support falls short of what is wanted, over all coverages."""
        return sum(max(0.0, wanted - self.support_at(at)) for at, wanted in WANTED.items())

    @property
    def right_information(self) -> float:
        """The information of right sentences, an event."""
        return float((self.information_E * self.right_E).mean())

    def where(self, sure_E: Booleans) -> Choices:
        """The same with nothing shown of the other events."""
        confidence_E = np.where(sure_E, self.confidence_E, np.nan)
        information_E = np.where(sure_E, self.information_E, 0.0)
        return replace(self, confidence_E=confidence_E, right_E=self.right_E & sure_E, information_E=information_E)


def fit_sentence_confidence(
    events: Sequence[HeldOutSentence],
    vocabulary: Iterable[str],
    *,
    trust: LabelTrust | None = None,
    folds: int = FOLDS,
) -> SentenceConfidence:
    """Fit both curves and how sentences are chosen.

    Args:
        events: Held-out events; their captions must come from models that were not trained on their videos.
        vocabulary: The words of the model.
        trust: How far labels can be trusted, fitted on other videos; by default their values stay as they are.
        folds: How many folds of source videos.

    Returns:
        The confidence, to be written as `sentence_confidence.toml`.

    Raises:
        InputError: There are fewer sources than folds, or no sentence is right, or all are.
    """
    trust = LabelTrust() if trust is None else trust
    events = [replace(event, evidence=trust.applied(event.evidence)) for event in events]
    sources = [event.source for event in events]
    fold_E = _folds(sources, folds)
    rates, seen = _rates(events, vocabulary)
    rows = [_rows(event, rates, seen) for event in events]
    word, log_words = _word_curves(rows, fold_E)
    features = [row.event.sentence_features(row.options, logs) for row, logs in zip(rows, log_words, strict=True)]
    sentence, confidence = _sentence_curves(rows, features, fold_E)
    tries = [_tried(rows, confidence, fold_E, rates, caution) for caution in GRID]
    best = min(tries, key=lambda tried: tried.choices.lacking)  # of equal ones the first
    stretched = sentence.stretched(best.factor, best.shift)
    shown = best.choices.where(best.choices.confidence_E >= best.least)
    figures = {"events": len(events), "sources": len(set(sources)), **figures_of(shown, sources)}
    return SentenceConfidence(word, stretched, rates, best.caution, best.least, trust, figures)


def figures_of(choices: Choices, sources: Sequence[str]) -> dict[str, Any]:
    """How well what is shown holds: coverage, support, calibration error with its interval over sources, and bins."""
    shown = choices.shown_E
    confidence_N, right_N = choices.confidence_E[shown], choices.right_E[shown]
    bins = Reliability.of(confidence_N, right_N, BINS)
    source_N = np.unique(np.asarray(sources), return_inverse=True)[1].reshape(-1)[shown]
    low, high = _interval(confidence_N, right_N, source_N)
    filled = np.flatnonzero(bins.events_K)
    return {
        "coverage": float(shown.mean()),
        "support": float(right_N.mean()) if len(right_N) else 0.0,
        "support_at_50": choices.support_at(0.5),
        "support_at_90": choices.support_at(0.9),
        "shortened": float(choices.shortened_E[shown].mean()) if len(right_N) else 0.0,
        "right_information": choices.right_information,
        "calibration_error": bins.expected_error,
        "calibration_error_interval": [low, high],
        "mean_confidence": float(confidence_N.mean()) if len(right_N) else 0.0,
        "bins": {
            "confidence": bins.confidence_K[filled].round(4).tolist(),
            "right": bins.right_K[filled].round(4).tolist(),
            "sentences": bins.events_K[filled].tolist(),
        },
    }


def fit_curve(
    names: Sequence[str], values_NC: Floats, right_N: npt.NDArray[Any], share_N: Floats, free: Iterable[str] = ()
) -> LogisticCurve:
    """A weighted logistic curve whose weights are not negative, but for those of `free` features.

    A feature whose weight would be negative is left out, the worst first.
    """
    if not 0 < right_N.sum() < len(right_N):
        raise InputError(f"{len(right_N)} rows, {right_N.sum():.0f} of them right: a confidence needs both kinds")
    kept = list(range(len(names)))
    while True:
        mean_C, scale_C = values_NC[:, kept].mean(axis=0), values_NC[:, kept].std(axis=0)
        scale_C[scale_C < SMALLEST_SPREAD] = 1
        standard_NC = (values_NC[:, kept] - mean_C) / scale_C
        weight_C, bias = logistic_fit(standard_NC, right_N.astype(np.float64), share_N, RIDGE)
        bound = [weight if names[kept[c]] not in free else 0.0 for c, weight in enumerate(weight_C.tolist())]
        if not kept or min(bound) >= 0:
            break
        del kept[int(np.argmin(bound))]
    slope_C = weight_C / scale_C
    return LogisticCurve(tuple(names[c] for c in kept), tuple(slope_C.tolist()), float(bias - slope_C @ mean_C))


def _rates(
    events: Sequence[HeldOutSentence], vocabulary: Iterable[str]
) -> tuple[WordRates, Callable[[HeldOutSentence, str], float]]:
    """How often annotators use each word; and the same without the annotators of one event."""
    drawn = _spread(events, RATE_EVENTS)
    own = {id(event) for event in drawn}
    used = {word for event in events for option in options_of(event.evidence) for word in option.words}
    words = sorted(used | {word for token in vocabulary for word in content_words(token)})
    users = {word: sum(event.annotators.users(word) for event in drawn) for word in words}
    total = sum(event.annotators.annotators for event in drawn)

    def rate(count: float, annotators: float) -> float:
        return (max(count, 0) + PRIOR_USERS) / (annotators + PRIOR_ANNOTATORS)

    def without(event: HeldOutSentence, word: str) -> float:
        if id(event) not in own:
            return rate(users[word], total)
        return rate(users[word] - event.annotators.users(word), total - event.annotators.annotators)

    known = {word: float(f"{rate(users[word], total):.3g}") for word in words if users[word]}
    return WordRates(known, rate(0, total)), without


def _rows(event: HeldOutSentence, rates: WordRates, rate: Callable[[HeldOutSentence, str], float]) -> EventRows:
    """The rows of an event; words are as frequent as among the annotators of the others."""
    options = options_of(event.evidence)
    words = list(dict.fromkeys(word for option in options for word in option.words))
    others = EventWords(event.evidence, WordRates({word: rate(event, word) for word in words}, rates.unknown))
    enough = 1 if 0 < event.annotators.annotators <= FEW_ANNOTATORS else ENOUGH_ANNOTATORS
    right = {word: event.annotators.users(word) >= enough for word in words}
    return EventRows(
        others,
        options,
        words,
        others.word_features(words),
        others.word_labels(words),
        np.array([right[word] for word in words], dtype=np.bool_),
        np.array([all(right[word] for word in option.words) for option in options], dtype=np.bool_),
    )


def _word_curves(rows: Sequence[EventRows], fold_E: Integers) -> tuple[LogisticCurve, list[dict[str, float]]]:
    """The curve of words, and the log-probability of each event's words by a curve of the other folds."""
    curve, held_out = _crossed(
        WORD_FEATURES, [row.word_NC for row in rows], [row.word_right_N for row in rows], fold_E, weighted=False
    )
    logs = [
        log_probabilities(each, row.word_NC, row.label_N).tolist() for each, row in zip(held_out, rows, strict=True)
    ]
    return curve, [dict(zip(row.words, values, strict=True)) for row, values in zip(rows, logs, strict=True)]


def _sentence_curves(
    rows: Sequence[EventRows], features: Sequence[Floats], fold_E: Integers
) -> tuple[LogisticCurve, list[Floats]]:
    """The curve of sentences, and the confidence of each event's options by a curve of the other folds."""
    curve, held_out = _crossed(SENTENCE_FEATURES, features, [row.right_O for row in rows], fold_E, weighted=True)
    return curve, [
        curve_values(each, SENTENCE_FEATURES, values) for each, values in zip(held_out, features, strict=True)
    ]


def _crossed(
    names: Sequence[str],
    values: Sequence[Floats],
    right: Sequence[Booleans],
    fold_E: Integers,
    *,
    weighted: bool,
) -> tuple[LogisticCurve, list[LogisticCurve]]:
    """A curve of all events, and for each event one of the other folds; `weighted`: every event counts alike."""

    def fitted(events: Integers) -> LogisticCurve:
        share = [np.full(len(right[e]), 1 / max(len(right[e]), 1) if weighted else 1.0) for e in events]
        parts = [np.concatenate([each[e] for e in events]) for each in (values, right)]
        return fit_curve(names, parts[0], parts[1], np.concatenate(share), FREE_FEATURES)

    of_fold = {fold: fitted(np.flatnonzero(fold_E != fold)) for fold in np.unique(fold_E).tolist()}
    return fitted(np.arange(len(fold_E))), [of_fold[fold] for fold in fold_E.tolist()]


@dataclass(frozen=True)
class Tried:
    """What is shown with some caution, how the curve of sentences is stretched for it, and the least confidence."""

    caution: float
    choices: Choices
    factor: float
    shift: float
    least: float


def _tried(
    rows: Sequence[EventRows], confidence: Sequence[Floats], fold_E: Integers, rates: WordRates, caution: float
) -> Tried:
    """What is shown with so much caution."""
    least = _least(confidence)
    places = [choose(row.options, values, rates, caution, least) for row, values in zip(rows, confidence, strict=True)]
    shown = [place if place is not None else -1 for place in places]
    triples = list(zip(rows, confidence, shown, strict=True))
    raw_E = np.array([values[place] if place >= 0 else np.nan for _, values, place in triples])
    right_E = np.array([place >= 0 and bool(row.right_O[place]) for row, _, place in triples])
    words_E = [row.options[place].words if place >= 0 else () for row, _, place in triples]
    information_E = np.array([rates.information(words) for words in words_E])
    shortened_E = np.array([place >= 0 and row.options[place].shortened for row, _, place in triples])
    factor, shift = _platt(raw_E, right_E, np.ones_like(right_E))
    confidence_E = np.full_like(raw_E, np.nan)
    for fold in np.unique(fold_E):
        own_E = fold_E == fold
        confidence_E[own_E] = _stretched(raw_E[own_E], *_platt(raw_E, right_E, ~own_E))
    choices = Choices(confidence_E, right_E, information_E, shortened_E)
    lowest = float(np.nanmin(confidence_E, initial=1.0))  # about `least`, stretched by the other folds' events
    return Tried(caution, choices, factor, shift, max(LEAST_CONFIDENCE, lowest))


def _platt(raw_E: Floats, right_E: Booleans, these_E: Booleans) -> tuple[float, float]:
    """Factor and shift of the logit with which the confidence of what is shown is right."""
    used = these_E & ~np.isnan(raw_E)
    right_N = right_E[used].astype(np.float64)
    if not 0 < right_N.sum() < len(right_N):
        return 1.0, 0.0
    logit_N = _logit(raw_E[used])
    spread = float(logit_N.std()) or 1.0
    weight, bias = logistic_fit(logit_N[:, None] / spread, right_N, np.ones(len(right_N)), RIDGE)
    factor = float(weight[0]) / spread
    return (factor, bias) if factor > 0 else (1.0, 0.0)


def _least(confidence: Sequence[Floats]) -> float:
    """The threshold that the surest option of nearly every event reaches."""
    surest = np.sort([values.max(initial=0.0) for values in confidence])[::-1]
    return float(surest[min(len(surest) - 1, int(np.ceil(SHOWN * len(surest))))])


def _interval(confidence_N: Floats, right_N: npt.NDArray[Any], source_N: Integers) -> tuple[float, float]:
    """A 95% interval of the calibration error by drawing sources."""
    if not len(confidence_N):
        return 0.0, 1.0
    number = int(source_N.max()) + 1
    bin_N = np.minimum((confidence_N * BINS).astype(np.int64), BINS - 1)
    gap_SK, count_S = np.zeros((number, BINS)), np.bincount(source_N, minlength=number)
    np.add.at(gap_SK, (source_N, bin_N), confidence_N - right_N)
    drawn_DS = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), size=DRAWS)
    error_D = np.abs(drawn_DS @ gap_SK).sum(axis=1) / np.maximum(drawn_DS @ count_S, 1)
    low, high = np.quantile(error_D, [0.025, 0.975])
    return float(low), float(high)


def _folds(sources: Sequence[str], folds: int) -> Integers:
    """The fold of each event: its source decides."""
    names = sorted(set(sources), key=lambda name: sha256(name.encode("utf-8", "replace")).hexdigest())
    if len(names) < folds:
        raise InputError(f"events of {len(names)} sources, {folds} are needed: give more videos")
    fold = {name: number % folds for number, name in enumerate(names)}
    return np.array([fold[source] for source in sources])


def _spread(events: Sequence[HeldOutSentence], most: int) -> list[HeldOutSentence]:
    """At most so many events, evenly spread."""
    step = max(1.0, len(events) / most)
    return [events[int(place * step)] for place in range(min(len(events), most))]


def _stretched(values_N: Floats, factor: float, shift: float) -> Floats:
    return np.asarray(1 / (1 + np.exp(-(factor * _logit(values_N) + shift))))


def _logit(values_N: Floats) -> Floats:
    clipped = np.clip(values_N, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
