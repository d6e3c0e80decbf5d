"""Content words and what annotators used, against words whose relation is known."""

from __future__ import annotations

import pytest

from densevid.evaluation.metrics.content_words import AnnotatorWords, content_words


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A person is doing a thing with people.", []),
        ("someone is cooking", ["cooking"]),
        ("The man's dog, a dog, isn't running!", ["man", "dog", "running"]),
        ("Two women are slicing 3 red onions", ["women", "slicing", "3", "red", "onions"]),
        ("", []),
    ],
)
def test_content_words_leave_out_what_fits_any_video(sentence: str, expected: list[str]) -> None:
    assert content_words(sentence) == expected


@pytest.mark.parametrize(
    ("word", "annotators", "users"),
    [
        ("car", ["a car drives", "the CAR is red", "a dog"], 2),
        ("cooking", ["she cooks", "they cooked a meal", "a chef"], 2),
        ("car", ["an automobile is parked", "an auto", "a boat"], 2),
        ("women", ["a woman", "two women"], 2),
        ("ran", ["he runs", "she is running"], 2),
        ("car", ["a car and a car"], 1),
        ("guitar", ["a man plays", "a piano"], 0),
    ],
)
def test_a_word_is_counted_once_an_annotator_by_word_stem_or_synonym(
    word: str, annotators: list[str], users: int
) -> None:
    assert AnnotatorWords(annotators).users(word) == users


def test_each_content_word_needs_two_annotators() -> None:
    words = AnnotatorWords(["a man plays guitar", "a man sings", "a guitar is played by a boy"])
    assert words.supported("a man is playing a guitar") == [True, True, True]
    assert words.supported("a man is singing on a stage") == [True, False, False]
    assert words.supported("a man is singing", enough=1) == [True, True]
