"""Sentence confidence: the probability that a person would agree with a sentence, and which sentence is shown.

    beam, word prior, labels -> probability of each content word -> confidence of each option -> what is shown

A sentence is right if each of its content words was used by at least two annotators of the event, and it has a verb
and, unless it is shortened, an object or a place (`evaluation/protocols/support.py`). Two logistic curves, fitted on
held-out events (`fitting/sentence_confidence.py`) and kept as `sentence_confidence.toml`, give the probability of a
word and, from those of its words, that of a sentence; a word of a trusted label needs no other support. The options of
an event are its caption, the other sentences of the beam, shorter forms of the likeliest (`language/shortening.py`),
and "someone is PHRASE" for labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.fitting.logistic import Floats, LogisticCurve
from densevid.inference.sentence_evidence import LabelTrust, NamedLabel, SentenceEvidence, StreamTrust
from densevid.language.sentence_form import sentence_form
from densevid.language.shortening import animal_subject, is_about_people, is_sentence, shorter_forms
from densevid.language.stemmer import stem
from densevid.language.words import content_words, words_of

FORMAT = 1
WORD_FEATURES = ("share", "prior", "rate", "in_caption")
SENTENCE_FEATURES = ("words", "weakest", "share", "label", "proposal", "count")
POWER = 0.5  # of the probability of a sentence, as beams are too sure of themselves
LEAST_SHARE = 0.005  # before the logit
LARGEST_PRIOR = 5.0
LARGEST_PROPOSAL = 3.0
MOST_INFORMATION = 6.0  # of a word: one that annotators use once in 400 times, or less often
SHORTENED = 8  # sentences of the beam, the likeliest, that are shortened


@dataclass(frozen=True)
class Option:
    """A sentence that could be shown; `shortened` also if the model's own sentence names no object and no place."""

    sentence: str
    shortened: bool
    is_caption: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Its content words."""
        return content_words(self.sentence)


@dataclass(frozen=True)
class ShownSentence:
    """What is shown of an event.

    Attributes:
        sentence: Empty where nothing is sure enough.
        score: Its confidence; where nothing is shown, that of the surest option.
        shortened: Whether it is less than a full sentence.
        caption_score: The confidence of the model's caption.
    """

    sentence: str
    score: float
    shortened: bool
    caption_score: float

    def put_on(self, event: Event) -> Event:
        """An event whose sentence is the caption, with what is shown in its place."""
        full = event.sentence if event.sentence != self.sentence else None
        return replace(
            event,
            sentence=self.sentence,
            sentence_score=self.score,
            full_sentence=full,
            shortened=self.shortened,
        )


class EventWords:
    """The sentences and labels of one event as sets of stems, and the features that follow from them.

    Args:
        evidence: What is known about the event.
        rates: How often an annotator of any event uses a word.
    """

    def __init__(self, evidence: SentenceEvidence, rates: WordRates) -> None:
        self.evidence, self.rates = evidence, rates
        self._bits: dict[str, int] = {}
        log_K = np.asarray(evidence.log_probability, dtype=np.float64)
        weight_K = np.exp(POWER * (log_K - log_K.max(initial=-np.inf))) if len(log_K) else log_K
        self.weight_K = weight_K / max(weight_K.sum(), 1e-12)
        self._sentences = [self.set_of(sentence) for sentence in evidence.sentences]
        self._caption = self.set_of(evidence.caption)
        self._labels = [(self._label_set(label), label.value) for label in evidence.labels]

    def set_of(self, sentence: str) -> int:
        """The stems of the content words of a sentence, a bit each."""
        return self._set(_stems(sentence))

    def share(self, stems: int) -> float:
        """The share of the beam's probability in sentences that have all of these words."""
        pairs = zip(self._sentences, self.weight_K.tolist(), strict=True)
        return sum(weight for has, weight in pairs if has & stems == stems)

    def label(self, stems: int) -> float:
        """How far the best label that has all of these words can be trusted."""
        return max((value for has, value in self._labels if has & stems == stems), default=0.0)

    def word_features(self, words: Sequence[str]) -> Floats:
        """A row of `WORD_FEATURES` for each word."""
        rows = []
        for word in words:
            bit, rate = self._set((_stem(word),)), self.rates[word]
            expected = min(max(rate + self.evidence.prior.get(word, 0.0), 0.001), 0.999)
            prior = _logit(expected) - _logit(min(max(rate, 0.001), 0.999))
            rows.append(
                (
                    _logit(min(max(self.share(bit), LEAST_SHARE), 1 - LEAST_SHARE)),
                    min(max(prior, -LARGEST_PRIOR), LARGEST_PRIOR),
                    math.log(rate),
                    float(self._caption & bit == bit),
                )
            )
        return np.array(rows, dtype=np.float64).reshape(-1, len(WORD_FEATURES))

    def word_labels(self, words: Sequence[str]) -> Floats:
        """How far the best label that has each word can be trusted."""
        return np.array([self.label(self._set((_stem(word),))) for word in words], dtype=np.float64)

    def sentence_features(self, options: Sequence[Option], log_of_word: Mapping[str, float]) -> Floats:
        """A row of `SENTENCE_FEATURES` for each option, given the log-probability of every word."""
        score = min(max(self.evidence.proposal_score, 1e-6), 1 - 1e-6)
        proposal = min(max(_logit(score), -LARGEST_PROPOSAL), LARGEST_PROPOSAL)
        rows = []
        for option in options:
            stems = self.set_of(option.sentence)
            logs = [log_of_word[word] for word in option.words]
            share = _logit(min(max(self.share(stems), LEAST_SHARE), 1 - LEAST_SHARE))
            rows.append((sum(logs), min(logs), share, self.label(stems), proposal, float(len(logs))))
        return np.array(rows, dtype=np.float64).reshape(-1, len(SENTENCE_FEATURES))

    def _label_set(self, label: NamedLabel) -> int:
        return self.set_of(label.name) | self.set_of(label.phrase or "")

    def _set(self, stems: Iterable[str]) -> int:
        bits = self._bits
        return sum(1 << bits.setdefault(each, len(bits)) for each in stems)


