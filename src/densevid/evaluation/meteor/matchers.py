"""METEOR's four matchers (exact, stem, synonym, paraphrase): every match between two sentences, for many pairs at once.

Second stage: pairs of sentences -> `Matches`, in METEOR's order, on which its search depends: by place in the
reference, then exact, stem, synonym and paraphrase matches; paraphrases of reference phrases come before those of
hypothesis phrases, each in the order of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from densevid.evaluation.meteor.corpus import Corpus, Phrases
from densevid.evaluation.meteor.paraphrases import Indices

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
_EXACT, _STEM, _SYNONYM, _REFERENCE_IS_SOURCE, _HYPOTHESIS_IS_SOURCE = 1, 2, 4, 8, 16
_KINDS = [
    (EXACT, _EXACT),
    (STEM, _STEM),
    (SYNONYM, _SYNONYM),
    (PARAPHRASE, _REFERENCE_IS_SOURCE),
    (PARAPHRASE, _HYPOTHESIS_IS_SOURCE),
]
_FROM_REFERENCE, _FROM_HYPOTHESIS = 3, 4
_ROW_BITS, _LENGTH_BITS, _KIND_BITS = 23, 3, 3


@dataclass(frozen=True)
class Matches:
    """One entry per match: which pair, which words of the reference, which of the hypothesis, which module."""

    pair: Indices
    ref_start: Indices
    ref_length: Indices
    hyp_start: Indices
    hyp_length: Indices
    module: Indices

    def select(self, chosen: npt.NDArray[np.bool_] | Indices) -> Matches:
        """Some of the matches."""
        return Matches(*(getattr(self, field.name)[chosen] for field in fields(self)))


@dataclass(frozen=True)
class Rows:
    """Sentences as a rectangle: word numbers, -1 after the end."""

    sentence: Indices
    length: Indices
    words: Indices

    @classmethod
    def of(cls, corpus: Corpus, sentence: Indices) -> Rows:
        """The rectangle of these sentences."""
        length = corpus.first[sentence + 1] - corpus.first[sentence]
        place = np.arange(length.max(initial=1))
        index = np.minimum(corpus.first[sentence][:, None] + place, max(corpus.words.size - 1, 0))
        words = corpus.words[index] if corpus.words.size else np.zeros_like(index)
        return cls(sentence, length, np.where(place < length[:, None], words, -1))


def find_matches(corpus: Corpus, hypothesis: Rows, reference: Rows) -> Matches:
    """All matches of all pairs, in METEOR's order."""
    same = _identical(corpus, hypothesis, reference)
    parts = [*_word_matches(corpus, hypothesis, reference, same)]
    parts += _phrase_matches(corpus, hypothesis, reference, same)
    joined = Matches(*(np.concatenate([getattr(part, f.name) for part, _, _ in parts]) for f in fields(Matches)))
    kind = np.concatenate([np.full(part.pair.size, kind) for part, kind, _ in parts])
    row = np.concatenate([row for _, _, row in parts])
    return joined.select(np.argsort(_order_key(joined, kind, row)))


def _order_key(m: Matches, kind: Indices, row: Indices) -> Indices:
    """One number per match that sorts as METEOR lists them."""
    hyp_bits, ref_bits = int(m.hyp_start.max(initial=1)).bit_length(), int(m.ref_start.max(initial=1)).bit_length()
    by_reference = ((m.ref_length << _ROW_BITS | row) << hyp_bits) | m.hyp_start
    by_hypothesis = (m.hyp_start << _LENGTH_BITS | m.hyp_length) << _ROW_BITS | row
    by_word = [kind < _FROM_REFERENCE, kind == _FROM_REFERENCE]
    detail = np.select(by_word, [m.hyp_start, by_reference], by_hypothesis)
    place = (m.pair << ref_bits | m.ref_start) << _KIND_BITS | kind
    return place << (_LENGTH_BITS + _ROW_BITS + hyp_bits) | detail


def _identical(corpus: Corpus, hypothesis: Rows, reference: Rows) -> npt.NDArray[np.bool_]:
    """Pairs with the same words throughout, for which METEOR looks at exact matches alone."""
    width = min(hypothesis.words.shape[1], reference.words.shape[1])
    keys = [_keys(corpus.key, rows.words[:, :width], -1) for rows in (hypothesis, reference)]
    equal: npt.NDArray[np.bool_] = (hypothesis.length == reference.length) & (keys[0] == keys[1]).all(axis=1)
    return equal


def _keys(key: Indices, words: Indices, after_end: int) -> Indices:
    return np.where(words >= 0, np.append(key, 0)[words], after_end)


