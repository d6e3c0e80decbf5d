"""Captions of a model whose word prior counts in the choice among the sentences of a beam."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from densevid.checkpoint import LoadedModel
from densevid.inference.captioner import Captioner
from densevid.inference.explain import explain
from helpers.random_models import random_model, random_track


@pytest.fixture
def loaded() -> LoadedModel:
    few = {"max_words": 5, "min_proposals": 4, "max_proposals": 4}
    return random_model({}, {"beam": 6, "mbr_weight": 0.8, "word_prior_weight": 3.0} | few)


def with_weight(loaded: LoadedModel, weight: float) -> Captioner:
    settings = replace(loaded.config.inference, word_prior_weight=weight)
    return Captioner(replace(loaded, config=replace(loaded.config, inference=settings)))


def test_with_all_the_weight_the_sentence_is_the_worthiest_of_the_beam(loaded: LoadedModel) -> None:
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


def test_it_says_the_same_whatever_shares_its_batch(loaded: LoadedModel) -> None:
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
