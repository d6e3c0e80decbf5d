"""METEOR 1.5 of caption pairs: the 23 statistics that the jar prints for each pair, and the scores that follow.

Last stage: words -> `build_corpus` -> `find_matches` -> `align` -> `statistics` -> `segment_scores`, `corpus_scores`.
The statistics s of a pair are counts:
  s[0:4]       hypothesis length, reference length, function words in each
  s[4+4i:8+4i] matches of module i (exact, stem, synonym, paraphrase): hypothesis content words, reference content
               words, hypothesis function words, reference function words
  s[20:23]     chunks, hypothesis words matched, reference words matched
Scores are closed forms of them, so one answer serves every threshold, video and SODA matrix:
  P, R  = sum_i w_i (delta content_i + (1 - delta) function_i) / (the same of all words), on each side
  F     = P R / (alpha P + (1 - alpha) R)
  score = F (1 - gamma (chunks / average matched words) ** beta)
A corpus has the score of its summed statistics, where a pair matched completely in one chunk counts no chunk.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from densevid.evaluation.meteor.beam_search import align
from densevid.evaluation.meteor.corpus import Corpus, build_corpus
from densevid.evaluation.meteor.matchers import Matches, Rows, find_matches
from densevid.evaluation.meteor.normalizer import words_of
from densevid.evaluation.meteor.paraphrases import Indices

Pair = tuple[str, tuple[str, ...]]  # a hypothesis and its references
Statistics = npt.NDArray[np.float64]
STATISTICS = 23
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
MODULE_WEIGHTS = (1.0, 0.6, 0.8, 0.6)
_PAIRS_AT_ONCE = 2_048
_CELLS_AT_ONCE = 1 << 20
_SEPARATOR = "|||"


def statistics(pairs: Sequence[Pair]) -> Statistics:
    """Align pairs of tokenized captions.

    Args:
        pairs: (hypothesis, references), words separated by spaces.

    Returns:
        N x 23: the statistics against the reference that scores best, the first of equally good ones.

    Example:
        >>> rows = statistics([("the dog ran away", ("a dog runs", "the dog has run away"))])
        >>> segment_scores(rows).round(4)
        array([0.4138])
    """
    if not pairs:
        return np.empty((0, STATISTICS))
    numbers: dict[str, int] = {}
    sides = [as_read_by_jar(pair) for pair in pairs]
    counts = np.array([len(references) for _, references in sides])
    hyp = np.array([numbers.setdefault(hypothesis, len(numbers)) for hypothesis, _ in sides])
    ref = np.array([numbers.setdefault(reference, len(numbers)) for _, references in sides for reference in references])
    rows = _of_distinct_pairs(build_corpus([words_of(text) for text in numbers]), np.repeat(hyp, counts), ref)
    return rows if (counts == 1).all() else rows[_best(rows, counts)]


def as_read_by_jar(pair: Pair) -> Pair:
    """The pair as the jar reads it: the wrapper drops `|||` from a hypothesis; a reference splits in two at it."""
    hypothesis, references = pair
    if "  " not in hypothesis and not any(_SEPARATOR in text for text in (hypothesis, *references)):
        return pair
    split = tuple(part.strip() for part in _SEPARATOR.join(references).split(_SEPARATOR))
    return hypothesis.replace(_SEPARATOR, "").replace("  ", " "), split


def segment_scores(stats_N23: Statistics) -> Statistics:
    """The METEOR score of each pair by itself."""
    stats = np.asarray(stats_N23, dtype=np.float64)
    return _scores(stats, np.where(_is_one_chunk(stats), 0.0, stats[:, 20]))


def summable(stats_N23: Statistics) -> Statistics:
    """Statistics ready to be summed into a corpus: a pair matched completely in one chunk counts no chunk."""
    stats = np.array(stats_N23, dtype=np.float64)
    stats[_is_one_chunk(stats), 20] = 0.0
    return stats


def corpus_scores(sums_K23: Statistics) -> Statistics:
    """The score of each row of summed, `summable` statistics."""
    return _scores(sums_K23, sums_K23[:, 20])


def corpus_score(stats_N23: Statistics) -> float:
    """The score of all pairs as one corpus."""
    return float(corpus_scores(summable(stats_N23).sum(axis=0, keepdims=True))[0])


def _is_one_chunk(stats: Statistics) -> npt.NDArray[np.bool_]:
    """Every word matched on both sides, in one chunk."""
    matched = (stats[:, 21] == stats[:, 0]) & (stats[:, 22] == stats[:, 1])
    return np.asarray(matched & (stats[:, 20] == 1))


def _scores(stats: Statistics, chunks: Statistics) -> Statistics:
    """Additions in the jar's order, so that equal scores stay equal and the first of them wins."""
    modules = stats[:, 4:20].reshape(-1, 4, 4)
    matched = np.zeros((2, len(stats)))
    for weight, columns in ((DELTA, (0, 1)), (1 - DELTA, (2, 3))):
        for module, module_weight in enumerate(MODULE_WEIGHTS):
            matched += modules[:, module, columns].T * module_weight * weight
    length = DELTA * (stats[:, :2] - stats[:, 2:4]).T + (1 - DELTA) * stats[:, 2:4].T
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = matched / length
        mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = np.where(chunks > 0, chunks / ((stats[:, 21] + stats[:, 22]) / 2), 0.0)
        score = mean * (1 - GAMMA * fragmentation**BETA)
    return np.where(np.isnan(score), 0.0, np.maximum(score, 0.0))


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
