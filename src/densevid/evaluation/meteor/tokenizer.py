"""Captions as the official evaluators tokenise them, without Java: raw sentences -> words joined by single spaces.

The official way joins all captions with line ends, replaces what is not ASCII, runs the Penn Treebank tokenizer over
the whole text and drops punctuation. Here nearly every word is tokenised once and remembered: the automaton of
`lexer` tells whether anything after a word could change its tokens, so remembering is exact, not a guess. The
few words that look past their end (numbers, single letters and abbreviations at the end of a caption) are scanned in
their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from densevid.evaluation.meteor.lexer import NEWLINE, automaton

PUNCTUATION = frozenset(
    ("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";")
)
_NOT_ONE_LINE_ASCII = re.compile(r"[^\x00-\x7f]|[\n\r\v\f]")
_REMEMBERED_WORDS = 500_000


def tokenise(sentences: Sequence[str]) -> list[str]:
    """What PTBTokenizer -preserveLines -lowerCase gives for these captions in this order, less punctuation.

    The order matters to a caption that ends in something like `vitamin A.`: the tokenizer looks at the first word of
    the next caption to decide whether the period belongs to the letter. `confident` tells which captions are like that.
    """
    lines = [_NOT_ONE_LINE_ASCII.sub(" ", sentence) for sentence in sentences]
    tokenised = [_from_words(line) for line in lines]
    index = 0
    while index < len(lines):
        index += 1
        if tokenised[index - 1] is None or index == len(lines):
            index = _scan_in_place(lines, tokenised, index - 1)
    return [text or "" for text in tokenised]


def confident(sentence: str) -> bool:
    """Whether the caption's tokens are the same whatever caption follows it."""
    return not automaton().scan(_NOT_ONE_LINE_ASCII.sub(" ", sentence) + NEWLINE).open_ended


class _KnownWords(dict[str, str | None]):
    """A word -> its tokens without punctuation when `after` follows it; None if it has to be seen in its place."""

    def __init__(self, after: str) -> None:
        super().__init__()
        self.after = after

    def __missing__(self, word: str) -> str | None:
        if len(self) >= _REMEMBERED_WORDS:
            self.clear()
        tokens, open_ended = automaton().scan(word + self.after)
        words = [token for token in tokens if token != NEWLINE]
        in_place = open_ended or not word.isprintable()  # control characters are trimmed at the end of a line only
        known = self[word] = None if in_place else _without_punctuation(words)
        return known


_inside = _KnownWords(after=" ")
_at_the_end = _KnownWords(after=NEWLINE)


def _from_words(line: str) -> str | None:
    """The caption from the tokens of its words, or None where a word has to be seen in its place."""
    *words, last = line.split(" ")
    parts = [_inside[word] for word in words]
    parts.append(_at_the_end[last])
    return None if None in parts else " ".join(filter(None, parts))


def _scan_in_place(lines: list[str], tokenised: list[str | None], first: int) -> int:
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
    tokenised[first:after] = [_without_punctuation(line.rstrip().split(" ")) for line in printed[: after - first]]
    return after


def _without_punctuation(tokens: Sequence[str]) -> str:
    words = " ".join(tokens).lower().split(" ")
    return " ".join(word for word in words if word not in PUNCTUATION)
