"""METEOR's word lists, stemmer and tokenization in Python against the same in its jar."""

from __future__ import annotations

import random
import re

import pytest

from densevid.evaluation.meteor.normalizer import words_of
from densevid.evaluation.meteor.resources import java_hash, word_facts
from densevid.language.stemmer import stem
from helpers.official_jars import needs_jars, run_meteor
from helpers.shared_captions import all_sentences

ENDINGS = (
    "tional enci anci abli entli izer ization ational ation ator alism aliti alli fulness ousli ousness iveness iviti "
    "biliti bli ogi fulli lessli li alize icate iciti ical ful ness ative al ance ence er ic able ible ant ement ment "
    "ent ism ate iti ous ive ize ion s es ies ied sses us ss eed eedly ed edly ing ingly y e l ll 's '"
)
EXCEPTIONS = "skis skies dying lying tying idly gently ugly early only singly sky news inning proceed"
ODD = "a B . .. ... ' '' ` , - -- ‘ “ – é 9 3,000 1'9 \t ( | No. Mr. e.g. U.S. etc. DOTMULTI 's n't t-shirt"
BEGINNINGS = "gener commun arsen b st past hop hopp univers a ab sk inn out proc exc d ly earl onl new atla cosmo bia"


def invented_words(count: int) -> list[str]:
    choose = random.Random(5)
    endings, beginnings = ENDINGS.split(), BEGINNINGS.split()
    middles = ["".join(choose.choices("aeiouybdlstnz", k=choose.randrange(5))) for _ in range(count)]
    return [choose.choice(beginnings) + middle + choose.choice(endings) for middle in middles]


@needs_jars
def test_stems_equal_the_jar() -> None:
    words = invented_words(60_000) + EXCEPTIONS.split()
    assert [stem(word) for word in words] == run_meteor(["Stemmer", "en"], words)


@needs_jars
def test_words_equal_the_jar_on_odd_text() -> None:
    choose = random.Random(6)
    pieces, gaps = ODD.split(" "), ["", " ", "\u2003"]
    lines = [
        "".join(choose.choice(pieces) + choose.choice(gaps) for _ in range(choose.randrange(14))) for _ in range(20_000)
    ]
    assert [words_of(line) for line in lines] == jar_words(lines)


@pytest.mark.slow
@needs_jars
def test_words_and_stems_of_the_data_equal_the_jar() -> None:
    lines = sorted(re.sub(r"[\n\r]", " ", sentence) for sentence in all_sentences())
    assert [words_of(line) for line in lines] == jar_words(lines)
    vocabulary = sorted({word for line in lines for word in words_of(line) if word.isprintable()})
    assert [stem(word) for word in vocabulary] == run_meteor(["Stemmer", "en"], vocabulary)


def test_string_hashes_equal_those_of_java() -> None:
    assert java_hash("") == 0
    assert java_hash("Aa") == java_hash("BB") == 2112
    assert java_hash("ap") == java_hash("c2")


@needs_jars
def test_words_know_their_synsets_and_whether_they_are_function_words() -> None:
    assert word_facts("the").is_function
    assert not word_facts("dog").is_function
    assert word_facts("geese").synsets >= word_facts("goose").synsets  # irregular
    assert word_facts("boxes").synsets >= word_facts("box").synsets  # regular
    assert word_facts("guy").synsets & word_facts("cat").synsets  # both stand for a man
    assert not word_facts("zzzq").synsets


def jar_words(lines: list[str]) -> list[list[str]]:
    printed = run_meteor(["edu.cmu.meteor.util.Normalizer", "en", "true"], lines)
    return [[word for word in re.split("[ \t\n\r\f]+", line.lower()) if word] for line in printed]
