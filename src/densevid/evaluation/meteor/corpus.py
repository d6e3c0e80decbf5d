"""Distinct sentences as arrays: words, their facts, and every relation between words and phrases that occur in them.

First stage of METEOR. Everything that depends on one sentence or one word is computed here, once; `matchers` then only
looks up pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from densevid.evaluation.meteor.paraphrases import LONGEST_PHRASE, Hashes, Indices, paraphrase_table, span_hashes
from densevid.evaluation.meteor.resources import word_facts

_WORDS_PER_BLOCK = 1 << 16  # bounds memory


@dataclass(frozen=True)
class Links:
    """Directed links between numbered things, sorted by source, then target, with the table row of each."""

    source: Indices
    target: Indices
    row: Indices

    @classmethod
    def sorted(cls, source: Indices, target: Indices, row: Indices) -> Links:
        """Links in order."""
        order = np.lexsort((target, source))
        return cls(source[order], target[order], row[order])


@dataclass(frozen=True)
class Phrases:
    """Where phrases occur."""

    sentence: Indices
    phrase: Indices
    start: Indices
    length: Indices

    def select(self, chosen: npt.NDArray[np.bool_] | Indices) -> Phrases:
        """Some of the occurrences."""
        return Phrases(self.sentence[chosen], self.phrase[chosen], self.start[chosen], self.length[chosen])

    def among(self, wanted: Indices, count: int) -> Phrases:
        """The occurrences of wanted phrases, sorted by sentence, then phrase, then place."""
        is_wanted = np.zeros(count, bool)
        is_wanted[wanted] = True
        chosen = self.select(is_wanted[self.phrase])
        return chosen.select(np.lexsort((chosen.start, chosen.phrase, chosen.sentence)))


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
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    words = np.array([numbers[word] for sentence in sentences for word in sentence], np.int64)
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
        occurrences.among(phrase_links.source, hashes.size),
        occurrences.among(phrase_links.target, hashes.size),
        hashes.size,
    )


def _synonyms(synsets: list[frozenset[str]]) -> Links:
    """Every two words that share a synonym set."""
    members: dict[str, list[int]] = {}
    for word, numbers in enumerate(synsets):
        for number in numbers:
            members.setdefault(number, []).append(word)
    pairs = {(a, b) for words in members.values() if len(words) > 1 for a in words for b in words if a != b}
    source, target = np.array(list(pairs), np.int64).reshape(-1, 2).T
    return Links.sorted(source, target, np.zeros(source.size, np.int64))


def _phrases(sentences: Sequence[list[str]]) -> tuple[Hashes, Phrases]:
    """All phrases of the sentences that the paraphrase table may know: sorted hashes, and where each occurs."""
    before = np.cumsum([0, *(len(sentence) for sentence in sentences)])
    edges = np.searchsorted(before, np.arange(0, before[-1] + 1, _WORDS_PER_BLOCK)).tolist()
    blocks = zip(edges, [*edges[1:], len(sentences)], strict=True)
    found = [_known_phrases(sentences[first:after], first) for first, after in blocks if first < after]
    hashes, sentence, start, length = (np.concatenate(column) for column in zip(*found, strict=True))
    distinct, phrase = np.unique(hashes, return_inverse=True)
    return distinct, Phrases(sentence, phrase, start, length)


def _known_phrases(sentences: Sequence[list[str]], number: int) -> tuple[Hashes, Indices, Indices, Indices]:
    """(hash, sentence, start, length) of known phrases; a part of all sentences, the first of which has this number."""
    counts = np.array([len(sentence) for sentence in sentences], np.int64)
    sentence = np.repeat(np.arange(len(sentences)), counts)
    place = np.arange(sentence.size) - (np.cumsum(counts) - counts)[sentence]
    written = " ".join([" ".join(words) for words in sentences if words] + [""])
    text = np.frombuffer(written.encode("utf-8", "surrogatepass"), np.uint8)
    ends = np.flatnonzero(text == ord(" "))
    starts = np.append(0, ends + 1)
    lengths = range(1, LONGEST_PHRASE + 1)
    begins = [np.flatnonzero(place + length <= counts[sentence]) for length in lengths]
    begin, length = np.concatenate(begins), np.repeat(lengths, [found.size for found in begins])
    hashes = span_hashes(text, starts[begin], ends[begin + length - 1])
    known = np.flatnonzero(paraphrase_table().known(hashes))
    begin = begin[known]
    return hashes[known], sentence[begin] + number, place[begin], length[known]


def _paraphrases(hashes: Hashes, occurrences: Phrases, words: Indices, first: Indices) -> tuple[Links, Links]:
    """Table rows between single words, by word number, and between other phrases, by phrase number."""
    source, target, row = paraphrase_table().rows_between(hashes)
    word_of_phrase = np.full(hashes.size, -1)
    single = occurrences.select(occurrences.length == 1)
    word_of_phrase[single.phrase] = words[first[single.sentence] + single.start]
    of_words = (word_of_phrase[source] >= 0) & (word_of_phrase[target] >= 0)
    word_source, word_target = word_of_phrase[source[of_words]], word_of_phrase[target[of_words]]
    return (
        Links.sorted(word_source, word_target, row[of_words]),
        Links.sorted(source[~of_words], target[~of_words], row[~of_words]),
    )
