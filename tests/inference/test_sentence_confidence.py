"""Sentence confidence: features against plain loops, what is chosen against brute force, options, and the file."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.sentence_confidence import (
    POWER,
    SENTENCE_FEATURES,
    WORD_FEATURES,
    EventWords,
    Option,
    SentenceConfidence,
    WordRates,
    choose,
    log_probabilities,
    options_of,
    with_sentence_scores,
)
from densevid.inference.sentence_evidence import LabelTrust, NamedLabel, SentenceEvidence, StreamTrust
from densevid.io import toml_text
from densevid.language.shortening import shorter_forms
from densevid.language.stemmer import stem
from densevid.language.words import content_words
from helpers.made_sentences import made_events

RATES = WordRates({"man": 0.3, "horse": 0.02, "riding": 0.05}, 0.001)
WORD = LogisticCurve(WORD_FEATURES, (0.4, 0.3, 0.2, 0.5), 1.0)
SENTENCE = LogisticCurve(SENTENCE_FEATURES, (0.5, 0.3, 0.1, 1.0, 0.2, -0.1), 1.5)
EVIDENCE = SentenceEvidence(
    "a man is riding a horse in a park",
    ("a man is riding a horse in a park", "men ride horses", "a man is riding"),
    (-2.0, -3.0, -5.0),
    {"horse": 0.4, "park": -0.5},
    (NamedLabel("riding or walking with horse", "riding a horse", 0.7), NamedLabel("sorrel", None, 0.9)),
    0.6,
)


TRUST = LabelTrust(StreamTrust(0.8, -0.1, {"riding or walking with horse": 0.3}), StreamTrust(0.9, 0.2))


def confidence(caution: float = 2.0, least: float = 0.3, trust: LabelTrust | None = None) -> SentenceConfidence:
    return SentenceConfidence(WORD, SENTENCE, RATES, caution, least, trust or LabelTrust(), {"events": 7})


def logit(value: float, low: float = 0.0) -> float:
    value = min(max(value, low), 1 - low)
    return math.log(value / (1 - value))


def stems(text: str) -> set[str]:
    return {stem(word) for word in content_words(text)}


def share(wanted: set[str]) -> float:
    """The share of the beam's probability, sharpened by half, in sentences that have all of these stems."""
    weights = [math.exp(POWER * log) for log in EVIDENCE.log_probability]
    having = [wanted <= stems(text) for text in EVIDENCE.sentences]
    return sum(weight for weight, has in zip(weights, having, strict=True) if has) / sum(weights)


def label(wanted: set[str]) -> float:
    named = [(stems(each.name) | stems(each.phrase or ""), each.value) for each in EVIDENCE.labels]
    return max((value for words, value in named if wanted <= words), default=0.0)


def word_row(word: str) -> list[float]:
    rate, change = RATES[word], EVIDENCE.prior.get(word, 0.0)
    expected = min(max(rate + change, 0.001), 0.999)
    prior = min(max(logit(expected) - logit(rate, 0.001), -5), 5)
    said = stem(word) in stems(EVIDENCE.caption)
    return [logit(share({stem(word)}), 0.005), prior, math.log(rate), float(said)]


WORDS = ("man", "horse", "park", "sorrel", "zebra", "riding")


def test_features_of_words_are_those_of_a_plain_loop() -> None:
    found = EventWords(EVIDENCE, RATES).word_features(WORDS)
    np.testing.assert_allclose(found, [word_row(word) for word in WORDS], atol=1e-9)
    assert found[2, 1] == 0, "a rate cannot fall below a thousandth"
    labels = EventWords(EVIDENCE, RATES).word_labels(WORDS)
    assert labels.tolist() == [label({stem(word)}) for word in WORDS] and labels[3] == 0.9 and labels[4] == 0
    assert EventWords(EVIDENCE, RATES).word_features(()).shape == (0, len(WORD_FEATURES))


def test_features_of_sentences_are_those_of_a_plain_loop() -> None:
    logs = {word: -0.1 * place for place, word in enumerate(("man", "riding", "horse", "park", "ride", "men"), start=1)}
    options = [
        Option("a man is riding a horse", False),
        Option("someone is riding", True),
        Option("men in a park", True),
    ]
    found = EventWords(EVIDENCE, RATES).sentence_features(options, logs)
    for row, option in zip(found, options, strict=True):
        own = [logs[word] for word in content_words(option.sentence)]
        wanted = stems(option.sentence)
        want = [sum(own), min(own), logit(share(wanted), 0.005), label(wanted), logit(0.6), len(own)]
        np.testing.assert_allclose(row, want, atol=1e-9)


