"""Similarity of word numbers, by tensors, against METEOR's formula by counting words, as the reward has it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.data.vocabulary import EOS, PAD, SPECIAL_TOKENS
from densevid.inference import reranking as module
from densevid.inference.reranking import expected_similarity, similarity
from densevid.training.sentence_scores import WordMatches

LONGEST = 7
Words = list[int]
sentences = st.lists(st.integers(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + 3), max_size=LONGEST)
candidates = st.lists(sentences, min_size=1, max_size=5)


def rows(sentences: list[Words]) -> torch.Tensor:
    """K x L, each ended and padded to the longest."""
    padded = [[*words, EOS, *[PAD] * LONGEST][:LONGEST] for words in sentences]
    return torch.tensor(padded)


def counted(sentences: list[Words]) -> torch.Tensor:
    """The same by counting words."""
    texts = [tuple(map(str, words)) for words in sentences]
    matches = WordMatches([[text] for text in texts])
    scores = [[matches.score(one, other) for other in range(len(texts))] for one in texts]
    return torch.tensor(scores, dtype=torch.float64)


@given(candidates)
def test_it_is_meteors_formula(sentences: list[Words]) -> None:
    assert torch.allclose(similarity(rows(sentences)[None])[0].double(), counted(sentences), atol=1e-6)


@given(st.lists(st.tuples(sentences, st.floats(-9, 0)), min_size=1, max_size=5), st.sampled_from([0.3, 1.0]))
def test_candidates_count_by_their_chance(sentences: list[tuple[Words, float]], power: float) -> None:
    chance = torch.tensor([power * score for _, score in sentences]).double().exp()
    want = counted([words for words, _ in sentences]) @ (chance / chance.sum())
    scores = torch.tensor([[score for _, score in sentences]])
    got = expected_similarity(rows([words for words, _ in sentences])[None], scores, power)
    assert torch.allclose(got[0].double(), want, atol=1e-5)


def test_many_alike_outvote_the_likeliest() -> None:
    sentences = rows([[9], [4, 5, 6], [4, 5, 7], [4, 5, 8]])[None]
    chosen = expected_similarity(sentences, torch.tensor([[0.4, 0.2, 0.2, 0.2]]).log(), 1.0).argmax()
    assert int(chosen) == 1  # three alike; of equals the likelier, who stands first


def test_a_place_without_a_sentence_is_never_chosen() -> None:
    sentences = rows([[4, 5], [4, 5]])[None]
    assert expected_similarity(sentences, torch.tensor([[-1.0, -torch.inf]]), 0.5)[0].tolist()[1] == -torch.inf


def test_events_do_not_depend_on_how_many_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    words, scores = torch.randint(0, 9, (5, 4, LONGEST)), torch.randn(5, 4)
    together = expected_similarity(words, scores, 0.8)
    monkeypatch.setattr(module, "EVENTS_AT_ONCE", 2)
    assert torch.equal(expected_similarity(words, scores, 0.8), together)
