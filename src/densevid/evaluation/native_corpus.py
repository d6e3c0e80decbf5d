"""Distinct sentences as arrays: words, their facts, and every relation between words and phrases that occur in them.

First stage of native METEOR. All that depends on one sentence or one word is computed here, once; `native_matching` then
only looks up pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from densevid.evaluation.native_paraphrases import LONGEST_PHRASE, Hashes, Indices, paraphrase_table, span_hashes
from densevid.evaluation.native_words import word_facts

_SENTENCES_PER_BLOCK = 4_096


@dataclass(frozen=True)
class Links:
    """Directed links between numbered things, sorted by where they start, with the table row of each."""

    source: Indices
    target: Indices
    row: Indices


@dataclass(frozen=True)
class Phrases:
    """Where phrases occur: sorted by sentence, then phrase."""

    sentence: Indices
    phrase: Indices
    start: Indices
    length: Indices

    def select(self, chosen: npt.NDArray[np.bool_]) -> Phrases:
        """The occurrences for which `chosen` holds."""
        return Phrases(self.sentence[chosen], self.phrase[chosen], self.start[chosen], self.length[chosen])


@dataclass(frozen=True)
class Corpus:
    """Sentences as rows of word numbers, facts per word number, and the links that matchers use."""

    words: Indices  # of all sentences, one after another
    first: Indices  # where each sentence begins, and at last the end
    key: Indices
    stem_key: Indices
    is_function: npt.NDArray[np.bool_]
    synonyms: Links
    word_paraphrases: Links
    phrase_paraphrases: Links  # between phrase numbers, at least one of each two longer than a word
    phrase_sources: Phrases
    phrase_targets: Phrases
    phrase_count: int


def build_corpus(sentences: Sequence[list[str]]) -> Corpus:
    """Number the words and find the relations between all words and phrases of these sentences."""
    numbers: dict[str, int] = {}
    words = np.array([numbers.setdefault(w, len(numbers)) for sentence in sentences for w in sentence], np.int64)
    first = np.append(0, np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64))
    facts = [word_facts(word) for word in numbers]
    hashes, occurrences = _phrases(sentences)
    word_links, phrase_links = _paraphrases(hashes, occurrences, words, first)
    return Corpus(
        words,
        first,
        np.array([fact.key for fact in facts], np.int64),
        np.array([fact.stem_key for fact in facts], np.int64),
        np.array([fact.is_function for fact in facts], bool),
        _synonyms([fact.synsets for fact in facts]),
        word_links,
        phrase_links,
        occurrences.select(np.isin(occurrences.phrase, phrase_links.source)),
        occurrences.select(np.isin(occurrences.phrase, phrase_links.target)),
        hashes.size,
    )


def _synonyms(synsets: list[frozenset[str]]) -> Links:
    """Every two words that share a synonym set."""
    members: dict[str, list[int]] = {}
    for word, numbers in enumerate(synsets):
        for number in numbers:
            members.setdefault(number, []).append(word)
    pairs = {(a, b) for words in members.values() for a in words for b in words if a != b}
    source, target = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    return Links(source, target, np.zeros(source.size, np.int64))


def _phrases(sentences: Sequence[list[str]]) -> tuple[Hashes, Phrases]:
    """All phrases of the sentences that the paraphrase table may know: sorted hashes, and where each occurs."""
    found = list(_phrases_in_blocks(sentences))
    hashes, sentence, start, length = (np.concatenate(column) for column in zip(*found, strict=True))
    distinct, phrase = np.unique(hashes, return_inverse=True)
    order = np.lexsort((start, phrase, sentence))
    return distinct, Phrases(sentence[order], phrase[order], start[order], length[order])


def _phrases_in_blocks(sentences: Sequence[list[str]]) -> Iterator[tuple[Hashes, Indices, Indices, Indices]]:
    """(hash, sentence, start, length) of known phrases, for some sentences at a time to bound memory."""
    known = paraphrase_table().known
    for block in range(0, max(1, len(sentences)), _SENTENCES_PER_BLOCK):
        some = sentences[block : block + _SENTENCES_PER_BLOCK]
        counts = np.array([len(sentence) for sentence in some], np.int64)
        sentence = np.repeat(np.arange(len(some)), counts)
        place = np.arange(sentence.size) - (np.cumsum(counts) - counts)[sentence]
        encoded = [word.encode("utf-8", "surrogatepass") for words in some for word in words]
        text = np.frombuffer(b" ".join(encoded) + b" ", np.uint8)
        ends = np.cumsum([len(word) + 1 for word in encoded], dtype=np.int64) - 1
        starts = np.append(0, ends[:-1] + 1)[: ends.size]
        for length in range(1, LONGEST_PHRASE + 1):
            begins = np.flatnonzero(place + length <= counts[sentence])
            hashes = span_hashes(text, starts[begins], ends[begins + length - 1])
            kept = begins[known(hashes)]
            yield hashes[known(hashes)], sentence[kept] + block, place[kept], np.full(kept.size, length)


def _paraphrases(hashes: Hashes, occurrences: Phrases, words: Indices, first: Indices) -> tuple[Links, Links]:
    """Table rows between single words, by word number, and between other phrases, by phrase number."""
    source, target, row = paraphrase_table().rows_between(hashes)
    word_of_phrase = np.full(hashes.size, -1)
    single = occurrences.select(occurrences.length == 1)
    word_of_phrase[single.phrase] = words[first[single.sentence] + single.start]
    of_words = (word_of_phrase[source] >= 0) & (word_of_phrase[target] >= 0)
    word_links = _sorted(word_of_phrase[source[of_words]], word_of_phrase[target[of_words]], row[of_words])
    return word_links, _sorted(source[~of_words], target[~of_words], row[~of_words])


def _sorted(source: Indices, target: Indices, row: Indices) -> Links:
    order = np.lexsort((target, source))
    return Links(source[order], target[order], row[order])