def test_the_confidence_of_an_option_is_the_two_curves() -> None:
    (option,) = [option for option in options_of(EVIDENCE) if option.sentence == "someone is riding a horse"]
    probability = {}
    for word in ("riding", "horse"):
        wrong = 1 - 1 / (1 + math.exp(-(np.dot(WORD.weights, word_row(word)) + WORD.bias)))
        probability[word] = 1 - wrong * (1 - label({stem(word)}) ** 2)
    logs = {word: math.log(value) for word, value in probability.items()}
    features = EventWords(EVIDENCE, RATES).sentence_features([option], logs)[0]
    want = 1 / (1 + math.exp(-(float(np.dot(SENTENCE.weights, features)) + SENTENCE.bias)))
    assert confidence().of_options(EVIDENCE, [option])[0] == pytest.approx(want)
    columns, labels = np.array([word_row("riding"), word_row("horse")]), np.array([0.7, 0.7])
    np.testing.assert_allclose(np.exp(log_probabilities(WORD, columns, labels)), list(probability.values()))


def test_a_curve_of_fewer_features_in_another_order_reads_its_own() -> None:
    values = np.array([[0.1, 0.2, 0.3, 0.4]])
    curve = LogisticCurve(("in_caption", "share"), (2.0, 3.0), -1.0)
    want = -math.log1p(math.exp(-(2 * 0.4 + 3 * 0.1 - 1)))
    assert log_probabilities(curve, values, np.zeros(1))[0] == pytest.approx(want)
    assert log_probabilities(curve, values, np.ones(1))[0] == 0, "a label that is certain"


def test_a_trusted_label_is_shown_whatever_the_captioner_says() -> None:
    """Though its words are rare, in no sentence of the beam, and against the word prior."""
    rare = LogisticCurve(WORD_FEATURES, (0.1, 0.8, 0.7, 0.2), 1.0)
    words = LogisticCurve(SENTENCE_FEATURES, (0.6, 0.6, 0.2, 1.5, 0.2, -0.1), 0.5)
    label = NamedLabel("clean and jerk", "doing a clean and jerk", 0.9)
    for value, wanted in ((0.9, "someone is doing a clean and jerk"), (0.3, None)):
        evidence = replace(EVIDENCE, labels=(replace(label, value=value),))
        shown = SentenceConfidence(rare, words, RATES, 2.0, 0.2).shown(evidence)
        assert (shown.sentence == wanted) if wanted else ("jerk" not in shown.sentence)


def test_the_trust_in_a_class_changes_its_value_alone() -> None:
    value = 1 / (1 + math.exp(-(0.8 * logit(0.7) - 0.1 + 0.3)))
    action, thing = TRUST.applied(EVIDENCE).labels
    assert action.value == pytest.approx(value) and thing.value == pytest.approx(
        1 / (1 + math.exp(-(0.9 * logit(0.9) + 0.2)))
    )
    assert (action.name, thing.name) == tuple(label.name for label in EVIDENCE.labels)
    other = NamedLabel("dancing", "dancing", 0.0)
    assert 0 < TRUST.actions(other) < 1e-4 and StreamTrust()(NamedLabel("x", None, 0.25)) == pytest.approx(0.25)
    options = options_of(EVIDENCE)
    np.testing.assert_allclose(
        confidence(trust=TRUST).of_options(EVIDENCE, options),
        confidence().of_options(TRUST.applied(EVIDENCE), options),
    )


def test_options_are_the_models_sentences_their_shorter_forms_and_labels() -> None:
    for event in made_events(40, 5):
        evidence = event.evidence
        whole = {evidence.caption, *evidence.sentences}
        whole |= {f"someone is {label.phrase}" for label in evidence.labels if label.phrase}
        options = options_of(evidence)
        assert options[0].sentence == evidence.caption and options[0].is_caption
        assert len({option.sentence for option in options}) == len(options)
        assert whole <= {option.sentence for option in options}
        forms = {short: sentence for sentence in whole for short in shorter_forms(sentence)}
        for option in options:
            assert option.words, "each says something"
            if option.sentence not in whole:
                assert option.shortened and not option.is_caption
                said = stems(forms[option.sentence])
                assert stems(option.sentence) <= said, f"{option.sentence}: more than {forms[option.sentence]}"
            else:
                assert not option.shortened, "with an object, as all of these"


