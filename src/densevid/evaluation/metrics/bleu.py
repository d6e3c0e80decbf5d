"""BLEU-1 to 4 as pycocoevalcap counts it: sums of ten numbers a segment, then one closed form of the sums."""

from __future__ import annotations

import numpy as np

from densevid.evaluation.files import Floats, Integers
from densevid.evaluation.metrics.ngrams import ORDERS, Items, Sentences, Shared, sorted_unique

NAMES = tuple(f"Bleu_{order}" for order in range(1, ORDERS + 1))
TINY, SMALL = 1e-15, 1e-9  # the official guards against division by zero; they make 0 and 1 unreachable
COMPONENTS = 2 + 2 * ORDERS


def bleu_components(sentences: Sentences, items: Items, shared: Shared) -> Floats:
    """I x 10: hypothesis length, closest reference length, n-grams offered (4), n-grams found in a reference (4)."""
    length_I = sentences.length_S[items.hypothesis_I]
    offered_I4 = np.maximum(length_I[:, None] - np.arange(ORDERS), 0)
    columns = (
        length_I[:, None],
        _closest_length(sentences, items)[:, None],
        offered_I4,
        _found(sentences, items, shared),
    )
    return np.concatenate(columns, axis=1).astype(np.float64)


def bleu_scores(sums_K10: Floats) -> Floats:
    """K x 4 scores of summed components: the geometric mean of precisions, times exp(1 - 1/ratio) if too short."""
    hypothesis_K, reference_K = sums_K10[:, 0], sums_K10[:, 1]
    offered_K4, found_K4 = sums_K10[:, 2 : 2 + ORDERS], sums_K10[:, 2 + ORDERS :]
    product_K4 = np.cumprod((found_K4 + TINY) / (offered_K4 + SMALL), axis=1)
    scores_K4 = product_K4 ** (1.0 / np.arange(1, ORDERS + 1))
    ratio_K = (hypothesis_K + TINY) / (reference_K + SMALL)
    brevity_K = np.where(ratio_K < 1, np.exp(1 - 1 / ratio_K), 1.0)
    return np.asarray(scores_K4 * brevity_K[:, None])


def _closest_length(sentences: Sentences, items: Items) -> Integers:
    """The reference length nearest to the hypothesis's; of two equally near the shorter."""
    length_P = sentences.length_S[items.reference_P]
    away_P = np.abs(length_P - sentences.length_S[items.hypothesis_P])
    scale = int(length_P.max(initial=0)) + 1
    return np.asarray(_best_by_item(np.minimum, away_P * scale + length_P, items.item_P) % scale)


def _found(sentences: Sentences, items: Items, shared: Shared) -> Floats:
    """I x 4: hypothesis n-grams that occur in a reference, each at most as often as in the reference with most."""
    key_M = items.item_P[shared.pair_M] * max(sentences.grams, 1) + shared.gram_M
    order = np.argsort(key_M, kind="stable")
    clipped = _best_by_item(np.maximum, np.minimum(shared.left_M, shared.right_M)[order], key_M[order])
    item, gram = np.divmod(sorted_unique(key_M), max(sentences.grams, 1))
    cell = item * ORDERS + sentences.order_G[gram] - 1
    counts = np.bincount(cell, weights=clipped, minlength=len(items.hypothesis_I) * ORDERS)
    return counts.astype(np.float64).reshape(-1, ORDERS)


def _best_by_item(better: np.ufunc, values_N: Integers, item_N: Integers) -> Integers:
    """The best value of each item, where items stand in rising order."""
    first = np.flatnonzero(np.diff(item_N, prepend=-1))
    return np.asarray(better.reduceat(values_N, first)) if len(first) else values_N
