"""How many words of a sentence a person wrote too: METEOR's formula over equal words, a reward that needs no tables.

F = P R / (.85 P + .15 R) of the m words that hypothesis and reference share, so that saying more of what people say
counts more than saying little that is certain, times 1 - .6 (chunks / m)^.2, where a chunk is a stretch of words in the
same order. METEOR itself also matches stems, synonyms and paraphrases; of several references the best counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from densevid.inference.likeness import ALPHA, BETA, GAMMA
from densevid.training.cider import Words


class WordMatches:
    """Scores sentences against documents; a document is all the references of one segment."""

    def __init__(self, documents: Sequence[Sequence[Words]]) -> None:
        self._documents = documents
        self._counted = lru_cache(maxsize=50_000)(_counted)

    def score(self, words: Words, document: int) -> float:
        """One sentence against the reference of a document that fits it best."""
        said = _counted(words)
        return max(_similarity(said, self._counted(told)) for told in self._documents[document])

    def scores(self, sentences: Sequence[Words], documents: Sequence[int]) -> npt.NDArray[np.float64]:
        """Each sentence against its own document."""
        return np.array([self.score(words, number) for words, number in zip(sentences, documents, strict=True)])


_Counted = tuple[Counter[str], Counter[tuple[str, str]], int]


def _counted(words: Words) -> _Counted:
    return Counter(words), Counter(pairwise(words)), len(words)


def _similarity(said: _Counted, told: _Counted) -> float:
    matched = sum(min(count, told[0][word]) for word, count in said[0].items() if word in told[0])
    if not matched:
        return 0.0
    joined = sum(min(count, told[1][pair]) for pair, count in said[1].items() if pair in told[1])
    chunks = max(1, matched - joined)
    precision, recall = matched / said[2], matched / told[2]
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return mean * (1 - GAMMA * (chunks / matched) ** BETA)