def test_what_is_no_sentence_is_no_option() -> None:
    evidence = SentenceEvidence("a red car", ("a red car", "someone is", "a man sings", ""), (-1.0, -1.5, -2.0, -3.0))
    options = options_of(evidence)
    assert "a red car" not in {option.sentence for option in options} and not any(o.is_caption for o in options)
    assert next(o for o in options if o.sentence == "a man sings").shortened, "neither an object nor a place"
    assert options_of(SentenceEvidence("", (), ())) == []
    assert confidence().of_caption(evidence) == 0


def test_where_the_caption_is_about_an_animal_no_option_is_about_people() -> None:
    label = NamedLabel("playing piano", "playing the piano", 0.8)
    beam = ("a cat is playing with a piano", "a man is playing the piano", "two cats are sitting on a piano")
    evidence = SentenceEvidence(beam[0], beam, (-1.0, -2.0, -3.0), {}, (label,))
    found = [option.sentence for option in options_of(evidence)]
    assert "a cat is playing the piano" in found and beam[2] in found
    assert not {"someone is playing the piano", beam[1], "someone is playing music"} & set(found)
    plural = [option.sentence for option in options_of(replace(evidence, caption=beam[2]))]
    assert "two cats are playing the piano" in plural
    person = [option.sentence for option in options_of(replace(evidence, caption=beam[1]))]
    assert "someone is playing the piano" in person and beam[0] in person


def options(counts: list[int], shortened: list[bool]) -> list[Option]:
    """Options of so many words; the first is the caption."""
    letters = "bcdfghjklmnpqrtvwxz"
    return [
        Option(" ".join(letters[place % 19] * (2 + number) for number in range(count)), short, place == 0)
        for place, (count, short) in enumerate(zip(counts, shortened, strict=True))
    ]


rows = st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.sampled_from([0.1, 0.2, 0.4, 0.5, 0.8])), max_size=6)


@given(rows, st.sampled_from([1.0, 2.0, 6.0]), st.sampled_from([0.0, 0.15, 0.4]))
def test_what_is_chosen_is_the_best_of_all(rows: list[tuple[int, bool, float]], caution: float, least: float) -> None:
    given = options([count for count, _, _ in rows], [short for _, short, _ in rows])
    confidence_O = np.array([value for _, _, value in rows])
    place = choose(given, confidence_O, RATES, caution, least)
    unknown = min(6.0, -math.log(RATES.unknown))
    worth = [value**caution * count * unknown for count, _, value in rows]
    sure = [number for number in range(len(rows)) if confidence_O[number] >= least]
    if not sure:
        assert place is None
        return
    assert place in sure and worth[place] == pytest.approx(max(worth[number] for number in sure))
    equal = [number for number in sure if worth[number] == worth[place]]
    assert not given[place].shortened or all(given[number].shortened for number in equal)


def test_information_is_of_distinct_words_and_bounded() -> None:
    assert RATES.information(("man", "horse", "man")) == pytest.approx(-math.log(0.3) - math.log(0.02))
    assert RATES.information(("zebra", "yak")) == 12 and RATES.information(()) == 0


def test_what_is_shown_has_the_confidence_that_the_curves_give_it() -> None:
    sure, nothing = confidence(2.0, 0.1), confidence(2.0, 1.0)
    for event in made_events(40, 6):
        evidence, shown = event.evidence, sure.shown(event.evidence)
        every = options_of(evidence)
        known = dict(zip([o.sentence for o in every], sure.of_options(evidence, every).tolist(), strict=True))
        assert shown.score == pytest.approx(known[shown.sentence]) and 0 <= shown.score <= 1
        assert shown.caption_score == pytest.approx(sure.of_caption(evidence)) == pytest.approx(known[evidence.caption])
        best = max(value**2 * RATES.information(content_words(sentence)) for sentence, value in known.items())
        assert shown.score**2 * RATES.information(content_words(shown.sentence)) == pytest.approx(best)
        hidden = nothing.shown(evidence)
        assert hidden.sentence == "" and hidden.score == pytest.approx(max(known.values())) and not hidden.shortened


