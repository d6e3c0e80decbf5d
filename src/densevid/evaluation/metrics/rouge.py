"""ROUGE-L as pycocoevalcap computes it: longest common subsequences of many pairs at once, beta 1.2.

Words are split at single spaces, so an empty sentence is ONE empty word here (and equals another empty sentence).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from densevid.evaluation.files import Floats, Integers
from densevid.evaluation.metrics.ngrams import Items, blocks, word_numbers

BETA_SQUARED = 1.2**2
WORDS_AT_ONCE = 20_000  # so that a row stays in the processor's cache


def rouge_scores(texts: Sequence[str], items: Items) -> Floats:
    """One score an item: the best precision and the best recall over its references, each maximum on its own."""
    word_W, length_S = word_numbers(texts, separator=" ")
    words = _Words(word_W, np.cumsum(length_S) - length_S, length_S)
    common_P = _common_lengths(words, items.hypothesis_P, items.reference_P)
    precision, recall = np.zeros(len(items.hypothesis_I)), np.zeros(len(items.hypothesis_I))
    np.maximum.at(precision, items.item_P, common_P / length_S[items.hypothesis_P])
    np.maximum.at(recall, items.item_P, common_P / length_S[items.reference_P])
    weighted = recall + BETA_SQUARED * precision
    harmonic = (1 + BETA_SQUARED) * precision * recall
    scores = np.divide(harmonic, weighted, out=np.zeros_like(weighted), where=(precision > 0) & (recall > 0))
    return np.asarray(scores)


@dataclass(frozen=True)
class _Words:
    """The words of each text as numbers."""

    word_W: Integers
    first_S: Integers
    length_S: Integers

    def padded(self, text_N: Integers, filler: int) -> NDArray[np.int32]:
        """L x N: texts as columns of equal length; the filler equals no word."""
        place_L1 = np.arange(int(self.length_S[text_N].max()))[:, None]
        words_LN = self.word_W[np.minimum(self.first_S[text_N] + place_L1, len(self.word_W) - 1)]
        return np.where(place_L1 < self.length_S[text_N], words_LN, filler).astype(np.int32)


def _common_lengths(words: _Words, left_P: Integers, right_P: Integers) -> Integers:
    """The longest common subsequence of each pair; pairs of like size are taken together."""
    left_length, right_length = words.length_S[left_P], words.length_S[right_P]
    order = np.lexsort((right_length, left_length))
    common_P = np.zeros(len(order), dtype=np.int64)
    for block in blocks(right_length[order], WORDS_AT_ONCE):
        chosen = order[block]
        if len(chosen):
            left_LN, right_RN = words.padded(left_P[chosen], filler=-1), words.padded(right_P[chosen], filler=-2)
            common_P[chosen] = _longest_common(left_LN, right_RN)
    return common_P


def _longest_common(left_LN: NDArray[np.int32], right_RN: NDArray[np.int32]) -> Integers:
    """One row of the usual table at a time, for all N pairs: a row only grows, so its maximum so far fills it."""
    row_RN = np.zeros((len(right_RN) + 1, right_RN.shape[1]), dtype=np.int32)
    for word_N in left_LN:
        matched_RN = row_RN[:-1] + (right_RN == word_N)
        np.maximum.accumulate(np.maximum(row_RN[1:], matched_RN, out=matched_RN), axis=0, out=row_RN[1:])
    return np.asarray(row_RN[-1], dtype=np.int64)
