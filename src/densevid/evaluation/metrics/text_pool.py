"""Distinct texts by number: their n-grams, and METEOR of their pairs, each asked once.

`TextIndex` holds texts that are words already (paragraphs); `CaptionIndex` tokenises raw captions first,
for captioning, SODA and segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from densevid.evaluation.files import Floats, Integers
from densevid.evaluation.java import Pair
from densevid.evaluation.metrics.meteor import Meteor
from densevid.evaluation.metrics.ngrams import Items, Sentences, index_sentences
from densevid.evaluation.metrics.tokens import LINES_SEEN_AHEAD, minds_what_follows, tokenise, words_before


class TextIndex:
    """Tokenised texts by number."""

    def __init__(self, meteor: Meteor) -> None:
        self.meteor = meteor
        self._text: dict[str, int] = {}

    @cached_property
    def texts(self) -> list[str]:
        """The texts, by number."""
        return list(self._text)

    @cached_property
    def sentences(self) -> Sentences:
        """Their n-grams."""
        return index_sentences(self.texts)

    def numbers(self, texts: Sequence[str]) -> Integers:
        """The number of each text."""
        return np.array([self._text_number(text) for text in texts], dtype=np.int64)

    def begin_meteor(self, items: Items) -> None:
        """Let METEOR start on the items while something else is computed."""
        self.meteor.begin(self._pairs(items)[0])

    def meteor_statistics(self, items: Items) -> Floats:
        """I x 23 statistics of the items, each distinct pair of texts asked once."""
        pairs, place_I = self._pairs(items)
        return self.meteor.statistics(pairs)[place_I]

    def _pairs(self, items: Items) -> tuple[list[Pair], Integers]:
        """The distinct (hypothesis, references) of the items, and where each item finds its own."""
        texts = self.texts
        if len(items.item_P) == len(items.hypothesis_I):
            size = max(len(texts), 1)
            distinct, place_I = np.unique(items.hypothesis_I * size + items.reference_P, return_inverse=True)
            hypotheses, references = (numbers.tolist() for numbers in np.divmod(distinct, size))
            return [(texts[h], (texts[r],)) for h, r in zip(hypotheses, references, strict=True)], place_I
        groups: list[list[str]] = [[] for _ in range(len(items.hypothesis_I))]
        for item, reference in zip(items.item_P.tolist(), items.reference_P.tolist(), strict=True):
            groups[item].append(texts[reference])
        told = zip(items.hypothesis_I.tolist(), groups, strict=True)
        return [(texts[h], tuple(group)) for h, group in told], np.arange(len(groups))

    def _text_number(self, text: str) -> int:
        if text not in self._text:
            self._text[text] = len(self._text)
            self.__dict__.pop("texts", None)
            self.__dict__.pop("sentences", None)
        return self._text[text]


class CaptionIndex(TextIndex):
    """Raw captions by number too, each tokenised once."""

    def __init__(self, meteor: Meteor) -> None:
        super().__init__(meteor)
        self._caption: dict[str, int] = {}
        self._text_C: Integers = np.zeros(0, dtype=np.int64)
        self._minds_C: list[bool] = []

    def captions(self, raw: Sequence[str]) -> Integers:
        """The number of each raw caption."""
        new = [caption for caption in dict.fromkeys(raw) if caption not in self._caption]
        if new:
            self._caption.update(zip(new, range(len(self._caption), len(self._caption) + len(new)), strict=True))
            self._text_C = np.concatenate([self._text_C, self.numbers(tokenise([*new, ""])[:-1])])
            self._minds_C += [minds_what_follows(caption) for caption in new]
        return np.array([self._caption[caption] for caption in raw], dtype=np.int64)

    @property
    def order_matters(self) -> bool:
        """Whether some caption's words depend on what follows it."""
        return any(self._minds_C)

    def in_files(self, caption_N: Integers, file_N: Integers) -> Integers:
        """The text of each caption when the captions of one file (a rising number) are tokenised as its lines."""
        text_N = self._text_C[caption_N]
        minding = np.flatnonzero(np.array(self._minds_C, dtype=bool)[caption_N])
        last_N = np.searchsorted(file_N, file_N[minding], side="right")
        raw = list(self._caption)
        for place, end in zip(minding.tolist(), last_N.tolist(), strict=True):
            seen = min(end, place + 1 + LINES_SEEN_AHEAD)
            following = tuple(raw[caption] for caption in caption_N[place + 1 : seen].tolist())
            text_N[place] = self._text_number(words_before(raw[caption_N[place]], following, seen < end))
        return text_N
