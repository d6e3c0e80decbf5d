"""Reranking the sentences of a beam: by minimum Bayes risk, against METEOR's formula, and by the word prior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.checkpoint import LoadedModel
from densevid.data.vocabulary import EOS, PAD, SPECIAL_TOKENS
from densevid.inference import reranking as module
from densevid.inference.captioner import Captioner
from densevid.inference.explain import explain
from densevid.inference.reranking import expected_similarity, similarity
from densevid.training.sentence_scores import WordMatches
from helpers.random_models import random_model, random_track

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
def test_similarity_is_meteors_formula(sentences: list[Words]) -> None:
    assert torch.allclose(similarity(rows(sentences)[None])[0].double(), counted(sentences), atol=1e-6)


@given(st.lists(st.tuples(sentences, st.floats(-9, 0)), min_size=1, max_size=5), st.sampled_from([0.3, 1.0]))
def test_candidates_count_by_their_chance(sentences: list[tuple[Words, float]], power: float) -> None:
    chance = torch.tensor([power * score for _, score in sentences]).double().exp()
    want = counted([words for words, _ in sentences]) @ (chance / chance.sum())
    scores = torch.tensor([[score for _, score in sentences]])
    got = expected_similarity(rows([words for words, _ in sentences])[None], scores, power)
    assert torch.allclose(got[0].double(), want, atol=1e-5)


def test_many_similar_candidates_win_over_the_likeliest() -> None:
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


@pytest.fixture
def loaded() -> LoadedModel:
    few = {"max_words": 5, "min_proposals": 4, "max_proposals": 4}
    return random_model({}, {"beam": 6, "mbr_weight": 0.8, "word_prior_weight": 3.0} | few)


def with_weight(loaded: LoadedModel, weight: float) -> Captioner:
    settings = replace(loaded.config.inference, word_prior_weight=weight)
    return Captioner(replace(loaded, config=replace(loaded.config, inference=settings)))


def test_with_all_the_weight_the_word_prior_chooses_the_sentence(loaded: LoadedModel) -> None:
    captioner, track = with_weight(loaded, 1e6), random_track(20, seed=3)
    plain = with_weight(loaded, 0.0)
    steps = torch.tensor([[0.0, 8], [6, 20], [2, 5], [10, 14], [0, 20], [15, 20]])
    spans = [(start / 2, end / 2) for start, end in steps.tolist()]
    captions = [event.sentence for event in captioner.caption_segments(track, spans)]
    assert captions != [event.sentence for event in plain.caption_segments(track, spans)]

    expected = loaded.word_prior
    assert expected is not None
    features = torch.from_numpy(np.asarray(track.values))[None]
    with torch.inference_mode():
        video = plain.model.encode(features, torch.ones(1, 20, dtype=torch.bool))
        mask = plain.model.segment_mask(steps, 20, torch.full((len(steps),), 20.0))
        rows = torch.zeros(len(steps), dtype=torch.long)
        beams = plain.caption_generator(video, mask, rows)
        worth = expected.fit_of_sentences(
            expected.word_scores(features, torch.tensor([20]), mask, rows), beams.words_PKL
        )
        best = beams.words_PKL[torch.arange(len(steps)), worth.argmax(dim=1)]
    assert captions == plain.detokenize(best)


def test_captions_do_not_depend_on_the_rest_of_the_batch(loaded: LoadedModel) -> None:
    captioner = with_weight(loaded, 1e6)  # a mask that reaches beyond the end of a video would be heard
    tracks = [random_track(steps) for steps in (6, 40, 13, 25, 9)]
    together = [[event.sentence for event in events] for events in captioner.caption_many(tracks)]
    assert together == [[event.sentence for event in captioner.caption(track)] for track in tracks]
    assert together != [[event.sentence for event in with_weight(loaded, 0.0).caption(track)] for track in tracks]


def test_explained_captions_are_the_captions(loaded: LoadedModel) -> None:
    """Proposals that no timeline shows are captioned anew, by the same rule."""
    captioner, track = with_weight(loaded, 30.0), random_track(30, seed=5)
    captions = {(round(event.start, 3), round(event.end, 3)): event.sentence for event in captioner.caption(track)}
    plain = {(round(e.start, 3), round(e.end, 3)): e.sentence for e in with_weight(loaded, 0.0).caption(track)}
    shown = explain(replace(loaded, config=captioner.config), track).proposals
    spans = [(round(shown_one.event.start, 3), round(shown_one.event.end, 3)) for shown_one in shown]
    both = [(" ".join(one.words), captions[span], plain[span]) for one, span in zip(shown, spans, strict=True)]
    assert [words for words, _, _ in both] == [caption for _, caption, _ in both]
    assert any(words != other for words, _, other in both)
