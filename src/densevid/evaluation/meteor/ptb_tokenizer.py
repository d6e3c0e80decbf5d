"""Captions as the official evaluators tokenize them: raw sentences -> words joined by single spaces.

The official wrapper joins all captions with line ends, replaces every character beyond ASCII by a space, runs the Penn
Treebank tokenizer over the whole text and drops punctuation. Brackets come out as `-lrb-` in lower case and therefore
stay. A carriage return, form feed or vertical tab counts as a space here; to the official tokenizer it is a line break,
which silently moves every later caption of the run down by one.

Nearly every word is tokenized once and remembered: the automaton of `ptb_lexer` reports whether anything after a word
could change its tokens, so this is exact. The few words that look past their end (numbers, single letters and
abbreviations at the end of a caption) are scanned in context. For the same reason a few captions depend on what follows
them in the file: `capital T.` keeps its period before some captions, and `:-)` at the very end of the file falls apart;
`depends_on_next` finds these, `tokenize_before` tokenizes one in front of given captions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from densevid.evaluation.meteor.ptb_lexer import NEWLINE, automaton

PUNCTUATION = frozenset(
    ("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";")
)
LINES_SEEN_AHEAD = 3  # a caption's tokens never depend on more captions than these
_NOT_ONE_LINE_ASCII = re.compile(r"[^\x00-\x7f]|[\n\r\v\f]")
_WORD_AND_MARK = re.compile("[A-Za-z]+[.?!]?")
_REMEMBERED_WORDS = 500_000


def tokenize(sentences: Sequence[str]) -> list[str]:
    """The tokens of `PTBTokenizer -preserveLines -lowerCase` for captions in this order, without punctuation.

    Args:
        sentences: Raw captions. Their order matters to a caption that ends in something like `vitamin A.`: the
            tokenizer looks at the first word of the next one to decide whether the period belongs to the letter.

    Returns:
        One string a caption, words separated by single spaces.

    Example:
        >>> tokenize(["A man's dog isn't here.", "(The dog has gone!)"])
        ["a man 's dog is n't here", '-lrb- the dog has gone -rrb-']
    """
    lines = [_one_ascii_line(sentence) for sentence in sentences]
    tokenized = [_from_words(line) for line in lines]
    index = 0
    while index < len(lines):
        index += 1
        if tokenized[index - 1] is None or index == len(lines):
            index = _scan_in_context(lines, tokenized, index - 1)
    return [text or "" for text in tokenized]


def depends_on_next(sentence: str) -> bool:
    """Whether a caption's tokens may depend on the next caption, or on there being none."""
    last_word = sentence[sentence.rfind(" ") + 1 :]
    return not _is_settled(last_word) and _is_open(" ".join(_one_ascii_line(sentence).rsplit(" ", 4)[-4:]))


@lru_cache(maxsize=100_000)
def tokenize_before(sentence: str, following: tuple[str, ...], more: bool) -> str:
    """The tokens of a caption when these captions follow it in the file, and then `more` captions or the file's end."""
    filler = ("more",) if more else ()
    return tokenize([sentence, *following, *filler])[0]


def _one_ascii_line(sentence: str) -> str:
    return _NOT_ONE_LINE_ASCII.sub(" ", sentence)


@lru_cache(maxsize=100_000)
def _is_settled(last_word: str) -> bool:
    """Whether no caption that ends in this word depends on the next one: true for most words."""
    return _WORD_AND_MARK.fullmatch(last_word) is not None and not _is_open(last_word)


def _is_open(tail: str) -> bool:
    before_a_line, before_the_end = automaton().scan(tail + NEWLINE), automaton().scan(tail)
    return before_a_line.open_ended or _words(before_a_line.tokens) != _words(before_the_end.tokens)


def _words(tokens: Sequence[str]) -> list[str]:
    return [token for token in tokens if token not in PUNCTUATION and token != NEWLINE]


class _KnownWords(dict[str, str | None]):
    """A word -> its tokens without punctuation when `after` follows it; None if it needs its context."""

    def __init__(self, after: str) -> None:
        super().__init__()
        self.after = after

    def __missing__(self, word: str) -> str | None:
        if len(self) >= _REMEMBERED_WORDS:
            self.clear()
        tokens, open_ended = automaton().scan(word + self.after)
        words = [token for token in tokens if token != NEWLINE]
        needs_context = open_ended or not word.isprintable()  # control characters are trimmed at the end of a line only
        known = self[word] = None if needs_context else _without_punctuation(words)
        return known


_inside = _KnownWords(after=" ")
_at_the_end = _KnownWords(after=NEWLINE)


def _from_words(line: str) -> str | None:
    """The caption from the tokens of its words, or None where a word needs its context."""
    *words, last = line.split(" ")
    parts = [_inside[word] for word in words]
    parts.append(_at_the_end[last])
    return None if None in parts else " ".join(filter(None, parts))


def _scan_in_context(lines: list[str], tokenized: list[str | None], first: int) -> int:
    """Scan a caption, with as many after it as it takes until none can change another; return the next index."""
    after = first
    while True:
        after += 1
        text = NEWLINE.join(lines[first:after]) + (NEWLINE if after < len(lines) else "")
        scan = automaton().scan(text)
        if after == len(lines) or not scan.open_ended:
            break
    caption: list[str] = []
    captions = [caption]
    for token in scan.tokens:
        if token == NEWLINE:
            captions.append(caption := [])
        else:
            caption.append(token)
    # A tag may span lines; the original prints it as it is, so it ends a line like any other line end.
    printed = [line for words in captions for line in " ".join(words).split(NEWLINE)]
    tokenized[first:after] = [_without_punctuation(line.rstrip().split(" ")) for line in printed[: after - first]]
    return after


def _without_punctuation(tokens: Sequence[str]) -> str:
    words = " ".join(tokens).lower().split(" ")
    return " ".join(word for word in words if word not in PUNCTUATION)