class WordRates:
    """How often an annotator of any event uses a word: 0 to 1, never 0.

    Args:
        rates: By word.
        unknown: Of every other word.
    """

    def __init__(self, rates: Mapping[str, float], unknown: float) -> None:
        self.rates, self.unknown = dict(rates), unknown

    def __getitem__(self, word: str) -> float:
        return self.rates.get(word, self.unknown)

    def information(self, words: Iterable[str]) -> float:
        """How much is known once these words are: the sum of -log(rate), of no word more than `MOST_INFORMATION`."""
        return sum(min(-math.log(self[word]), MOST_INFORMATION) for word in set(words))


def options_of(evidence: SentenceEvidence) -> list[Option]:
    """Every sentence that could be shown for an event, the caption first if it could.

    All of them are sentences with a verb and a content word; each stands there once. Where the caption is about an
    animal, none is about people: that somebody plays the piano does not follow from a cat that does.
    """
    best = sorted(zip(evidence.log_probability, evidence.sentences, strict=True), reverse=True)
    whole = dict.fromkeys([evidence.caption, *(sentence for _, sentence in best)])
    animal = animal_subject(evidence.caption)
    subject = "someone is" if animal is None else f"{animal[0]} {'are' if animal[1] else 'is'}"
    actions = [f"{subject} {label.phrase}" for label in evidence.labels if label.phrase]
    found: dict[str, Option] = {}
    for sentence in [*whole, *actions]:
        if _can_be_shown(sentence):
            option = Option(sentence, not _is_full(sentence), sentence == evidence.caption)
            found.setdefault(sentence, option)
    for sentence in [*list(whole)[: SHORTENED + 1], *actions]:
        for shorter in shorter_forms(sentence):
            if shorter not in found and _can_be_shown(shorter):
                found[shorter] = Option(shorter, True)
    return [option for option in found.values() if animal is None or not is_about_people(option.sentence)]


