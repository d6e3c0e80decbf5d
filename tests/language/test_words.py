"""Words of captions, next to METEOR's own."""

from __future__ import annotations

import pytest

from densevid.evaluation.meteor.resources import _function_words
from densevid.evaluation.metrics.content_words import content_words as of_meteor
from densevid.evaluation.metrics.content_words import tokens
from densevid.language.words import FUNCTION_WORDS, content_words, is_content_word, words_of

SENTENCES = (
    "a man in a red t-shirt is playing the guitar on stage",
    "Two people are doing a thing: they cut the red onions.",
    "the man's dog isn't running",
    "a woman can't open the jar, and a boy doesn't help",
    "someone pours 1.5 cups of water into a pot",
    "a group of people are dancing",
    "they're the women's team",
)


def test_the_function_words_are_those_of_meteor() -> None:
    assert {word for word in _function_words() if any(map(str.isalnum, word)) and "'" not in word} - {
        "-lrb-",
        "-rrb-",
    } == FUNCTION_WORDS


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_are_those_that_the_evaluation_sees(sentence: str) -> None:
    assert words_of(sentence) == tokens(sentence)
    assert list(content_words(sentence)) == of_meteor(sentence)


def test_a_clitic_is_no_content_word() -> None:
    assert not is_content_word("'s")