def _word_matches(
    corpus: Corpus, hypothesis: Rows, reference: Rows, same: npt.NDArray[np.bool_]
) -> list[tuple[Matches, int, Indices]]:
    """Matches of one word with one word: (matches, kind in METEOR's order, table row)."""

    shape = reference.words.shape[0], reference.words.shape[1], hypothesis.words.shape[1]
    flags = np.zeros(shape, np.uint8)
    for key, equality in ((corpus.key, _EXACT), (corpus.stem_key, _STEM)):
        equal = _keys(key, reference.words, -2)[:, :, None] == _keys(key, hypothesis.words, -1)[:, None, :]
        flags |= equal.view(np.uint8) * np.uint8(equality)
    flags |= _relations(corpus, hypothesis, reference)
    flags[same] &= _EXACT
    cell = np.flatnonzero(flags)
    flag = flags.ravel()[cell]
    pair, ref_start, hyp_start = np.unravel_index(cell, shape)
    parts = []
    for kind, (module, wanted) in enumerate(_KINDS):
        unless = 0 if module in (EXACT, PARAPHRASE) else _EXACT  # these two matchers pass over equal words
        here = np.flatnonzero((flag & wanted > 0) & (flag & unless == 0))
        one = np.ones(here.size, np.int64)
        found = Matches(pair[here], ref_start[here], one, hyp_start[here], one, module * one)
        parts.append((found, kind, _table_rows(corpus, hypothesis, reference, found, kind)))
    return parts


def _relations(corpus: Corpus, hypothesis: Rows, reference: Rows) -> npt.NDArray[np.uint8]:
    """Flags for every (pair, reference word, hypothesis word), through a square over the words that occur here."""
    vocabulary = np.unique(np.concatenate([hypothesis.words.ravel(), reference.words.ravel(), [-1]]))
    local = np.full(corpus.key.size + 1, -1)
    local[vocabulary] = np.arange(vocabulary.size)
    square = np.zeros((vocabulary.size, vocabulary.size), np.uint8)
    for links, forward, backward in (
        (corpus.synonyms, _SYNONYM, _SYNONYM),
        (corpus.word_paraphrases, _REFERENCE_IS_SOURCE, _HYPOTHESIS_IS_SOURCE),
    ):
        source, target = local[links.source], local[links.target]
        here = (source >= 0) & (target >= 0)
        square[source[here], target[here]] |= forward
        square[target[here], source[here]] |= backward
    flags: npt.NDArray[np.uint8] = square[local[reference.words][:, :, None], local[hypothesis.words][:, None, :]]
    return flags


def _table_rows(corpus: Corpus, hypothesis: Rows, reference: Rows, found: Matches, kind: int) -> Indices:
    """The rows of the paraphrase table behind word matches of this kind, 0 for other kinds."""
    if kind < _FROM_REFERENCE:
        return np.zeros(found.pair.size, np.int64)
    ref_word = reference.words[found.pair, found.ref_start]
    hyp_word = hypothesis.words[found.pair, found.hyp_start]
    source, target = (ref_word, hyp_word) if kind == _FROM_REFERENCE else (hyp_word, ref_word)
    links, size = corpus.word_paraphrases, corpus.key.size
    return links.row[np.searchsorted(links.source * size + links.target, source * size + target)]


def _phrase_matches(
    corpus: Corpus, hypothesis: Rows, reference: Rows, same: npt.NDArray[np.bool_]
) -> list[tuple[Matches, int, Indices]]:
    """Paraphrase matches with at least one phrase of several words, from either side."""
    different = np.flatnonzero(~same)
    parts = []
    directions = (_FROM_REFERENCE, reference, hypothesis), (_FROM_HYPOTHESIS, hypothesis, reference)
    for kind, from_side, to_side in directions:
        found, source, target, row = _linked(corpus, from_side.sentence[different], to_side.sentence[different])
        ref, hyp = (source, target) if kind == _FROM_REFERENCE else (target, source)
        module = np.full(found.size, PARAPHRASE)
        pair = different[found]
        parts.append((Matches(pair, ref.start, ref.length, hyp.start, hyp.length, module), kind, row))
    return parts


def _linked(corpus: Corpus, sources: Indices, targets: Indices) -> tuple[Indices, Phrases, Phrases, Indices]:
    """Phrases of one sentence that the table leads to phrases of the other: (pair, from, to, table row)."""
    links, starts, ends = corpus.phrase_paraphrases, corpus.phrase_sources, corpus.phrase_targets
    pair, occurrence = _runs(starts.sentence, sources)
    link_of, link = _runs(links.source, starts.phrase[occurrence])
    pair, occurrence = pair[link_of], occurrence[link_of]
    key = ends.sentence * corpus.phrase_count + ends.phrase
    hit, other = _runs(key, targets[pair] * corpus.phrase_count + links.target[link])
    return pair[hit], starts.select(occurrence[hit]), ends.select(other), links.row[link[hit]]


def _runs(in_order: Indices, wanted: Indices) -> tuple[Indices, Indices]:
    """Every place of a sorted array that holds a wanted value: (which of the wanted, where)."""
    left, right = np.searchsorted(in_order, wanted, "left"), np.searchsorted(in_order, wanted, "right")
    counts = right - left
    which = np.repeat(np.arange(wanted.size), counts)
    return which, np.arange(which.size) + (left - np.cumsum(counts) + counts)[which]
