"""METEOR 1.5 without Java: pairs of captions -> the 23 statistics that the jar prints for each.

    words_of -> build_corpus -> find_matches -> align -> statistics

`docs/research/native-meteor.md` says how it is checked against the jar. Scores follow from the statistics
(`segment_scores` here, corpus scores in `meteor`): hypothesis and reference length, function words of each; per module
(exact, stem, synonym, paraphrase) content words matched in hypothesis and reference, function words matched in each;
chunks, words matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import numpy.typing as npt

from densevid.evaluation.meteor.alignment import align
from densevid.evaluation.meteor.corpus import Corpus, build_corpus
from densevid.evaluation.meteor.matching import Matches, Rows, find_matches
from densevid.evaluation.meteor.normalizer import words_of
from densevid.evaluation.meteor.paraphrases import Indices

Pair = tuple[str, tuple[str, ...]]
Statistics = npt.NDArray[np.float64]
STATISTICS = 23
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
MODULE_WEIGHTS = (1.0, 0.6, 0.8, 0.6)
_PAIRS_AT_ONCE = 2_048
_CELLS_AT_ONCE = 1 << 20
_SEPARATOR = "|||"


def statistics(pairs: Sequence[Pair], workers: int = 1) -> Statistics:
    """One row per (hypothesis, references): the jar's statistics against the reference that scores best."""
    if workers > 1 and len(pairs) > _PAIRS_AT_ONCE:
        parts = [pairs[part::workers] for part in range(workers)]
        rows = np.empty((len(pairs), STATISTICS))
        with ProcessPoolExecutor(workers) as pool:
            for part, result in enumerate(pool.map(statistics, parts)):
                rows[part::workers] = result
        return rows
    if not pairs:
        return np.empty((0, STATISTICS))
    numbers: dict[str, int] = {}
    sides = [(_hypothesis(hypothesis), _references(references)) for hypothesis, references in pairs]
    counts = np.array([len(references) for _, references in sides])
    hyp = np.array([numbers.setdefault(hypothesis, len(numbers)) for hypothesis, _ in sides])
    ref = np.array([numbers.setdefault(reference, len(numbers)) for _, references in sides for reference in references])
    rows = _of_distinct_pairs(build_corpus([words_of(text) for text in numbers]), np.repeat(hyp, counts), ref)
    return rows if (counts == 1).all() else rows[_best(rows, counts)]


def segment_scores(rows: Statistics) -> npt.NDArray[np.float64]:
    """METEOR of each row by itself; additions in the jar's order, so that equal scores stay equal."""
    modules = rows[:, 4:20].reshape(-1, 4, 4)
    matched = np.zeros((2, len(rows)))
    for weight, columns in ((DELTA, (0, 1)), (1 - DELTA, (2, 3))):
        for module, module_weight in enumerate(MODULE_WEIGHTS):
            matched += modules[:, module, columns].T * module_weight * weight
    length = DELTA * (rows[:, :2] - rows[:, 2:4]).T + (1 - DELTA) * rows[:, 2:4].T
    in_one_piece = (rows[:, 21] == rows[:, 0]) & (rows[:, 22] == rows[:, 1]) & (rows[:, 20] == 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = matched / length
        mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = np.where(in_one_piece, 0, rows[:, 20] / ((rows[:, 21] + rows[:, 22]) / 2))
        score = mean * (1 - GAMMA * fragmentation**BETA)
    return np.where(np.isnan(score), 0.0, np.maximum(score, 0.0))


def _hypothesis(sentence: str) -> str:
    """The sentence as the metric's wrapper hands it to the jar."""
    return sentence.replace(_SEPARATOR, "").replace("  ", " ")


def _references(references: tuple[str, ...]) -> list[str]:
    """The references as the jar reads them from one line: a separator within one makes two of it."""
    return _SEPARATOR.join(references).split(_SEPARATOR)


def _best(rows: Statistics, counts: Indices) -> Indices:
    """The first row with the highest score among each pair's references."""
    scores = segment_scores(rows)
    first = np.cumsum(counts) - counts
    highest = np.repeat(np.maximum.reduceat(scores, first), counts)
    places = np.where(scores == highest, np.arange(len(rows)), len(rows))
    return np.minimum.reduceat(places, first)


def _of_distinct_pairs(corpus: Corpus, hyp: Indices, ref: Indices) -> Statistics:
    """Statistics of single-reference pairs: each distinct pair once, in batches of similar length."""
    size = corpus.first.size
    distinct, inverse = np.unique(hyp * size + ref, return_inverse=True)
    hyp, ref = distinct // size, distinct % size
    lengths = np.diff(corpus.first)
    rows = np.empty((distinct.size, STATISTICS))
    order = np.lexsort((lengths[hyp], lengths[ref]))
    while order.size:
        longest = np.maximum.accumulate(np.maximum(lengths[hyp[order[:_PAIRS_AT_ONCE]]], 1))
        longest = longest * np.maximum(lengths[ref[order[:_PAIRS_AT_ONCE]]], 1)
        fits = max(1, int((longest * np.arange(1, longest.size + 1) <= _CELLS_AT_ONCE).sum()))
        batch, order = order[:fits], order[fits:]
        rows[batch] = _of_batch(corpus, hyp[batch], ref[batch])
    return rows[inverse]


def _of_batch(corpus: Corpus, hyp: Indices, ref: Indices) -> Statistics:
    hypothesis, reference = Rows.of(corpus, hyp), Rows.of(corpus, ref)
    matches = find_matches(corpus, hypothesis, reference)
    chosen, chunks = align(matches, hypothesis.length, reference.length)
    return _count(corpus, hypothesis, reference, matches.select(chosen), chunks)


def _count(corpus: Corpus, hypothesis: Rows, reference: Rows, chosen: Matches, chunks: Indices) -> Statistics:
    """Lengths, function words, words matched by each module, chunks."""
    function_before = np.append(0, np.cumsum(corpus.is_function[corpus.words]))
    rows = np.zeros((hypothesis.length.size, STATISTICS))
    sides = (hypothesis, chosen.hyp_start, chosen.hyp_length), (reference, chosen.ref_start, chosen.ref_length)
    for side, (sentences, start, length) in enumerate(sides):
        first = corpus.first[sentences.sentence]
        rows[:, side] = sentences.length
        rows[:, 2 + side] = function_before[first + sentences.length] - function_before[first]
        begin = first[chosen.pair] + start
        function = function_before[begin + length] - function_before[begin]
        cell = chosen.pair * 4 + chosen.module
        for column, words in ((side, length - function), (2 + side, function)):
            counted = np.bincount(cell, words, minlength=4 * len(rows)).reshape(-1, 4)
            rows[:, 4 + column : 20 : 4] = counted
            rows[:, 21 + side] += counted.sum(axis=1)
    rows[:, 20] = chunks
    return rows
