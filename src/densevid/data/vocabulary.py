"""Sentences and the words in them, by rules of our own that are good enough for captions in languages with spaces.

Words and their ids: sentences become ids for training, ids become sentences after decoding.

Built from training captions alone. On disk it is `vocabulary.txt`: one token a line, in the order of the ids, the four
special tokens first.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from densevid.errors import InputError
from densevid.io import read_json, write_text

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


SPECIAL_TOKENS = ("<unk>", "<pad>", "<init>", "<eos>")
UNKNOWN, PAD, INIT, EOS = range(4)


@dataclass(frozen=True)
class Vocabulary:
    """All tokens in the order of their ids; the first four are special, whatever they are called."""

    tokens: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) <= len(SPECIAL_TOKENS):
            raise InputError(
                f"a vocabulary has four special tokens and words after them, got {len(self.tokens)} in all"
            )

    @classmethod
    def build(cls, sentences: Iterable[str], min_count: int) -> Vocabulary:
        """The words that occur often enough, the most frequent first, equally frequent ones in alphabetical order."""
        counts = Counter(token for sentence in sentences for token in tokenize(sentence))
        words = [word for word, count in counts.items() if count >= min_count]
        if not words:
            raise InputError(
                f"no word occurs {min_count} times in the training captions; lower features.min_word_count"
            )
        return cls((*SPECIAL_TOKENS, *sorted(words, key=lambda word: (-counts[word], word))))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in reversed(list(enumerate(self.tokens)))}

    def encode(self, sentence: str, max_words: int) -> list[int]:
        """`<init>`, the words, `<eos>`: at most `max_words` tokens after `<init>`, `<eos>` among them.

        That is as many as a decoder of `max_words` steps can say; a longer sentence is cut and still ends in `<eos>`.
        """
        words = [self._ids.get(token, UNKNOWN) for token in tokenize(sentence)]
        return [INIT, *words[: max_words - 1], EOS]

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence up to the first `<eos>`, without special tokens."""
        said = takewhile(lambda number: number != EOS, ids)
        return detokenize(self.tokens[number] for number in said if number >= len(SPECIAL_TOKENS))

    def decode_released(self, ids: Iterable[int]) -> str:
        """The release's rule: join all words, then delete every ` <eos>`, ` <pad>` and ` .`; nothing ends it early."""
        text = " ".join(self.tokens[number] for number in ids)
        for deleted in (" <eos>", " <pad>", " ."):
            text = text.replace(deleted, "")
        return text

    def save(self, path: Path | str) -> None:
        """Write one token a line."""
        if broken := [token for token in self.tokens if "\n" in token or "\r" in token or not token]:
            raise InputError(f"the token {broken[0]!r} cannot stand on a line of {path}")
        write_text(path, "".join(f"{token}\n" for token in self.tokens))

    @classmethod
    def load(cls, path: Path | str) -> Vocabulary:
        """Read what `save` wrote."""
        vocabulary = _vocabulary(path, _lines(path, _text(path)))
        if vocabulary.tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
            raise InputError(f"{path}: a vocabulary begins with {' '.join(SPECIAL_TOKENS)}, one a line")
        return vocabulary


def read_word_list(path: Path | str) -> Vocabulary:
    """Read a word list that came with somebody's weights, word for word: a JSON list, or one word a line."""
    text = _text(path)
    if not re.match(r'\s*\[\s*["\]\d\[{-]', text):
        return _vocabulary(path, _lines(path, text))
    words = read_json(path)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(f"{path}: a word list in JSON is a list of words, in the order of their ids")
    return _vocabulary(path, tuple(words))


def _vocabulary(path: Path | str, tokens: tuple[str, ...]) -> Vocabulary:
    try:
        return Vocabulary(tokens)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _text(path: Path | str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable word list ({error})") from error


def _lines(path: Path | str, text: str) -> tuple[str, ...]:
    """The lines of a word list; not by `splitlines`, which also cuts at odd separators inside a word."""
    lines = text.rstrip("\n").split("\n")
    if "" in lines:
        raise InputError(f"{path}: line {lines.index('') + 1} is empty; a word list has one word a line")
    return tuple(lines)
