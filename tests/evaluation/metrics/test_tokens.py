"""Captions in their place: what follows one in the tokenizer's file can change its words; the jar is the judge."""

from __future__ import annotations

import numpy as np
import pytest

from densevid.evaluation.files import official_order
from densevid.evaluation.metrics.meteor import Meteor
from densevid.evaluation.metrics.text_pool import CaptionIndex
from densevid.evaluation.metrics.tokens import minds_what_follows, one_ascii_line, tokenise, words_before

ENDINGS = [
    "e-mail me :-)",
    "this is :(",
    "topping each one with a capital T.",
    "ancient Asian art.",
    "at al.",
    "7 1/2",
    "no =D ",
]
PLAIN = ["a man walks.", "A man walks", "he can't!", "what?", "", "   ", "(brackets)", "the dog's"]
FOLLOWING = [(), ("The man.",), ("the man",), ("", "The"), ("2 men",)]


@pytest.mark.parametrize("following", FOLLOWING, ids=str)
@pytest.mark.parametrize("sentence", ENDINGS)
def test_words_before_equals_the_jar(sentence: str, following: tuple[str, ...]) -> None:
    assert words_before(sentence, following, more=False) == tokenise([sentence, *following], "java")[0]


@pytest.mark.parametrize("sentence", [*ENDINGS, *PLAIN])
def test_a_caption_that_minds_nothing_is_the_same_everywhere(sentence: str) -> None:
    places = {words_before(sentence, following, more) for following in FOLLOWING for more in (True, False)}
    assert minds_what_follows(sentence) or len(places) == 1
    assert sentence not in PLAIN or not minds_what_follows(sentence)


def test_the_pool_reads_captions_in_their_files() -> None:
    pool = CaptionIndex(Meteor(cache=False))
    raw = ["hello :-)", "a man walks.", "hello :-)", "hello :-)"]
    captions = pool.captions(raw)
    assert pool.order_matters
    texts = [pool.texts[number] for number in pool.in_files(captions, np.array([0, 0, 1, 2])).tolist()]
    assert texts == ["hello :--rrb-", "a man walks", "hello -rrb-", "hello -rrb-"]
    assert pool.in_files(captions[:1], np.array([0])).tolist() == pool.numbers(["hello -rrb-"]).tolist()


@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x0c", "\r\n", "\n", "\t", "é", "\u2028"])
def test_line_breaks_and_foreign_characters_are_spaces(mark: str) -> None:
    assert one_ascii_line(f"a{mark}b").strip().isascii()
    assert tokenise([f"a man{mark}walks.", "next"]) == ["a man walks", "next"]


def test_brackets_stay_and_punctuation_goes() -> None:
    assert tokenise(["(Hello), man's - isn't!"]) == ["-lrb- hello -rrb- man 's is n't"]


def test_official_order_is_that_of_a_set_with_hash_seed_zero() -> None:
    names = [f"v_{number}" for number in range(50)]
    ordered = official_order([names[:30], names[20:]])
    assert sorted(ordered) == sorted(names)
    assert ordered == official_order([names[:30], names[20:]])
    assert set(official_order([names], names[:7])) == set(names[:7])
    assert ordered != names
