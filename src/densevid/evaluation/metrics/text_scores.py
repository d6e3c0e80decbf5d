"""METEOR, BLEU, ROUGE-L and CIDEr of groups of items: a group's score is a closed form of sums over its items.

An item is a hypothesis with its references; a group is a video at a tIoU, a paragraph or a whole set. `score_items`
computes once what each item adds to its group; which items count, and how they are grouped, only changes what is
summed. BLEU and ROUGE-L are here, CIDEr is in `cider`, METEOR in `meteor.statistics`; all count as pycocoevalcap does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from densevid.evaluation.files import Booleans, Floats, Integers
from densevid.evaluation.meteor.statistics import STATISTICS, corpus_scores, summable
from densevid.evaluation.metrics.caption_index import MeteorRequest, TextIndex
from densevid.evaluation.metrics.cider import Cider, cider_of_items, mean_over_references
from densevid.evaluation.metrics.ngrams import (
    ORDERS,
    Items,
    Sentences,
    Shared,
    blocks,
    sorted_unique,
    sums_by_group,
    word_numbers,
)

BLEU_NAMES = tuple(f"Bleu_{order}" for order in range(1, ORDERS + 1))
TEXT_METRICS = ("METEOR", *BLEU_NAMES, "ROUGE_L", "CIDEr")
TINY, SMALL = 1e-15, 1e-9  # the official guards against division by zero; they make BLEU 0 and 1 unreachable
BETA_SQUARED = 1.2**2  # of ROUGE-L
WORDS_AT_ONCE = 20_000  # so that a row of ROUGE-L's table stays in the processor's cache
_BLEU = STATISTICS
_ROUGE = _BLEU + 2 + 2 * ORDERS
SUMS = _ROUGE + 3  # METEOR's statistics, BLEU's components, ROUGE, CIDEr, number of items


@dataclass(frozen=True)
class ItemScores:
    """What each item adds to its group (I x S), but for CIDEr, which depends on the other items that count."""

    items: Items
    group_I: Integers
    sums_IS: Floats
    cider: Cider

    def item_sums(self, active_I: Booleans | None = None) -> Floats:
        """N x S: what each of the N items that count (all by default) adds."""
        active = np.ones(len(self.group_I), dtype=bool) if active_I is None else active_I
        rows = self.sums_IS[active]
        rows[:, _ROUGE + 1] = mean_over_references(self.cider.scores(active), self.items)[active]
        return rows

    def group_sums(self, groups: int, active_I: Booleans) -> Floats:
        """G x S sums over the items that count."""
        return sums_by_group(self.item_sums(active_I), self.group_I[active_I], groups)

    def regrouped(self, index: TextIndex, group_I: Integers) -> ItemScores:
        """Score the same items in other groups: only CIDEr's document frequencies change."""
        return replace(self, group_I=group_I, cider=cider_of_items(index.sentences, self.items, group_I))


def score_items(index: TextIndex, items: Items, group_I: Integers, meteor: MeteorRequest | None = None) -> ItemScores:
    """Score items once; CIDEr's documents are the references of the items of the same group.

    Args:
        index: The texts of the items.
        items: Hypotheses with their references.
        group_I: The group of each item.
        meteor: These items' METEOR request, if it was submitted before.
    """
    meteor = meteor or index.submit_meteor(items)
    sums_IS = np.ones((len(group_I), SUMS))
    shared = index.sentences.shared(items.hypothesis_P, items.reference_P)
    sums_IS[:, _BLEU:_ROUGE] = bleu_components(index.sentences, items, shared)
    sums_IS[:, _ROUGE] = rouge_scores(index.texts, items)
    cider = cider_of_items(index.sentences, items, group_I, shared)
    sums_IS[:, :_BLEU] = summable(meteor.statistics())
    return ItemScores(items, group_I, sums_IS, cider)


def group_scores(sums_GS: Floats) -> dict[str, Floats]:
    """The scores of each group by metric; 0 in a group without items."""
    count_G = sums_GS[:, -1]
    divisor_G = np.maximum(count_G, 1)
    bleu_4G = np.where(count_G > 0, bleu_scores(sums_GS[:, _BLEU:_ROUGE]).T, 0.0)
    meteor_G = corpus_scores(sums_GS[:, :_BLEU])
    columns = (meteor_G, *bleu_4G, sums_GS[:, _ROUGE] / divisor_G, sums_GS[:, _ROUGE + 1] / divisor_G)
    return dict(zip(TEXT_METRICS, columns, strict=True))


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


def rouge_scores(texts: Sequence[str], items: Items) -> Floats:
    """ROUGE-L of each item: the best precision and the best recall over its references, each maximum on its own.

    Words are split at single spaces, so an empty sentence is ONE empty word here (and equals another empty sentence).
    """
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
    """The table of the dynamic program row by row, for all N pairs; rows only grow, so a running maximum fills one."""
    row_RN = np.zeros((len(right_RN) + 1, right_RN.shape[1]), dtype=np.int32)
    for word_N in left_LN:
        matched_RN = row_RN[:-1] + (right_RN == word_N)
        np.maximum.accumulate(np.maximum(row_RN[1:], matched_RN, out=matched_RN), axis=0, out=row_RN[1:])
    return np.asarray(row_RN[-1], dtype=np.int64)
