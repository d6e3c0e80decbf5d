"""A raw sentence becomes the words that captioning, SODA and segments score; each distinct sentence is asked once.

The official wrapper: every character beyond ASCII becomes one space, the Stanford PTB tokenizer splits and lower-cases,
punctuation tokens are dropped. Brackets come out as `-lrb-` in lower case and therefore stay. A carriage return, form
feed or vertical tab counts as a space here; to the official tokenizer it is a line break, which silently moves every
later caption of the run down by one.

The tokenizer reads captions as the lines of one file and looks ahead, so a few depend on what follows: `capital T.`
keeps its period before some captions, and `:-)` at the very end of the file falls apart. The evaluators write all
captions of a tIoU into one file; `words_before` answers for a caption in its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from densevid.evaluation.meteor.lexer import NEWLINE, automaton
from densevid.evaluation.meteor.tokenizer import PUNCTUATION
from densevid.evaluation.meteor.tokenizer import tokenise as native_tokenise

ENGINES = ("native", "java")
LINES_SEEN_AHEAD = 3
_SPACE = re.compile(r"[^\x00-\x7f]|[\n\r\x0b\x0c]")
_WORD_AND_MARK = re.compile("[A-Za-z]+[.?!]?")


def tokenise(sentences: Sequence[str], engine: str = "native") -> list[str]:
    """Each sentence as its words joined by a space, as lines of one file in this order."""
    if engine == "native":
        return native_tokenise(sentences)
    from densevid.evaluation.java import ptb_tokens

    lines = ptb_tokens([one_ascii_line(sentence) for sentence in sentences]) if sentences else []
    return [" ".join(word for word in line.split(" ") if word not in PUNCTUATION) for line in lines]


def one_ascii_line(sentence: str) -> str:
    """The text as the tokenizer reads it: ASCII, on one line."""
    return _SPACE.sub(" ", sentence)


def minds_what_follows(sentence: str) -> bool:
    """Whether the words may depend on the next caption, or on there being none."""
    last_word = sentence[sentence.rfind(" ") + 1 :]
    return not _settled(last_word) and _minds(" ".join(one_ascii_line(sentence).rsplit(" ", 4)[-4:]))


@lru_cache(maxsize=100_000)
def words_before(sentence: str, following: tuple[str, ...], more: bool) -> str:
    """The words of a sentence when these captions follow in its file, and after them `more` or the file's end."""
    filler = ("more",) if more else ()
    return native_tokenise([sentence, *following, *filler])[0]


@lru_cache(maxsize=100_000)
def _settled(last_word: str) -> bool:
    """Whether a caption that ends in this word is done with it, whatever stands before and after: most are."""
    return _WORD_AND_MARK.fullmatch(last_word) is not None and not _minds(last_word)


def _minds(tail: str) -> bool:
    before_a_line, before_the_end = automaton().scan(tail + NEWLINE), automaton().scan(tail)
    return before_a_line.open_ended or _words(before_a_line.tokens) != _words(before_the_end.tokens)


def _words(tokens: Sequence[str]) -> list[str]:
    return [token for token in tokens if token not in PUNCTUATION and token != NEWLINE]
