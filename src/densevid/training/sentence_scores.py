"""Scores of sentences that are fast enough for a reward: CIDEr-D, and METEOR's formula on equal words.

A document is all the references of one segment. Both need numpy alone. CIDEr-D is the formula of `densevid.evaluation`
(`cider_d`) on n-grams that are counted here: its `Cider` indexes all sentences together, which would take longer than a
training step for a few new ones beside the references of a whole dataset. METEOR there also matches stems, synonyms and
paraphrases.
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
from densevid.evaluation.metrics.cider import cider_d
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
    """A sentence as weighted n-grams, their norm for each order, and its number of bigrams."""

    grams: dict[Words, float]
    norms: tuple[float, ...]
    bigrams: int


class Cider(SentenceScorer):
    """CIDEr-D, with document frequencies of these documents; the mean over the references of a document."""

    def __init__(self, documents: Sequence[Sequence[Words]]) -> None:
        super().__init__(documents)
        inside = ({gram for words in document for gram in _all_grams(words)} for document in documents)
        frequency = Counter(gram for found in inside for gram in found)
        self._log_frequency = {gram: math.log(count) for gram, count in frequency.items()}
        self._log_size = math.log(max(1, len(documents)))
        self._weighted = lru_cache(maxsize=CACHED_REFERENCES)(self._weigh)

    def score(self, words: Words, document: int) -> float:
        """One sentence against all references of a document."""
        return float(self.scores([words], [document])[0])

    def scores(self, sentences: Sequence[Words], documents: Sequence[int]) -> npt.NDArray[np.float64]:
        """The score of each sentence against its own document."""
        references = [self._documents[document] for document in documents]
        count_S = np.array([len(document) for document in references], dtype=np.int64)
        ours = [self._weigh(words) for words in sentences]
        pairs = [
            (sentence, self._weighted(words))
            for sentence, document in zip(ours, references, strict=True)
            for words in document
        ]
        shared = [
            (pair * ORDERS + len(gram) - 1, weight, theirs.grams[gram])
            for pair, (sentence, theirs) in enumerate(pairs)
            for gram, weight in sentence.grams.items()
            if gram in theirs.grams
        ]
        cell_M, left_M, right_M = np.array(shared, dtype=np.float64).reshape(-1, 3).T
        norm_PO = np.array([sentence.norms for sentence, _ in pairs]) * np.array([theirs.norms for _, theirs in pairs])
        bigrams_P = np.array([sentence.bigrams - theirs.bigrams for sentence, theirs in pairs], dtype=np.int64)
        score_P = cider_d(cell_M.astype(np.int64), left_M, right_M, norm_PO.reshape(-1, ORDERS), bigrams_P)
        sentence_P = np.repeat(np.arange(len(sentences)), count_S)
        return np.bincount(sentence_P, weights=score_P, minlength=len(sentences)) / count_S

    def _weigh(self, words: Words) -> _Weighted:
        weights: dict[Words, float] = {}
        squares = [0.0] * ORDERS
        for gram, count in Counter(_all_grams(words)).items():
            weights[gram] = weight = count * (self._log_size - self._log_frequency.get(gram, 0.0))
            squares[len(gram) - 1] += weight**2
        return _Weighted(weights, tuple(map(math.sqrt, squares)), max(0, len(words) - 1))


def _all_grams(words: Words) -> list[Words]:
    """All n-grams of order 1 to 4."""
    return [gram for order in range(1, ORDERS + 1) for gram in grams(words, order)]


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
