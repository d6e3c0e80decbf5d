"""A batch of sentences is written as each of them alone."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.data.vocabulary import CLITICS, SPECIAL_TOKENS, Vocabulary
from densevid.inference.compat import Detokenizer

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "dog", "runs", "can", "a", *CLITICS))
NUMBERS = st.integers(0, len(VOCABULARY) - 1)


@given(st.integers(0, 6).flatmap(lambda words: st.lists(st.lists(NUMBERS, min_size=words, max_size=words), max_size=5)))
def test_as_the_vocabulary_decodes_them(rows: list[list[int]]) -> None:
    words_PL = torch.tensor(rows, dtype=torch.long).reshape(len(rows), -1 if rows and rows[0] else 0)
    assert Detokenizer(VOCABULARY)(words_PL) == [VOCABULARY.decode(row) for row in rows]


def test_clitics_join_and_nothing_follows_the_end() -> None:
    words_PL = torch.tensor([[4, 8, 9, 3, 5], [8, 8, 4, 1, 5], [3, 4, 4, 4, 4]])
    assert Detokenizer(VOCABULARY)(words_PL) == ["dogn't's", "n't n't dog runs", ""]
