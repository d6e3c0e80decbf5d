"""CIDEr-D of sentences against the references of one corpus: a reward and a validation score that need nothing else.

c_n(a, b) = sum_w min(g_a(w), g_b(w)) g_b(w) / (|g_a| |g_b|) over the n-grams w, g the counts times log(N / df(w)), df
the number of documents that have w; the score is 10 times the mean over n = 1..4 and over the references, each damped
by exp(-(bigrams_a - bigrams_b)^2 / (2 6^2)). The same numbers as the evaluator's, on the same words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from densevid.data.vocabulary import grams

Words = tuple[str, ...]
ORDERS = 4
SIGMA = 6.0


@dataclass(frozen=True)
class _Weighted:
    """A sentence as weighted n-grams, one mapping and one norm per order, and its number of bigrams."""

    grams: tuple[dict[Words, float], ...]
    norms: tuple[float, ...]
    bigrams: int


class Cider:
    """Scores sentences against documents; a document is all the references of one segment."""

    def __init__(self, documents: Sequence[Sequence[Words]]) -> None:
        self._documents = documents
        inside = ({gram for words in document for gram in _grams(words)} for document in documents)
        seen = Counter(gram for grams in inside for gram in grams)
        self._log_frequency = {gram: math.log(count) for gram, count in seen.items()}
        self._log_size = math.log(max(1, len(documents)))
        self._weighted = lru_cache(maxsize=50_000)(self._weigh)

    def score(self, words: Words, document: int) -> float:
        """One sentence against all references of a document."""
        said = self._weigh(words)
        return float(np.mean([_similarity(said, self._weighted(told)) for told in self._documents[document]]))

    def scores(self, sentences: Sequence[Words], documents: Sequence[int]) -> npt.NDArray[np.float64]:
        """Each sentence against its own document."""
        return np.array([self.score(words, number) for words, number in zip(sentences, documents, strict=True)])

    def _weigh(self, words: Words) -> _Weighted:
        grams: tuple[dict[Words, float], ...] = tuple({} for _ in range(ORDERS))
        for gram, count in Counter(_grams(words)).items():
            grams[len(gram) - 1][gram] = count * (self._log_size - self._log_frequency.get(gram, 0.0))
        norms = tuple(math.sqrt(sum(weight**2 for weight in order.values())) for order in grams)
        return _Weighted(grams, norms, max(0, len(words) - 1))


def _grams(words: Words) -> list[Words]:
    """All n-grams of order 1 to 4."""
    return [gram for order in range(1, ORDERS + 1) for gram in grams(words, order)]


def _similarity(said: _Weighted, told: _Weighted) -> float:
    cosines = 0.0
    for ours, theirs, our_norm, their_norm in zip(said.grams, told.grams, said.norms, told.norms, strict=True):
        if our_norm > 0 and their_norm > 0:
            shared = sum(min(weight, theirs[gram]) * theirs[gram] for gram, weight in ours.items() if gram in theirs)
            cosines += shared / (our_norm * their_norm)
    return 10 * cosines / ORDERS * math.exp(-((said.bigrams - told.bigrams) ** 2) / (2 * SIGMA**2))
