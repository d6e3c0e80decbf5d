"""The content words of a sentence, and how many annotators used each: by exact word, stem or WordNet synonym.

Words, stems, synonyms and function words are METEOR's (`meteor.resources`). METEOR's paraphrase table is not used: many
of its pairs do not mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from densevid.evaluation.meteor.normalizer import words_of
from densevid.evaluation.meteor.resources import word_facts
from densevid.language.words import GENERIC

ENOUGH_ANNOTATORS = 2

_NEGATION = re.compile(r"n't\b")
_Keys = frozenset[tuple[int, int | str]]
_EXACT, _STEM, _SYNSET = range(3)


@lru_cache(maxsize=1 << 16)
def tokens(sentence: str) -> tuple[str, ...]:
    """The words of a sentence as METEOR compares them, in lower case and without punctuation."""
    text = _NEGATION.sub(" not", sentence.lower().replace("can't", "can not"))
    return tuple(word for word in words_of(text) if any(letter.isalnum() for letter in word))


def is_content_word(word: str) -> bool:
    """Whether a word describes a video: no function word of METEOR, no clitic, and not in `GENERIC`."""
    return not (word.startswith("'") or word in GENERIC or word_facts(word).is_function)


def content_words(sentence: str) -> list[str]:
    """The content words of a sentence, each once, in order.

    Example:
        >>> content_words("Two people are doing a thing: they cut the red onions.")
        ['cut', 'red', 'onions']
    """
    return list(dict.fromkeys(word for word in tokens(sentence) if is_content_word(word)))


class AnnotatorWords:
    """The words of the annotators of one segment.

    Args:
        sentences: One sentence an annotator.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self.annotators = len(sentences)
        self._used: list[_Keys] = [_keys_of(tokens(sentence)) for sentence in sentences]

    def users(self, word: str) -> int:
        """The number of annotators who used the word, its stem or a synonym."""
        wanted = _keys(word)
        return sum(not wanted.isdisjoint(used) for used in self._used)

    def supported(self, sentence: str, enough: int = ENOUGH_ANNOTATORS) -> list[bool]:
        """For each content word of the sentence, whether enough annotators used it."""
        return [self.users(word) >= enough for word in content_words(sentence)]


def _keys_of(words: Iterable[str]) -> _Keys:
    return frozenset(key for word in words for key in _keys(word))


@lru_cache(maxsize=1 << 16)
def _keys(word: str) -> _Keys:
    """Two words match if they share a key: that of the word, of its stem, or of a synonym set."""
    facts = word_facts(word)
    return frozenset({(_EXACT, facts.key), (_STEM, facts.stem_key), *((_SYNSET, number) for number in facts.synsets)})