def test_with_less_caution_sentences_are_longer_and_less_sure() -> None:
    events = made_events(60, 7)
    found = [[confidence(caution, 0.0).shown(event.evidence) for event in events] for caution in (0.3, 1.0, 4.0)]
    words = [np.mean([len(content_words(shown.sentence)) for shown in some]) for some in found]
    scores = [np.mean([shown.score for shown in some]) for some in found]
    assert all(more > less for more, less in pairwise(words)) and all(low < high for low, high in pairwise(scores))


def test_events_get_the_confidence_of_their_captions() -> None:
    events = [Event(0, 1, EVIDENCE.caption, 0.5), Event(1, 2, "x", 0.25)]
    other = SentenceEvidence("a man is singing", ("a man is singing",), (-1.0,))
    scored = with_sentence_scores(events, [EVIDENCE, other], confidence())
    assert [event.sentence_score for event in scored] == [confidence().of_caption(each) for each in (EVIDENCE, other)]
    assert [event.score for event in scored] == [0.5, 0.25]
    assert with_sentence_scores(events, [], None) is events


def test_what_is_shown_is_put_on_an_event() -> None:
    shown = confidence(9.0, 0.0).shown(EVIDENCE)
    event = shown.put_on(Event(0, 1, EVIDENCE.caption, 0.5))
    assert (event.sentence, event.sentence_score, event.shortened) == (shown.sentence, shown.score, shown.shortened)
    assert event.full_sentence == (EVIDENCE.caption if shown.sentence != EVIDENCE.caption else None)


def test_a_confidence_survives_its_file() -> None:
    made = confidence(trust=TRUST)
    again = SentenceConfidence.of_table(tomllib.loads(toml_text(made.as_table())))
    assert json.dumps(again.as_table()) == json.dumps(made.as_table())
    assert again.shown(EVIDENCE) == made.shown(EVIDENCE) and again.trust == TRUST
    without = {name: value for name, value in made.as_table().items() if name != "trust"}
    assert SentenceConfidence.of_table(without).trust == LabelTrust()


CURVE = {"names": ["share"], "weights": [1.0], "bias": 0.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": {"version": 9}}, "format 9; this densevid reads format 1"),
        ({"format": 1}, "format None"),
        ({"word": None}, "needs names, weights and a bias"),
        ({"word": CURVE | {"names": ["weakest"]}}, "unknown column 'weakest'"),
        ({"sentence": CURVE | {"weights": [1.0, 2.0]}}, "one finite weight"),
        ({"sentence": CURVE | {"bias": math.nan}}, "one finite weight"),
        ({"rates": {}}, "words"),
        ({"rates": 3}, "fit it anew"),
        ({"rates": {"unknown": 0.1, "words": ["a"], "values": []}}, "fit it anew"),
        ({"rates": {"unknown": 0.0, "words": [], "values": []}}, "no probabilities"),
        ({"rates": {"unknown": 0.1, "words": ["a"], "values": [math.nan]}}, "no probabilities"),
        ({"choice": {"caution": 2.0}}, "least"),
        ({"choice": {"caution": 2.0, "least": 1.5}}, "no probabilities"),
        ({"choice": {"caution": -1.0, "least": 0.5}}, "no probabilities"),
        ({"choice": {"caution": math.inf, "least": 0.5}}, "no probabilities"),
        ({"choice": {"caution": "much", "least": 0.5}}, "fit it anew"),
        ({"trust": 3}, "fit it anew"),
        ({"trust": {"actions": {"slope": 1.0}}}, "slope, bias, classes and effects"),
        ({"trust": {"objects": TRUST.objects.as_table() | {"slope": math.nan}}}, "not finite"),
        ({"trust": {"actions": TRUST.actions.as_table() | {"effects": []}}}, "slope, bias, classes and effects"),
    ],
    ids=str,
)
def test_a_damaged_file_is_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        SentenceConfidence.of_table(confidence().as_table() | change)
    assert str(error.value).startswith("sentence_confidence.toml: ") and "\n" not in str(error.value)
