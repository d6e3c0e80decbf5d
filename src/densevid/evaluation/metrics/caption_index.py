"""Distinct texts by number: tokenized once, with their n-grams and the METEOR statistics of their pairs.

`TextIndex` holds texts that are tokenized already (paragraphs); `CaptionIndex` tokenizes raw captions first, for
captioning, SODA and segments. An evaluation shares one `CaptionIndex`, so no caption is tokenized twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from densevid.evaluation.files import Floats, Integers
from densevid.evaluation.meteor.ptb_tokenizer import LINES_SEEN_AHEAD, depends_on_next, tokenize, tokenize_before
from densevid.evaluation.meteor.scorer import MeteorScorer
from densevid.evaluation.meteor.statistics import Pair
from densevid.evaluation.metrics.ngrams import Items, Sentences, index_sentences


@dataclass(frozen=True)
class MeteorRequest:
    """The distinct pairs of some items, submitted to METEOR, and which of them each item is."""

    scorer: MeteorScorer
    pairs: list[Pair]
    pair_I: Integers

    def statistics(self) -> Floats:
        """I x 23 statistics of the items; waits until they are there."""
        return self.scorer.statistics(self.pairs)[self.pair_I]


class TextIndex:
    """Tokenized texts by number."""

    def __init__(self, meteor: MeteorScorer) -> None:
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

    def submit_meteor(self, items: Items) -> MeteorRequest:
        """Start METEOR on the items in the background, each distinct pair of texts once."""
        pairs, pair_I = self._pairs(items)
        self.meteor.submit(pairs)
        return MeteorRequest(self.meteor, pairs, pair_I)

    def _pairs(self, items: Items) -> tuple[list[Pair], Integers]:
        texts = self.texts
        if len(items.item_P) == len(items.hypothesis_I):
            size = max(len(texts), 1)
            distinct, pair_I = np.unique(items.hypothesis_I * size + items.reference_P, return_inverse=True)
            hypotheses, references = (numbers.tolist() for numbers in np.divmod(distinct, size))
            return [(texts[h], (texts[r],)) for h, r in zip(hypotheses, references, strict=True)], pair_I
        references_of: list[list[str]] = [[] for _ in range(len(items.hypothesis_I))]
        for item, reference in zip(items.item_P.tolist(), items.reference_P.tolist(), strict=True):
            references_of[item].append(texts[reference])
        sides = zip(items.hypothesis_I.tolist(), references_of, strict=True)
        return [(texts[h], tuple(group)) for h, group in sides], np.arange(len(references_of))

    def _text_number(self, text: str) -> int:
        if text not in self._text:
            self._text[text] = len(self._text)
            self.__dict__.pop("texts", None)
            self.__dict__.pop("sentences", None)
        return self._text[text]


class CaptionIndex(TextIndex):
    """Raw captions by number too, each tokenized once."""

    def __init__(self, meteor: MeteorScorer) -> None:
        super().__init__(meteor)
        self._caption: dict[str, int] = {}
        self._text_C: Integers = np.zeros(0, dtype=np.int64)
        self._depends_on_next_C: list[bool] = []

    def captions(self, raw: Sequence[str]) -> Integers:
        """The number of each raw caption."""
        new = [caption for caption in dict.fromkeys(raw) if caption not in self._caption]
        if new:
            self._caption.update(zip(new, range(len(self._caption), len(self._caption) + len(new)), strict=True))
            self._text_C = np.concatenate([self._text_C, self.numbers(tokenize([*new, ""])[:-1])])
            self._depends_on_next_C += [depends_on_next(caption) for caption in new]
        return np.array([self._caption[caption] for caption in raw], dtype=np.int64)

    @property
    def order_matters(self) -> bool:
        """Whether the tokens of some caption depend on the caption after it."""
        return any(self._depends_on_next_C)

    def in_files(self, caption_N: Integers, file_N: Integers) -> Integers:
        """The text of each caption when captions are tokenized as the lines of files.

        Args:
            caption_N: Captions, by number, in the order in which they are written.
            file_N: The file of each caption, rising.

        Returns:
            N text numbers. The official evaluators write all captions of a tIoU into one file for the tokenizer, which
            looks ahead; only captions for which `depends_on_next` is true are tokenized again, in context.
        """
        text_N = self._text_C[caption_N]
        dependent = np.flatnonzero(np.array(self._depends_on_next_C, dtype=bool)[caption_N])
        end_N = np.searchsorted(file_N, file_N[dependent], side="right")
        raw = list(self._caption) if len(dependent) else []
        for place, end in zip(dependent.tolist(), end_N.tolist(), strict=True):
            seen = min(end, place + 1 + LINES_SEEN_AHEAD)
            following = tuple(raw[caption] for caption in caption_N[place + 1 : seen].tolist())
            text_N[place] = self._text_number(tokenize_before(raw[caption_N[place]], following, seen < end))
        return text_N
