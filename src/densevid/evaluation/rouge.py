"""ROUGE-L as pycocoevalcap computes it: longest common subsequences of many pairs at once, beta 1.2.

Words are split at single spaces, so an empty sentence is ONE empty word here (and equals another empty sentence).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from densevid.evaluation.ngrams import Items, blocks, word_numbers
from densevid.evaluation.rows import Floats, Integers

BETA_SQUARED = 1.2**2
CELLS_AT_ONCE = 4_000_000


def rouge_scores(texts: Sequence[str], items: Items) -> Floats:
    """One score an item: the best precision and the best recall over its references, each maximum on its own."""
    word_W, length_S = word_numbers([text.split(" ") for text in texts])
    first_S = np.cumsum(length_S) - length_S
    common_P = _common_lengths(word_W, first_S, length_S, items.hypothesis_P, items.reference_P)
    precision, recall = np.zeros(len(items.hypothesis_I)), np.zeros(len(items.hypothesis_I))
    np.maximum.at(precision, items.item_P, common_P / length_S[items.hypothesis_P])
    np.maximum.at(recall, items.item_P, common_P / length_S[items.reference_P])
    weighted = recall + BETA_SQUARED * precision
    harmonic = (1 + BETA_SQUARED) * precision * recall
    return np.divide(harmonic, weighted, out=np.zeros_like(weighted), where=(precision > 0) & (recall > 0))


def _common_lengths(
    word_W: Integers, first_S: Integers, length_S: Integers, left_P: Integers, right_P: Integers
) -> Integers:
    """The longest common subsequence of each pair; pairs of like size are taken together."""
    order = np.lexsort((length_S[left_P], length_S[right_P]))
    common_P = np.zeros(len(order), dtype=np.int64)
    for block in blocks(length_S[right_P[order]] * 8, CELLS_AT_ONCE):
        chosen = order[block]
        if len(chosen):
            left = _padded(word_W, first_S, length_S, left_P[chosen], fill=-1)
            right = _padded(word_W, first_S, length_S, right_P[chosen], fill=-2)
            common_P[chosen] = _longest_common(left, right)
    return common_P


def _longest_common(left_NL: Integers, right_NR: Integers) -> Integers:
    """One row of the usual table at a time, for all N pairs: a row only grows, so its maximum so far fills it."""
    row_NR = np.zeros((len(right_NR), right_NR.shape[1] + 1), dtype=np.int32)
    for word_N1 in np.split(left_NL, left_NL.shape[1], axis=1):
        matched = row_NR[:, :-1] + (right_NR == word_N1)
        np.maximum.accumulate(np.maximum(row_NR[:, 1:], matched), axis=1, out=row_NR[:, 1:])
    return row_NR[:, -1].astype(np.int64)


def _padded(word_W: Integers, first_S: Integers, length_S: Integers, sentence_N: Integers, fill: int) -> Integers:
    """Sentences as rows of equal length; the filler equals no word."""
    place = np.arange(int(length_S[sentence_N].max()))
    inside = place < length_S[sentence_N][:, None]
    words = word_W[np.minimum(first_S[sentence_N][:, None] + place, len(word_W) - 1)]
    return np.where(inside, words, fill)
