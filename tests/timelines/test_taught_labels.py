"""Taught labels: a clip gets the classes that its annotators named, ranked and valued as predicted ones are."""

from __future__ import annotations

import numpy as np
import pytest

from densevid.timelines.clips import Clip
from densevid.timelines.sentences import content_words
from densevid.timelines.taught_labels import PredictedLabels, TaughtLabels, used_words

TEXTS = ("playing the guitar", "riding a horse", "slicing an onion", "swimming", "playing", "the")
FIRST = 10  # the number of the first class: others belong to another stream
WORDS = {FIRST + number: content_words(text) for number, text in enumerate(TEXTS)}
GUITAR, HORSE, ONION, SWIM, PLAY, EMPTY = range(FIRST, FIRST + len(TEXTS))
PREDICTED = PredictedLabels(
    np.array([[SWIM, HORSE, GUITAR], [GUITAR, ONION, HORSE], [ONION, HORSE, GUITAR], [HORSE, SWIM, EMPTY]]),
    np.array([[0.7, 0.6, 0.1], [0.9, 0.8, 0.2], [0.3, 0.2, 0.1], [0.25, 0.15, 0.05]], np.float32),
    np.array([[0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=bool),
)
RIGHT, WRONG = (0, 1), (2, 3)


def clip(*captions: str, name: str = "one") -> Clip:
    return Clip(name, "train", name, 0.5, captions, rows=1)


def taught(chance: float = 1.0) -> TaughtLabels:
    return TaughtLabels(PREDICTED, WORDS, chance)


def drawn(clip: Clip, count: int = 300, chance: float = 1.0) -> list[tuple[list[int], list[float]]]:
    rng, teacher = np.random.default_rng(0), taught(chance)
    pairs = [teacher.draw(clip, rng) for _ in range(count)]
    return [(labels.tolist(), [round(float(value), 4) for value in values]) for labels, values in pairs]


def rows(places: tuple[int, ...]) -> list[list[float]]:
    return [[round(float(value), 4) for value in PREDICTED.value_MN[place]] for place in places]


def test_a_class_is_named_if_annotators_used_all_of_its_words() -> None:
    teacher = taught()
    assert teacher.named(clip("A man plays his guitar.")) == [GUITAR, PLAY]
    assert teacher.named(clip("a girl rides", "a brown horse")) == [HORSE], "by annotators together"
    assert teacher.named(clip("an onion is cut")) == [], "slicing is more than cutting"
    assert EMPTY not in teacher.words, "a class without content words fits nothing"


def test_a_word_needs_one_annotator_in_ten() -> None:
    others = [f"a man talks about number {number}" for number in range(19)]
    assert used_words(["a horse", *others[:18]]) >= content_words("a horse")
    assert not used_words(["a horse", *others]) & content_words("a horse"), "one of twenty"
    assert used_words(["a horse", "two horses", *others[:18]]) >= content_words("a horse")
    assert used_words([]) == frozenset()


def test_two_clips_of_one_name_are_named_apart() -> None:
    """Collections number their clips alike."""
    teacher = taught()
    assert teacher.named(clip("a man plays a guitar", name="000001")) == [GUITAR, PLAY]
    assert teacher.named(clip("people swim", name="000001")) == [SWIM]


def test_what_is_drawn_is_named_or_is_a_wrong_guess_of_the_classifier() -> None:
    shown, own = clip("a man plays the guitar on a horse", "he rides it"), {GUITAR, HORSE, PLAY}
    assert set(taught().named(shown)) == own
    seen = set()
    for labels, values in drawn(shown):
        place = RIGHT[rows(RIGHT).index(values)]
        for label, guess, right in zip(
            labels, PREDICTED.label_MN[place].tolist(), PREDICTED.right_MN[place].tolist(), strict=True
        ):
            assert label in own if right else label == (-1 if guess in own else guess)
        named = [label for label in labels if label in own]
        assert len(named) == len(set(named)) == PREDICTED.right_MN[place].sum()
        seen |= set(named)
    assert seen == own, "each of them some time"


def test_values_are_those_of_clips_about_which_the_classifier_was_right_or_wrong() -> None:
    fitting = {tuple(values) for _, values in drawn(clip("people swim"))}
    assert fitting == {tuple(values) for values in rows(RIGHT)}
    other = drawn(clip("a cat sleeps"))
    assert {tuple(values) for _, values in other} == {tuple(values) for values in rows(WRONG)}
    for labels, values in other:
        assert labels == PREDICTED.label_MN[WRONG[rows(WRONG).index(values)]].tolist()


def test_one_class_fills_one_place() -> None:
    """Where a classifier was right twice and annotators name one class, the other place stays empty."""
    labels = {tuple(labels) for labels, _ in drawn(clip("people swim"))}
    assert labels == {(-1, SWIM, GUITAR), (SWIM, -1, HORSE)}


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_a_clip_gets_labels_as_often_as_it_should(chance: float) -> None:
    got = [labels != [-1, -1, -1] for labels, _ in drawn(clip("a cat sleeps"), 2000, chance)]
    assert np.mean(got) == pytest.approx(chance, abs=0.04)
    without = next((pair for pair in drawn(clip("a cat sleeps"), 50, chance) if pair[0] == [-1] * 3), None)
    assert without is None or without[1] == [0.0, 0.0, 0.0]


def test_draws_follow_from_the_random_numbers_alone() -> None:
    shown = clip("a man plays the guitar on a horse", "he rides it")
    assert drawn(shown) == drawn(shown)
    teacher = taught()
    teacher.draw(clip("people swim"), np.random.default_rng(3))  # what was drawn before does not matter
    first, second = (each.draw(shown, np.random.default_rng(5)) for each in (teacher, taught()))
    assert first[0].tolist() == second[0].tolist() and first[1].tolist() == second[1].tolist()


def test_without_a_clip_to_be_like_there_are_no_labels() -> None:
    wrong = PredictedLabels(PREDICTED.label_MN[2:], PREDICTED.value_MN[2:], PREDICTED.right_MN[2:])
    labels, values = TaughtLabels(wrong, WORDS, 1.0).draw(clip("people swim"), np.random.default_rng(0))
    assert labels.tolist() == [-1, -1, -1] and not values.any()