@dataclass(frozen=True)
class SentenceConfidence:
    """The curves and thresholds of a model.

    Attributes:
        word: The probability that a content word is right but for labels, from `WORD_FEATURES`.
        sentence: The confidence of a sentence, from `SENTENCE_FEATURES`.
        rates: How often an annotator uses a word.
        caution: How much a surer sentence is preferred to one with more content: the power of its confidence.
        least: What a shown sentence must reach.
        trust: How far labels can be trusted.
        fitted: What it was fitted on, and how well it did there.
    """

    word: LogisticCurve
    sentence: LogisticCurve
    rates: WordRates
    caution: float
    least: float
    trust: LabelTrust = field(default_factory=LabelTrust)
    fitted: Mapping[str, Any] = field(default_factory=dict)

    def of_options(self, evidence: SentenceEvidence, options: Sequence[Option]) -> Floats:
        """The confidence of some options of an event."""
        event = EventWords(self.trust.applied(evidence), self.rates)
        words = list(dict.fromkeys(word for option in options for word in option.words))
        log_N = log_probabilities(self.word, event.word_features(words), event.word_labels(words))
        log_of_word = dict(zip(words, log_N.tolist(), strict=True))
        return curve_values(self.sentence, SENTENCE_FEATURES, event.sentence_features(options, log_of_word))

    def shown(self, evidence: SentenceEvidence) -> ShownSentence:
        """What is shown of an event."""
        options = options_of(evidence)
        if not options:
            return ShownSentence("", 0.0, shortened=False, caption_score=0.0)
        confidence_O = self.of_options(evidence, options)
        place = choose(options, confidence_O, self.rates, self.caution, self.least)
        caption = confidence_O[0] if options[0].is_caption else 0.0
        if place is None:
            return ShownSentence("", float(confidence_O.max()), shortened=False, caption_score=float(caption))
        best = options[place]
        return ShownSentence(best.sentence, float(confidence_O[place]), best.shortened, float(caption))

    def of_caption(self, evidence: SentenceEvidence) -> float:
        """The confidence of the model's caption, the same as in `shown`; 0 where it is no sentence."""
        caption = evidence.caption
        if not _can_be_shown(caption):
            return 0.0
        return float(self.of_options(evidence, [Option(caption, not _is_full(caption), True)])[0])

    def as_table(self) -> dict[str, Any]:
        """The content of `sentence_confidence.toml`."""
        rates = self.rates
        return {
            "format": {"version": FORMAT},
            "choice": {"caution": self.caution, "least": self.least},
            "word": self.word.as_table(),
            "sentence": self.sentence.as_table(),
            "rates": {"unknown": rates.unknown, "words": list(rates.rates), "values": list(rates.rates.values())},
            "trust": {"actions": self.trust.actions.as_table(), "objects": self.trust.objects.as_table()},
            "fitted": dict(self.fitted),
        }

    @classmethod
    def of_table(cls, table: Mapping[str, Any]) -> SentenceConfidence:
        """The content of such a file.

        Raises:
            InputError: It is of another format, damaged, or uses features that this version does not know.
        """
        file = "sentence_confidence.toml"
        form = table.get("format")
        version = form.get("version") if isinstance(form, Mapping) else None
        if version != FORMAT:
            raise InputError(f"{file}: format {version}; this densevid reads format {FORMAT}; fit it anew")
        try:
            word = LogisticCurve.of_table(table.get("word"), WORD_FEATURES)
            sentence = LogisticCurve.of_table(table.get("sentence"), SENTENCE_FEATURES)
            rates = table["rates"]
            pairs = zip(map(str, rates["words"]), map(float, rates["values"]), strict=True)
            known, unknown = dict(pairs), float(rates["unknown"])
            caution, least = (float(table["choice"][name]) for name in ("caution", "least"))
            trust = table.get("trust", {})
            labels = LabelTrust(*(StreamTrust.of_table(trust.get(kind)) for kind in ("actions", "objects")))
        except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{file}: {error}; fit it anew with densevid calibrate --sentences") from error
        rates_are_right = all(0 < rate <= 1 for rate in [unknown, *known.values()])
        if not (rates_are_right and 0 <= least <= 1 and 0 <= caution < math.inf):
            raise InputError(
                f"{file}: its numbers are no probabilities; fit it anew with densevid calibrate --sentences"
            )
        fitted = table.get("fitted")
        about = fitted if isinstance(fitted, dict) else {}
        return cls(word, sentence, WordRates(known, unknown), caution, least, labels, about)


