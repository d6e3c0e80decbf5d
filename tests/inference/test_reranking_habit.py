"""The habit weight: sentences that a decoder would say of any video lose, those whose words need the video win."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from densevid.data.vocabulary import EOS, INIT, PAD
from densevid.inference import reranking as module
from densevid.inference.captioner import Captioner
from densevid.inference.explain import explain
from densevid.inference.reranking import UNSEEN_STEPS, choose_sentences, habit, rerank
from densevid.inference.search import Beams
from helpers.random_models import WIDTH, random_model, random_track
from helpers.tagged_models import made_classifiers, tagged_model

WORDS = torch.tensor(
    [
        [[5, 6, EOS, PAD], [7, 8, 9, EOS], [4, 4, 4, 4]],
        [[10, EOS, PAD, PAD], [EOS, PAD, PAD, PAD], [6, 5, 4, EOS]],
    ]
)
BEAMS = Beams(WORDS, torch.tensor([[-0.5, -0.6, -0.9], [-1.0, -0.5, -0.7]]))


@torch.inference_mode()
def plain_habit(model: Any, words: list[int], width: int) -> float:
    """The log-probability of one sentence, word by word, about a video of zeros."""
    video = model.encode(torch.zeros(1, UNSEEN_STEPS, width), torch.ones(1, UNSEEN_STEPS, dtype=torch.bool))
    state, total, before = model.caption_decoder.begin(video.memory), 0.0, INIT
    for word in words:
        if word == PAD:
            break
        total += float(model.next_words(torch.tensor([[before]]), state)[0, -1].log_softmax(dim=-1)[word])
        before = word
    return total


@pytest.mark.parametrize("decoder", ["self-attention", "lstm"])
@pytest.mark.parametrize("together", [512, 2])
def test_habit_is_the_log_probability_without_a_video(
    decoder: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SENTENCES_AT_ONCE", together)
    model = random_model({"decoder": decoder}).model
    found = habit(model, WORDS)
    want = [[plain_habit(model, row, WIDTH) for row in rows] for rows in WORDS.tolist()]
    torch.testing.assert_close(found, torch.tensor(want), atol=1e-4, rtol=1e-4)


def test_a_model_with_tags_has_a_habit_without_any() -> None:
    with made_classifiers():
        model = tagged_model().model
    want = [[plain_habit(model, row, 11) for row in rows] for rows in WORDS.tolist()]
    torch.testing.assert_close(habit(model, WORDS), torch.tensor(want), atol=1e-4, rtol=1e-4)


def test_the_sentence_that_needs_the_video_wins() -> None:
    """Sums are -1.5, -2.4, -3.6: the first is the likeliest, the second the most surprising without a video."""
    habits = torch.tensor([[-2.0, -9.0, -4.0], [-3.0, -1.0, -2.0]])
    settings = random_model({}, {"beam": 3, "length_penalty": 0.0, "habit_weight": 0.5}).config.inference
    for weight, places in ((0.0, (0, 1)), (0.5, (1, 1)), (2.0, (1, 0))):
        chosen = choose_sentences(BEAMS, replace(settings, habit_weight=weight), habit_PK=habits)
        lengths = torch.tensor([[3, 4, 4], [2, 1, 4]])
        want = (BEAMS.log_probability_PK * lengths - weight * habits).argmax(dim=1)
        assert tuple(want.tolist()) == places
        assert torch.equal(chosen.words_PL, WORDS[torch.arange(2), want])
        assert torch.equal(chosen.log_probability_P, BEAMS.log_probability_PK[torch.arange(2), want]), "as reported"


def test_with_mbr_too_the_odd_one_needs_the_video() -> None:
    """Three alike win out of habit; with the weight the one that differs does."""
    words = torch.tensor([[[4, 5, 6, EOS], [4, 5, 7, EOS], [4, 5, 8, EOS], [9, 10, 11, EOS]]])
    beams = Beams(words, torch.full((1, 4), -1.0))
    settings = random_model({}, {"beam": 4, "mbr_weight": 1.0, "habit_weight": 1.0}).config.inference
    habits = torch.tensor([[-4.0, -4.0, -4.0, -12.0]])
    plain = choose_sentences(beams, replace(settings, habit_weight=0.0), habit_PK=habits)
    surprising = choose_sentences(beams, settings, habit_PK=habits)
    assert plain.words_PL[0, 0] == 4 and surprising.words_PL[0].tolist() == [9, 10, 11, EOS]


@pytest.mark.parametrize("mbr", [0.0, 1.0])
def test_a_place_without_a_sentence_is_never_chosen_for_its_habit(mbr: float) -> None:
    beams = Beams(WORDS[:1], torch.tensor([[-0.5, -torch.inf, -0.9]]))
    settings = random_model({}, {"beam": 3, "mbr_weight": mbr, "habit_weight": 1.0}).config.inference
    chosen = choose_sentences(beams, settings, habit_PK=torch.tensor([[0.0, -1000.0, 0.0]]))
    assert chosen.words_PL[0].tolist() != WORDS[0, 1].tolist()


def test_without_the_weight_nothing_is_computed_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = random_model({}, {"beam": 3})

    def never(*_: Any) -> None:
        raise AssertionError("the habit was computed")

    monkeypatch.setattr(module, "habit", never)
    settings = loaded.config.inference
    want = choose_sentences(BEAMS, settings)
    found = rerank(None, BEAMS, settings, never, loaded.model)  # type: ignore[arg-type]
    assert torch.equal(found.words_PL, want.words_PL) and torch.equal(found.log_probability_P, want.log_probability_P)
    single = Beams(WORDS[:, :1], BEAMS.log_probability_PK[:, :1])
    heavy = replace(settings, habit_weight=5.0)
    assert torch.equal(rerank(None, single, heavy, never, loaded.model).words_PL, WORDS[:, 0])  # type: ignore[arg-type]


def test_captions_with_the_weight_are_those_of_a_plain_choice() -> None:
    loaded = random_model({}, {"beam": 5, "habit_weight": 3.0, "max_words": 5, "max_proposals": 12})
    captioner, track = Captioner(loaded), random_track(20, seed=3)
    spans = [(0.0, 4.0), (3.0, 10.0), (1.0, 2.5), (5.0, 7.0), (0.0, 10.0)]
    (captioned,) = captioner.captioned_segments([(track, spans)], evidence=True)
    changed = 0
    for event, evidence in zip(captioned.events, captioned.evidence, strict=True):
        rows = [loaded.vocabulary.encode(text, 6)[1:] for text in evidence.sentences]
        values = []
        for row, log in zip(rows, evidence.log_probability, strict=True):
            values.append(log - 3.0 * plain_habit(loaded.model, row[:5], WIDTH))
        best = max(range(len(values)), key=values.__getitem__)
        assert event.sentence == evidence.sentences[best]
        changed += best != 0
    assert changed, "another sentence than the likeliest, somewhere"


def test_explained_captions_are_the_captions() -> None:
    """Proposals that no timeline shows are captioned anew, by the same rule."""
    loaded = random_model({}, {"beam": 5, "habit_weight": 3.0, "max_words": 5, "max_proposals": 12})
    track = random_track(30, seed=5)
    plain = replace(loaded, config=loaded.config.with_values({"inference": {"habit_weight": 0.0}}))
    ours, theirs = (
        {(round(event.start, 3), round(event.end, 3)): event.sentence for event in Captioner(one).caption(track)}
        for one in (loaded, plain)
    )
    shown = explain(loaded, track).proposals
    spans = [(round(one.event.start, 3), round(one.event.end, 3)) for one in shown]
    assert [" ".join(one.words) for one in shown] == [ours[span] for span in spans]
    assert any(ours[span] != theirs[span] for span in spans)
