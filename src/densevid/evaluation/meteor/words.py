"""What METEOR knows about one word: function word or not, its stem, its WordNet synonym sets, and its hash.

METEOR compares words and stems by Java's 32-bit string hash, so two different words may count as the same; the hash
is kept here for that reason. The lists are read from METEOR's jar on first use.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

from densevid.evaluation.meteor.data import METEOR_JAR, jar_member
from densevid.evaluation.meteor.stemmer import stem

# Endings of inflected words and what stands there in the base form, tried in this order.
_BASE_FORMS = [
    ("s", ""),
    ("ses", "s"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
    ("es", "e"),
    ("es", ""),
    ("ed", "e"),
    ("ed", ""),
    ("ing", "e"),
    ("ing", ""),
    ("er", ""),
    ("est", ""),
    ("er", "e"),
    ("est", "e"),
]


class Word(NamedTuple):
    """The facts that the four matchers use."""

    key: int
    stem_key: int
    is_function: bool
    synsets: frozenset[str]


@lru_cache(maxsize=1 << 20)
def word_facts(word: str) -> Word:
    """Everything about one word, found once."""
    return Word(java_hash(word), java_hash(stem(word)), word in _function_words(), _synsets(word))


def java_hash(text: str) -> int:
    """String.hashCode: 31 * hash + character, over UTF-16 characters, in 32 bits."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + low + 256 * high) & 0xFFFFFFFF
    return value


def _synsets(word: str) -> frozenset[str]:
    """The synonym sets of the word itself and of its base forms."""
    of = _synsets_of_words()
    bases = _irregular_bases().get(word) or [_regular_base(word)]
    return frozenset(number for form in (word, *bases) for number in of.get(form, "").split())


def _regular_base(word: str) -> str:
    if word.endswith("ss") or len(word) <= 2:
        return word
    known = _synsets_of_words()
    for ending, replacement in _BASE_FORMS:
        if word.endswith(ending) and (base := word.removesuffix(ending) + replacement) in known:
            return base
    return ""


def _lines(member: str) -> list[str]:
    return jar_member(METEOR_JAR, member).decode("utf-8").splitlines()


@cache
def _function_words() -> frozenset[str]:
    return frozenset(_lines("function/english.words"))


@cache
def _synsets_of_words() -> dict[str, str]:
    """A word, then its set numbers, on alternate lines."""
    lines = _lines("synonym/english.synsets")
    return dict(zip(lines[::2], lines[1::2], strict=True))


@cache
def _irregular_bases() -> dict[str, list[str]]:
    """A base form, then its irregular inflections, on alternate lines."""
    lines = _lines("synonym/english.exceptions")
    bases: dict[str, list[str]] = {}
    for base, inflections in zip(lines[::2], lines[1::2], strict=True):
        for inflected in inflections.split():
            bases.setdefault(inflected, []).append(base)
    return bases
