"""Tokenisation and the vocabulary: sentences become token ids for training, and token ids become sentences.

`tokenize` splits captions in languages with spaces into lower-case words, and `detokenize` joins them. `Vocabulary` is
built from training captions alone; on disk it is `vocabulary.txt`, one token per line in the order of the ids, the four
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

# In this order: a number with . , : inside; a clitic that is a word already; a word with ' or - inside.
_WORD = re.compile(rf"\d+(?:[.,:]\d+)+|(?<!\S)(?:{'|'.join(CLITICS)})(?!\S)|[^\s.,:'-]+(?:['-][^\s.,:'-]+)*")
_APOSTROPHES = str.maketrans(dict.fromkeys("’´`", "'"))


class _Separators(dict[int, str | int]):
    """A translation table that keeps letters, digits, marks and '-.,: and maps other characters to a space."""

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        kept = character in "'-.,:" or unicodedata.category(character)[0] in "LNM"
        self[code] = code if kept else " "
        return self[code]


_SEPARATORS = _Separators()


def tokenize(sentence: str) -> list[str]:
    """Split a sentence into lower-case words; clitics are split off (`do n't`, `man 's`), punctuation is dropped."""
    text = unicodedata.normalize("NFKC", sentence.translate(_APOSTROPHES)).lower().translate(_SEPARATORS)
    words = [word for word in _WORD.findall(text) if any(map(str.isalnum, word))]
    return [token for word in words for token in _without_clitics(word)]


def grams(words: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """All n-grams of `order` words, with repetitions."""
    return [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]


def detokenize(tokens: Iterable[str]) -> str:
    """Join words to a sentence; a clitic is attached to the word before it."""
    words: list[str] = []
    for token in tokens:
        if token in CLITICS and words and words[-1] not in CLITICS:
            words[-1] += token
        else:
            words.append(token)
    return " ".join(words)


def _without_clitics(word: str) -> list[str]:
    """Split the clitics off the end of a word."""
    clitics: list[str] = []
    while word.endswith(CLITICS) and word not in CLITICS:
        clitics.append(next(clitic for clitic in CLITICS if word.endswith(clitic)))
        word = word.removesuffix(clitics[-1])
    return [word, *reversed(clitics)]


SPECIAL_TOKENS = ("<unk>", "<pad>", "<init>", "<eos>")
UNKNOWN, PAD, INIT, EOS = range(4)


@dataclass(frozen=True)
class Vocabulary:
    """Maps tokens to ids and back.

    Attributes:
        tokens: All tokens in the order of their ids; the first four are special, whatever their names.

    Raises:
        InputError: There are no words after the special tokens.
    """

    tokens: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) <= len(SPECIAL_TOKENS):
            raise InputError(
                f"a vocabulary has four special tokens and words after them, got {len(self.tokens)} in all"
            )

    @classmethod
    def build(
        cls, sentences: Iterable[str], min_count: int, styles: Sequence[str] = (), always: Iterable[str] = ()
    ) -> Vocabulary:
        """Build a vocabulary from captions.

        Args:
            sentences: The training captions.
            min_count: Words that occur less often become `<unk>`.
            styles: Names of collections whose sentences begin with a token of their own; these come last.
            always: Sentences whose words are known however rare they are.

        Returns:
            The vocabulary, the most frequent word first, words of equal frequency in alphabetical order.

        Raises:
            InputError: No word occurs that often.
        """
        counts = Counter(token for sentence in sentences for token in tokenize(sentence))
        words = [word for word, count in counts.items() if count >= min_count]
        if words:
            words += sorted({token for text in always for token in tokenize(text) if counts[token] < min_count})
        else:
            raise InputError(
                f"no word occurs {min_count} times in the training captions; lower features.min_word_count"
            )
        by_count = sorted(words, key=lambda word: (-counts[word], word))
        return cls((*SPECIAL_TOKENS, *by_count, *(f"<{style}>" for style in styles)))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in reversed(list(enumerate(self.tokens)))}

    @cached_property
    def styles(self) -> dict[str, int]:
        """The id of each style token, by the name of its collection. No word has angle brackets."""
        own = enumerate(self.tokens[len(SPECIAL_TOKENS) :], start=len(SPECIAL_TOKENS))
        return {token[1:-1]: number for number, token in own if token[0] == "<" and token[-1] == ">" and token[1:-1]}

    def encode(self, sentence: str, max_words: int, style: str | None = None) -> list[int]:
        """Encode a sentence as `<init>`, words, `<eos>`.

        Args:
            sentence: The sentence.
            max_words: Tokens after `<init>` at most, `<eos>` included: what a decoder of `max_words` steps can
                generate. Longer sentences are cut and still end in `<eos>`.
            style: The collection whose style token stands in place of `<init>`.

        Returns:
            The token ids.
        """
        words = [self._ids.get(token, UNKNOWN) for token in tokenize(sentence)]
        return [INIT if style is None else self.styles[style], *words[: max_words - 1], EOS]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids up to the first `<eos>`, without special tokens."""
        words = takewhile(lambda number: number != EOS, ids)
        return detokenize(self.tokens[number] for number in words if number >= len(SPECIAL_TOKENS))

    def decode_released(self, ids: Iterable[int]) -> str:
        """Decode as the release does: join all tokens, then delete every ` <eos>`, ` <pad>` and ` .`."""
        text = " ".join(self.tokens[number] for number in ids)
        for deleted in (" <eos>", " <pad>", " ."):
            text = text.replace(deleted, "")
        return text

    def save(self, path: Path | str) -> None:
        """Write one token per line.

        Raises:
            InputError: A token contains a line break, or the file cannot be written.
        """
        if broken := [token for token in self.tokens if "\n" in token or "\r" in token or not token]:
            raise InputError(f"the token {broken[0]!r} cannot stand on a line of {path}")
        write_text(path, "".join(f"{token}\n" for token in self.tokens))

    @classmethod
    def load(cls, path: Path | str) -> Vocabulary:
        """Read a file that `save` has written.

        Raises:
            InputError: The file cannot be read or does not begin with the special tokens.
        """
        vocabulary = _vocabulary(path, _lines(path, _text(path)))
        if vocabulary.tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
            raise InputError(f"{path}: a vocabulary begins with {' '.join(SPECIAL_TOKENS)}, one a line")
        return vocabulary


def read_word_list(path: Path | str) -> Vocabulary:
    """Read the word list of released weights: a JSON list, or one word per line, in the order of the ids.

    Raises:
        InputError: The file is neither.
    """
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
    """The lines of a word list; `splitlines` would also split at other separators, which can be part of a word."""
    lines = text.rstrip("\n").split("\n")
    if "" in lines:
        raise InputError(f"{path}: line {lines.index('') + 1} is empty; a word list has one word a line")
    return tuple(lines)
