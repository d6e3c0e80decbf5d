"""Sentences and the words in them, by rules of our own that are good enough for captions in languages with spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

CLITICS = ("n't", "'s", "'m", "'d", "'re", "'ve", "'ll")

# In this order: a number with . , : inside; a clitic that already stands alone; a word with ' or - inside.
_WORD = re.compile(rf"\d+(?:[.,:]\d+)+|(?<!\S)(?:{'|'.join(CLITICS)})(?!\S)|[^\s.,:'-]+(?:['-][^\s.,:'-]+)*")
_APOSTROPHES = str.maketrans(dict.fromkeys("’´`", "'"))


class _Separators(dict[int, str | int]):
    """A translation that keeps letters, digits and marks, and what `_WORD` looks at; all else becomes a space."""

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        kept = character in "'-.,:" or unicodedata.category(character)[0] in "LNM"
        self[code] = code if kept else " "
        return self[code]


_SEPARATORS = _Separators()


def tokenize(sentence: str) -> list[str]:
    """Lower-case words; clitics stand alone (`do n't`, `man 's`), punctuation and symbols are dropped."""
    text = unicodedata.normalize("NFKC", sentence.translate(_APOSTROPHES)).lower().translate(_SEPARATORS)
    words = [word for word in _WORD.findall(text) if any(map(str.isalnum, word))]
    return [token for word in words for token in _without_clitics(word)]


def grams(words: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """All runs of `order` words, as often as they occur."""
    return [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]


def detokenize(tokens: Iterable[str]) -> str:
    """Words as people write them: a clitic joins the word before it."""
    words: list[str] = []
    for token in tokens:
        if token in CLITICS and words and words[-1] not in CLITICS:
            words[-1] += token
        else:
            words.append(token)
    return " ".join(words)


def _without_clitics(word: str) -> list[str]:
    """A word and the clitics at its end, each by itself."""
    clitics: list[str] = []
    while word.endswith(CLITICS) and word not in CLITICS:
        clitics.append(next(clitic for clitic in CLITICS if word.endswith(clitic)))
        word = word.removesuffix(clitics[-1])
    return [word, *reversed(clitics)]
