"""Distinct sentences as counted n-grams: the arrays that BLEU and CIDEr are computed from.

A sentence is its words (`str.split`, as the official scorers split); an n-gram is one whole number, the same for the
same words everywhere. `Sentences` holds, sentence after sentence, its distinct n-grams in rising order with counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from densevid.evaluation.files import Booleans, Floats, Integers

ORDERS = 4
ENTRIES_AT_ONCE = 2_000_000
LARGEST_TABLE = 4_000_000


@dataclass(frozen=True)
class Items:
    """I hypotheses, each with one or more references: P (item, reference) pairs in rising order of item."""

    hypothesis_I: Integers
    item_P: Integers
    reference_P: Integers

    @classmethod
    def single(cls, hypothesis_I: Integers, reference_I: Integers) -> Items:
        """One reference for each hypothesis."""
        return cls(hypothesis_I, np.arange(len(hypothesis_I)), reference_I)

    @property
    def hypothesis_P(self) -> Integers:
        """The hypothesis of each pair."""
        return self.hypothesis_I[self.item_P]

    @property
    def references_I(self) -> Integers:
        """How many references each item has."""
        return np.bincount(self.item_P, minlength=len(self.hypothesis_I))


@dataclass(frozen=True)
class Shared:
    """N-grams that pairs share: of which pair, which n-gram, how often on the left and on the right."""

    pair_M: Integers
    gram_M: Integers
    left_M: Integers
    right_M: Integers


@dataclass(frozen=True)
class Sentences:
    """S sentences. Entry k: the sentence `sentence_K[k]` has the n-gram `gram_K[k]`, `count_K[k]` times."""

    length_S: Integers
    first_S: Integers
    key_K: Integers
    sentence_K: Integers
    gram_K: Integers
    count_K: Integers
    order_G: Integers

    @property
    def grams(self) -> int:
        """The number of different n-grams."""
        return len(self.order_G)

    def entries(self, sentence_N: Integers) -> tuple[Integers, Integers]:
        """Every entry of every listed sentence: (which of the N, which entry)."""
        return ragged_ranges(self.first_S[sentence_N], self.entry_counts(sentence_N))

    def entry_counts(self, sentence_N: Integers) -> Integers:
        """How many entries each listed sentence has."""
        return np.asarray(self.first_S[sentence_N + 1] - self.first_S[sentence_N])

    def count(self, sentence_N: Integers, gram_N: Integers) -> Integers:
        """How often the n-gram occurs in the sentence, 0 where it does not."""
        place_N, found_N = find_sorted(self.key_K, sentence_N * self.grams + gram_N)
        return np.where(found_N, np.append(self.count_K, 0)[place_N], 0)

    def shared(self, left_N: Integers, right_N: Integers) -> Shared:
        """The n-grams that each of N pairs of sentences shares."""
        parts = []
        for block in blocks(self.entry_counts(left_N)):
            which, entry = self.entries(left_N[block])
            right = self.count(right_N[block][which], self.gram_K[entry])
            found = right > 0
            entry = entry[found]
            parts.append((which[found] + block.start, self.gram_K[entry], self.count_K[entry], right[found]))
        return Shared(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def index_sentences(texts: Sequence[str]) -> Sentences:
    """Count the n-grams of order 1 to 4 of each text."""
    word_W, length_S = word_numbers(texts)
    sentence_W, rank_W = ragged_ranges(np.zeros_like(length_S), length_S)
    vocabulary = int(word_W.max(initial=0)) + 1
    gram_W, total = word_W.copy(), 0
    sentence_parts, gram_parts, order_parts = [], [], []
    for order in range(1, ORDERS + 1):
        start = np.flatnonzero(length_S[sentence_W] - rank_W >= order)
        if order > 1:  # an n-gram is the one of one word less at the same place, and the word after it
            longer = gram_W[start] * vocabulary + word_W[start + order - 1]
            gram_W[start] = np.unique(longer, return_inverse=True)[1]
        different = int(gram_W[start].max(initial=-1)) + 1
        sentence_parts.append(sentence_W[start])
        gram_parts.append(gram_W[start] + total)
        order_parts.append(np.full(different, order))
        total += different
    return _counted(length_S, np.concatenate(sentence_parts), np.concatenate(gram_parts), np.concatenate(order_parts))


def word_numbers(texts: Sequence[str], separator: str | None = None) -> tuple[Integers, Integers]:
    """All words of all texts as numbers, one text after the other, and the length of each text."""
    words = " ".join(texts).split(separator) if texts else []
    number = {word: place for place, word in enumerate(dict.fromkeys(words))}
    word_W = np.fromiter(map(number.__getitem__, words), dtype=np.int64, count=len(words))
    return word_W, np.array([len(text.split(separator)) for text in texts], dtype=np.int64)


def ragged_ranges(first_N: Integers, number_N: Integers) -> tuple[Integers, Integers]:
    """`first .. first + number` of each of N, one after the other: (which of the N, value)."""
    which = np.repeat(np.arange(len(first_N)), number_N)
    rank = np.arange(len(which)) - np.repeat(np.cumsum(number_N) - number_N, number_N)
    return which, first_N[which] + rank


def find_sorted(keys_K: Integers, wanted_N: Integers) -> tuple[Integers, Booleans]:
    """Where each wanted key stands in rising keys, and whether it is there at all."""
    largest = int(keys_K[-1]) if len(keys_K) else -1
    if largest < LARGEST_TABLE:  # few different keys: look them up instead of searching
        table = np.full(largest + 2, len(keys_K))
        table[keys_K] = np.arange(len(keys_K))
        place_N = table[np.minimum(wanted_N, largest + 1)]
        return place_N, place_N < len(keys_K)
    place_N = np.searchsorted(keys_K, wanted_N)
    found_N = np.append(keys_K, -1)[place_N] == wanted_N
    return place_N, found_N


def sorted_unique(keys_N: Integers) -> Integers:
    """The different keys in rising order (by sorting: faster than numpy's hashing where most differ)."""
    keys_N = np.sort(keys_N)
    return keys_N[np.diff(keys_N, prepend=-1) > 0]


def blocks(size_N: Integers, limit: int = ENTRIES_AT_ONCE) -> list[slice]:
    """Slices of N whose sizes sum to about `limit`, so that memory stays small; at least one slice."""
    block_N = np.cumsum(size_N) // limit
    edges = [0, *(np.flatnonzero(np.diff(block_N)) + 1).tolist(), len(size_N)]
    return [slice(first, last) for first, last in pairwise(edges)]


def sums_by_group(values_N: Floats, group_N: Integers, groups: int) -> Floats:
    """Sum the numbers, or rows of numbers, that belong to the same group."""
    columns = [values_N] if values_N.ndim == 1 else values_N.T
    sums = np.stack([np.bincount(group_N, weights=column, minlength=groups) for column in columns], axis=1)
    return sums.astype(np.float64).reshape(groups, *values_N.shape[1:])  # numpy counts whole numbers where N is 0


def _counted(length_S: Integers, sentence_P: Integers, gram_P: Integers, order_G: Integers) -> Sentences:
    grams = max(len(order_G), 1)
    key_K, count_K = np.unique(sentence_P * grams + gram_P, return_counts=True)
    sentence_K, gram_K = np.divmod(key_K, grams)
    first_S = np.searchsorted(sentence_K, np.arange(len(length_S) + 1))
    return Sentences(length_S, first_S, key_K, sentence_K, gram_K, count_K, order_G)
