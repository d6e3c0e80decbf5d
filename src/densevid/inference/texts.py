"""Word numbers of many events become sentences: the text of `Vocabulary.decode`, for a whole batch at a time.

Every word is a piece of text with its space before it, but for clitics, which join the word before them; a sentence is
its pieces in a row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

from densevid.data.caption_text import CLITICS
from densevid.data.vocabulary import EOS, PAD, SPECIAL_TOKENS, Vocabulary


class Texts:
    """Writes the words of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        pieces = [token if token in CLITICS else f" {token}" for token in vocabulary.tokens]
        pieces[: len(SPECIAL_TOKENS)] = [""] * len(SPECIAL_TOKENS)
        self.piece_V = np.array(pieces, dtype=object)

    def __call__(self, words_PL: Tensor) -> list[str]:
        """The sentence of every row, up to its first `<eos>`."""
        words = words_PL.numpy()
        said = np.where((words == EOS).cumsum(axis=1) > 0, PAD, words)
        texts = ["".join(pieces) for pieces in self.piece_V[said].tolist()]
        return [self._tidied(text, words[row]) for row, text in enumerate(texts)]

    def _tidied(self, text: str, words_L: npt.NDArray[np.int64]) -> str:
        """Without the first space; a clitic that has no word before it stands alone."""
        return text[1:] if text[:1] in ("", " ") else self.vocabulary.decode(words_L.tolist())
