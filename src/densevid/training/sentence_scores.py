"""Scores of sentences that are fast enough for a reward: CIDEr-D, and METEOR's formula on equal words.

A document is all the references of one segment. Both need Python alone; `densevid.evaluation` scores finished
predictions (its CIDEr gives the same numbers on the same words, its METEOR also matches stems, synonyms and
paraphrases).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from densevid.data.vocabulary import grams
from densevid.evaluation.metrics.cider import SIGMA
from densevid.evaluation.metrics.ngrams import ORDERS
from densevid.inference.reranking import ALPHA, BETA, GAMMA

Words = tuple[str, ...]
CACHED_REFERENCES = 50_000


class SentenceScorer(ABC):
    """Scores sentences against documents.

    Args:
        documents: The references of each segment, as words.
    """

    def __init__(self, documents: Sequence[Sequence[Words]]) -> None:
        self._documents = documents

    @abstractmethod
    def score(self, words: Words, document: int) -> float:
        """The score of one sentence against a document."""

    def scores(self, sentences: Sequence[Words], documents: Sequence[int]) -> npt.NDArray[np.float64]:
        """The score of each sentence against its own document."""
        return np.array([self.score(words, number) for words, number in zip(sentences, documents, strict=True)])


@dataclass(frozen=True)
class _Weighted:
    """A sentence as weighted n-grams, one mapping and one norm per order, and its number of bigrams."""

    grams: tuple[dict[Words, float], ...]
    norms: tuple[float, ...]
    bigrams: int


class Cider(SentenceScorer):
    """CIDEr-D, with document frequencies of these documents.

    c_n(a, b) = sum_w min(g_a(w), g_b(w)) g_b(w) / (|g_a| |g_b|) over the n-grams w, g the counts times log(N / df(w)),
    df the number of documents that have w; the score is 10 times the mean over n = 1..4 and over the references, each
    damped by exp(-(bigrams_a - bigrams_b)^2 / (2 6^2)).
    """

    def __init__(self, documents: Sequence[Sequence[Words]]) -> None:
        super().__init__(documents)
        inside = ({gram for words in document for gram in _all_grams(words)} for document in documents)
        frequency = Counter(gram for found in inside for gram in found)
        self._log_frequency = {gram: math.log(count) for gram, count in frequency.items()}
        self._log_size = math.log(max(1, len(documents)))
        self._weighted = lru_cache(maxsize=CACHED_REFERENCES)(self._weigh)

    def score(self, words: Words, document: int) -> float:
        """One sentence against all references of a document."""
        ours = self._weigh(words)
        return float(np.mean([_cosine(ours, self._weighted(reference)) for reference in self._documents[document]]))

    def _weigh(self, words: Words) -> _Weighted:
        weights: tuple[dict[Words, float], ...] = tuple({} for _ in range(ORDERS))
        for gram, count in Counter(_all_grams(words)).items():
            weights[len(gram) - 1][gram] = count * (self._log_size - self._log_frequency.get(gram, 0.0))
        norms = tuple(math.sqrt(sum(weight**2 for weight in order.values())) for order in weights)
        return _Weighted(weights, norms, max(0, len(words) - 1))


def _all_grams(words: Words) -> list[Words]:
    """All n-grams of order 1 to 4."""
    return [gram for order in range(1, ORDERS + 1) for gram in grams(words, order)]


def _cosine(sentence: _Weighted, reference: _Weighted) -> float:
    total = 0.0
    orders = zip(sentence.grams, reference.grams, sentence.norms, reference.norms, strict=True)
    for ours, theirs, our_norm, their_norm in orders:
        if our_norm > 0 and their_norm > 0:
            shared = sum(min(weight, theirs[gram]) * theirs[gram] for gram, weight in ours.items() if gram in theirs)
            total += shared / (our_norm * their_norm)
    return 10 * total / ORDERS * math.exp(-((sentence.bigrams - reference.bigrams) ** 2) / (2 * SIGMA**2))


_Counted = tuple[Counter[str], Counter[tuple[str, str]], int]


class WordMatches(SentenceScorer):
    """METEOR's formula on equal words alone.

    F = P R / (.85 P + .15 R) of the m words that sentence and reference share, so that a sentence with more of the
    references' words scores higher than a short safe one, times 1 - .6 (chunks / m)^.2, where a chunk is a run of words
    in the same order. Of several references the best counts.
    """

    def __init__(self, documents: Sequence[Sequence[Words]]) -> None:
        super().__init__(documents)
        self._counted = lru_cache(maxsize=CACHED_REFERENCES)(_counted)

    def score(self, words: Words, document: int) -> float:
        """One sentence against the reference of a document that fits it best."""
        ours = _counted(words)
        return max(_f_score(ours, self._counted(reference)) for reference in self._documents[document])


def _counted(words: Words) -> _Counted:
    return Counter(words), Counter(pairwise(words)), len(words)


def _f_score(sentence: _Counted, reference: _Counted) -> float:
    matched = sum(min(count, reference[0][word]) for word, count in sentence[0].items() if word in reference[0])
    if not matched:
        return 0.0
    joined = sum(min(count, reference[1][pair]) for pair, count in sentence[1].items() if pair in reference[1])
    chunks = max(1, matched - joined)
    precision, recall = matched / sentence[2], matched / reference[2]
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return mean * (1 - GAMMA * (chunks / matched) ** BETA)