def choose(
    options: Sequence[Option], confidence_O: Floats, rates: WordRates, caution: float, least: float
) -> int | None:
    """The place of the option that is shown: of those that reach `least`, the one of most worth.

    Its worth is confidence ** caution x information, so "someone is riding a horse" is shown although "someone is
    riding" is surer, unless it is far surer. Full sentences come before shortened ones of equal worth.

    Args:
        options: The options of an event.
        confidence_O: The confidence of each.
        rates: How often annotators use words, from which the information follows.
        caution: See `SentenceConfidence`.
        least: See `SentenceConfidence`.

    Returns:
        Its place; None where nothing is shown.
    """

    def worth(place: int) -> tuple[float, bool, bool, float]:
        option, confidence = options[place], float(confidence_O[place])
        value = confidence**caution * rates.information(option.words)
        return value, not option.shortened, option.is_caption, confidence

    return max(np.flatnonzero(confidence_O >= least).tolist(), key=worth, default=None)


def with_sentence_scores(
    events: list[Event], evidence: Sequence[SentenceEvidence], confidence: SentenceConfidence | None
) -> list[Event]:
    """Events with the confidence of their full sentences, if the model has one; it needs the evidence of each."""
    if confidence is None:
        return events
    pairs = zip(events, evidence, strict=True)
    return [replace(event, sentence_score=confidence.of_caption(known)) for event, known in pairs]


def log_probabilities(curve: LogisticCurve, features_NC: Floats, label_N: Floats) -> Floats:
    """The logarithm of the probability of each word: it is right by the curve, or because its label is.

    The curve knows the words of captions alone, and a label may have others. The trust in a label is the share of its
    words that are used; its square stands for all of them.
    """
    wrong_N = 1 / (1 + np.exp(np.clip(_logits(curve, WORD_FEATURES, features_NC), -30, 30)))
    return np.asarray(np.log1p(-wrong_N * (1 - np.square(label_N))))


def curve_values(curve: LogisticCurve, names: Sequence[str], features_NC: Floats) -> Floats:
    """A curve of rows whose columns have these names."""
    return np.asarray(1 / (1 + np.exp(-np.clip(_logits(curve, names, features_NC), -30, 30))))


def _logits(curve: LogisticCurve, names: Sequence[str], features_NC: Floats) -> Floats:
    weights = dict(zip(curve.names, curve.weights, strict=True))
    return np.asarray(features_NC @ np.array([weights.get(name, 0.0) for name in names]) + curve.bias)


@lru_cache(maxsize=1 << 16)
def _can_be_shown(sentence: str) -> bool:
    return is_sentence(words_of(sentence))


@lru_cache(maxsize=1 << 16)
def _is_full(sentence: str) -> bool:
    return sentence_form(words_of(sentence)).has_object_or_place


@lru_cache(maxsize=1 << 16)
def _stems(sentence: str) -> frozenset[str]:
    return frozenset(map(_stem, content_words(sentence)))


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    return stem(word)


def _logit(probability: float) -> float:
    return math.log(probability) - math.log1p(-probability)
