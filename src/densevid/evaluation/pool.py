"""The distinct sentences of one evaluation, tokenised once: what captioning, SODA and segments score as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from densevid.evaluation.meteor import Meteor
from densevid.evaluation.ngrams import Items, Sentences, index_sentences
from densevid.evaluation.rows import Floats, Integers
from densevid.evaluation.tokens import tokenise


class Pool:
    """Distinct tokenised sentences by number; METEOR of a pair of numbers is asked once."""

    def __init__(self, meteor: Meteor) -> None:
        self.meteor = meteor
        self.texts: list[str] = []
        self._number_of_text: dict[str, int] = {}
        self._number_of_raw: dict[str, int] = {}

    def numbers(self, raw: Sequence[str]) -> Integers:
        """The number of each raw sentence, tokenising those not seen before."""
        new = [sentence for sentence in dict.fromkeys(raw) if sentence not in self._number_of_raw]
        for sentence, text in zip(new, tokenise(new) if new else [], strict=True):
            self._number_of_raw[sentence] = self._number_of_text.setdefault(text, len(self._number_of_text))
        if new:
            self.texts = list(self._number_of_text)
            self.__dict__.pop("sentences", None)
        return np.array([self._number_of_raw[sentence] for sentence in raw], dtype=np.int64)

    @cached_property
    def sentences(self) -> Sentences:
        """Their n-grams."""
        return index_sentences(self.texts)

    def meteor_statistics(self, items: Items) -> Floats:
        """I x 23 statistics of the items."""
        if len(items.item_P) == len(items.hypothesis_I):
            return self._single_statistics(items.hypothesis_I, items.reference_P)
        references: list[list[str]] = [[] for _ in range(len(items.hypothesis_I))]
        for item, reference in zip(items.item_P.tolist(), items.reference_P.tolist(), strict=True):
            references[item].append(self.texts[reference])
        hypotheses = (self.texts[number] for number in items.hypothesis_I.tolist())
        return self.meteor.statistics([(text, tuple(group)) for text, group in zip(hypotheses, references, strict=True)])

    def _single_statistics(self, hypothesis_I: Integers, reference_I: Integers) -> Floats:
        size = max(len(self.texts), 1)
        distinct, inverse = np.unique(hypothesis_I * size + reference_I, return_inverse=True)
        hypotheses, references = (numbers.tolist() for numbers in np.divmod(distinct, size))
        texts = self.texts
        pairs = [(texts[h], (texts[r],)) for h, r in zip(hypotheses, references, strict=True)]
        return self.meteor.statistics(pairs)[inverse]
