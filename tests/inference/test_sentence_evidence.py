"""Sentence evidence: from a beam's tensors to words, against plain loops, and to JSON and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densevid.data.vocabulary import EOS, PAD, SPECIAL_TOKENS
from densevid.errors import InputError
from densevid.inference.captioner import Captioner
from densevid.inference.search import Beams
from densevid.inference.sentence_evidence import BeamEvidence, EvidenceTexts, NamedLabel, SentenceEvidence
from densevid.model.tags import Labels
from helpers.random_models import random_model, random_track

EVIDENCE = SentenceEvidence(
    "a man rides a horse",
    ("a man rides a horse", "a man is riding"),
    (-3.5, -4.25),
    {"horse": 0.25, "rides": -0.125},
    (NamedLabel("riding or walking with horse", "riding a horse", 0.75), NamedLabel("sorrel", None, 0.5)),
    0.875,
)
numbers = st.floats(-50, 0, allow_nan=False).map(lambda value: round(value, 4))


def test_evidence_survives_json() -> None:
    assert SentenceEvidence.of_plain(json.loads(json.dumps(EVIDENCE.as_plain()))) == EVIDENCE


@given(st.lists(st.tuples(st.text(max_size=12), numbers), max_size=4), st.dictionaries(st.text(max_size=5), numbers))
def test_any_evidence_survives_json(beam: list[tuple[str, float]], prior: dict[str, float]) -> None:
    made = SentenceEvidence("x", tuple(text for text, _ in beam), tuple(log for _, log in beam), prior)
    assert SentenceEvidence.of_plain(json.loads(json.dumps(made.as_plain()))) == made


@pytest.mark.parametrize(
    "change",
    [
        {"caption": None, "sentences": None},
        {"log_probability": ["much", "more"]},
        {"log_probability": [-1.0]},
        {"prior": [1, 2]},
        {"prior": {"horse": None}},
        {"labels": [["name", None]]},
        {"labels": [["name", None, "sure"]]},
        {"labels": 3},
        {"proposal_score": {}},
    ],
    ids=str,
)
def test_damaged_evidence_is_one_line(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="not the evidence of an event") as error:
        SentenceEvidence.of_plain(EVIDENCE.as_plain() | change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", list(EVIDENCE.as_plain()))
def test_evidence_with_a_part_missing_is_one_line(key: str) -> None:
    with pytest.raises(InputError, match="not the evidence of an event"):
        SentenceEvidence.of_plain({name: value for name, value in EVIDENCE.as_plain().items() if name != key})


def beams() -> Beams:
    """Three sentences of two events; the second event has two."""
    words = torch.tensor([[[5, 6, EOS], [5, EOS, PAD], [7, 8, 9]], [[4, EOS, PAD], [6, 6, EOS], [7, EOS, PAD]]])
    return Beams(words, torch.tensor([[-0.5, -1.0, -2.0], [-0.25, -3.0, -torch.inf]]))


def labels() -> Labels:
    valid = torch.tensor([[True, True], [True, False]])
    return Labels(torch.tensor([[1, 3], [0, 2]]), torch.tensor([[0.9, 0.2], [0.5, 0.8]]), valid, torch.zeros(2, 2, 5))


def test_a_beam_becomes_sums_and_what_the_prior_says_of_each_word() -> None:
    change = torch.randn(2, 12, generator=torch.Generator().manual_seed(0))
    found, given = BeamEvidence.of(beams(), change, labels()), beams()
    assert found.prior_PKL is not None
    for event in range(2):
        for place in range(3):
            words = given.words_PKL[event, place].tolist()
            count = sum(word != PAD for word in words)
            mean = float(given.log_probability_PK[event, place])
            assert float(found.log_probability_PK[event, place]) == pytest.approx(mean * count)
            assert found.prior_PKL[event, place].tolist() == [float(change[event, word]) for word in words]
    assert found.value_PN is not None and found.value_PN.tolist()[1] == [0.5, 0.0], "an absent stream says nothing"
    assert set(found.columns) == {"words_PKL", "log_probability_PK", "prior_PKL", "label_PN", "value_PN"}
    assert set(BeamEvidence.of(beams()).columns) == {"words_PKL", "log_probability_PK"}
    assert torch.equal(found.cpu().words_PKL, found.words_PKL)


def texts() -> EvidenceTexts:
    loaded = random_model()
    vocabulary = loaded.vocabulary
    made = EvidenceTexts(vocabulary, lambda rows: list(map(vocabulary.decode, rows.tolist())), loaded.model, ("one",))
    made.names, made.phrases = ["dog", "chess", "cat", "piano"], {"chess": "playing chess"}
    return made


def test_evidence_in_words() -> None:
    change = torch.arange(24.0).view(2, 12)
    first, second = texts()(BeamEvidence.of(beams(), change, labels()), ["one", "two"], [0.5, 0.25])
    assert (first.caption, second.caption) == ("one", "two") and second.proposal_score == 0.25
    assert first.sentences == ("dog runs", "dog", "two people dance") and first.log_probability == (-1.5, -2.0, -6.0)
    assert second.sentences == ("a", "runs runs"), "a place without a sentence is left out"
    tokens = (*SPECIAL_TOKENS, "a", "dog", "runs", "two", "people", "dance")
    said = {word for row in beams().words_PKL[0].flatten().tolist() for word in [tokens[row]]}
    assert first.prior == {word: float(tokens.index(word)) for word in said}
    assert first.labels[0].phrase == "playing chess" and first.labels[0].value == pytest.approx(0.9)
    assert [label.name for label in first.labels] == ["chess", "piano"]
    assert [label.name for label in second.labels] == ["dog"], "those of absent streams are left out"


def test_nothing_but_a_beam_is_enough() -> None:
    first, _ = texts()(BeamEvidence.of(beams()), ["one", "two"], [1.0, 1.0])
    assert first.prior == {} and first.labels == ()


def test_evidence_goes_with_its_event_through_a_batch() -> None:
    """Of several videos at once, with a word prior: the same as of each video alone."""
    captioner = Captioner(random_model({}, {"beam": 3, "word_prior_weight": 3.0, "max_proposals": 12}))
    tracks = [random_track(steps, steps) for steps in (40, 13, 29)]
    spans = [[(0.0, 5.0), (1.0, 3.0)], [], [(2.0, 9.0)]]
    together = list(captioner.captioned_segments(zip(tracks, spans, strict=True), evidence=True))
    assert [len(each.evidence) for each in together] == [2, 0, 1]
    for each, track, own in zip(together, tracks, spans, strict=True):
        (alone,) = captioner.captioned_segments([(track, own)], evidence=True)
        for ours, theirs, event in zip(each.evidence, alone.evidence, each.events, strict=True):
            assert ours.caption == event.sentence and ours.sentences == theirs.sentences
            np.testing.assert_allclose(ours.log_probability, theirs.log_probability, atol=1e-3)
            assert ours.prior.keys() == theirs.prior.keys() and ours.prior
            np.testing.assert_allclose(list(ours.prior.values()), list(theirs.prior.values()), atol=1e-3)
            assert ours.caption in ours.sentences
