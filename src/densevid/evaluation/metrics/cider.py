"""CIDEr-D as pycocoevalcap computes it: `cider_d` is the formula, `Cider` counts many small corpora (videos) at once.

`training.sentence_scores` uses the same formula for rewards. Only the counting differs: there the documents are fixed
and new sentences come batch after batch, here all sentences are known and the documents that count change.

Document frequencies come from the documents of one group alone, so a group of one document has log(1) = 0 for every
weight and scores 0, even for an exact copy. The length penalty counts bigrams; matches are clipped; the score is x10.
Which n-grams are shared does not depend on which documents count, so a change of threshold costs only sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from densevid.evaluation.files import Booleans, Floats, Integers
from densevid.evaluation.metrics.ngrams import ORDERS, Items, Sentences, Shared, find_sorted, sorted_unique

SIGMA = 6.0


def cider_d(cell_M: Integers, left_M: Floats, right_M: Floats, norm_PO: Floats, bigrams_P: Integers) -> Floats:
    """10 times the mean over the orders n of sum_w min(g_a(w), g_b(w)) g_b(w) / (|g_a| |g_b|), damped by length.

    g are the counts of n-grams times log(N / df), N the number of documents and df how many of them have the n-gram.
    The score is damped by exp(-(bigrams_a - bigrams_b)^2 / (2 6^2)). No other package than numpy is needed.

    Args:
        cell_M: For each n-gram w that a pair (a, b) shares: the number of the pair times `ORDERS`, plus n - 1.
        left_M: g_a(w).
        right_M: g_b(w).
        norm_PO: |g_a| |g_b| of each pair, for each order.
        bigrams_P: bigrams_a - bigrams_b.

    Returns:
        The score of each of P pairs.
    """
    product_PO = sums_by_order(cell_M, np.minimum(left_M, right_M) * right_M, len(norm_PO))
    cosine_PO = np.divide(product_PO, norm_PO, out=product_PO, where=norm_PO > 0)
    return np.asarray(10.0 * cosine_PO.mean(axis=1) * np.exp(-(bigrams_P**2) / (2 * SIGMA**2)))


def sums_by_order(cell_M: Integers, values_M: Floats, owners: int) -> Floats:
    """The sum of the values of each owner and order; a cell is the owner's number times `ORDERS`, plus n - 1."""
    sums = np.bincount(cell_M, weights=values_M, minlength=owners * ORDERS)
    return sums.astype(np.float64).reshape(-1, ORDERS)  # numpy counts in whole numbers where there is nothing


@dataclass(frozen=True)
class Documents:
    """D documents in groups; a document is the union of its R sentences."""

    group_D: Integers
    document_R: Integers
    sentence_R: Integers


@dataclass(frozen=True)
class _Terms:
    """n-grams in context: the cell of owner and order each belongs to, its group, its place among document n-grams."""

    cell: Integers
    group: Integers
    place: Integers


class Cider:
    """Scores of (hypothesis, reference) pairs within groups, for any choice of the documents that count."""

    def __init__(
        self,
        sentences: Sentences,
        group_P: Integers,
        pairs: tuple[Integers, Integers],
        documents: Documents,
        shared: Shared,
    ) -> None:
        self._sentences, self._group_P, self._documents = sentences, group_P, documents
        self._count_documents(documents)
        left_P, right_P = pairs
        occurrence_key = np.concatenate([group_P, group_P]) * len(sentences.length_S) + np.concatenate(pairs)
        self._occurrences, occurrence = np.unique(occurrence_key, return_inverse=True)
        self._left_P, self._right_P = np.split(occurrence, 2)
        self._index_occurrences()
        self._left_M, self._right_M = shared.left_M, shared.right_M
        self._shared = self._terms(shared.pair_M, group_P[shared.pair_M], shared.gram_M)
        bigrams = np.maximum(sentences.length_S - 1, 0)
        self._bigrams_P = bigrams[left_P] - bigrams[right_P]

    def scores(self, counts_D: Booleans | None = None) -> Floats:
        """The score of each pair when only the documents marked in `counts_D` (all by default) are counted."""
        documents = self._documents
        counted = np.ones(len(documents.group_D), dtype=bool) if counts_D is None else counts_D
        groups = int(max(self._group_P.max(initial=-1), documents.group_D.max(initial=-1))) + 1
        log_size = np.log(np.maximum(np.bincount(documents.group_D[counted], minlength=groups), 1))
        frequency = np.bincount(self._place_D[counted[self._document_D]], minlength=len(self._keys) + 1)
        log_frequency = np.log(np.maximum(frequency, 1))
        norms = self._norms(log_size, log_frequency)
        weight = log_size[self._shared.group] - log_frequency[self._shared.place]
        norm_PO = norms[self._left_P] * norms[self._right_P]
        return cider_d(self._shared.cell, self._left_M * weight, self._right_M * weight, norm_PO, self._bigrams_P)

    def _count_documents(self, documents: Documents) -> None:
        """Which n-grams each document has, once each, and the rising list of (group, n-gram) that occur."""
        grams = max(self._sentences.grams, 1)
        row, entry = self._sentences.entries(documents.sentence_R)
        inside = documents.document_R[row] * grams + self._sentences.gram_K[entry]
        if not (np.diff(documents.document_R) > 0).all():  # some document has several sentences
            inside = sorted_unique(inside)
        self._document_D, gram = np.divmod(inside, grams)
        self._keys, self._place_D = np.unique(documents.group_D[self._document_D] * grams + gram, return_inverse=True)

    def _index_occurrences(self) -> None:
        group, sentence = np.divmod(self._occurrences, len(self._sentences.length_S))
        owner, entry = self._sentences.entries(sentence)
        self._inside = self._terms(owner, group[owner], self._sentences.gram_K[entry])
        self._inside_count = self._sentences.count_K[entry]

    def _terms(self, owner: Integers, group: Integers, gram: Integers) -> _Terms:
        place, found = find_sorted(self._keys, group * max(self._sentences.grams, 1) + gram)
        order = self._sentences.order_G[gram] if len(gram) else gram
        return _Terms(owner * ORDERS + order - 1, group, np.where(found, place, len(self._keys)))

    def _norms(self, log_size: Floats, log_frequency: Floats) -> Floats:
        weight = self._inside_count * (log_size[self._inside.group] - log_frequency[self._inside.place])
        return np.sqrt(sums_by_order(self._inside.cell, weight**2, len(self._occurrences)))


def cider_of_items(sentences: Sentences, items: Items, group_I: Integers, shared: Shared | None = None) -> Cider:
    """CIDEr of items whose own references are the documents of their group."""
    pairs = (items.hypothesis_P, items.reference_P)
    documents = Documents(group_I, items.item_P, items.reference_P)
    return Cider(sentences, group_I[items.item_P], pairs, documents, shared or sentences.shared(*pairs))


def mean_over_references(scores_P: Floats, items: Items) -> Floats:
    """The score of an item: the mean over its references."""
    return np.bincount(items.item_P, weights=scores_P, minlength=len(items.hypothesis_I)) / items.references_I
