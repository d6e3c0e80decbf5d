"""Expected words: what a sentence is worth by hand, and what a captioner says of events when features have a say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from densevid.checkpoint import EXPECTED_WORDS, LoadedModel, load_model, save_model
from densevid.errors import InputError
from densevid.inference.captioner import Captioner
from densevid.inference.expected_words import ExpectedWords, compared_by
from random_models import random_expected_words, random_model, random_track

FEATURES, WORDS = 6, 12


def made() -> ExpectedWords:
    return random_expected_words(FEATURES, WORDS)


def test_what_is_expected_is_that_of_the_mean_under_the_mask() -> None:
    expected, features = made(), torch.randn(2, 5, FEATURES, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[0.0, 1, 1, 0, 0], [0.2, 0.2, 0.2, 0.2, 0.2], [0, 0, 0, 0.5, 1]])
    found = expected.of(features, mask, torch.tensor([1, 0, 0]))
    means = [features[1, 1:3].mean(0), features[0].mean(0), (0.5 * features[0, 3] + features[0, 4]) / 1.5]
    for row, mean in zip(found, means, strict=True):
        torch.testing.assert_close(row, (mean - expected.usual_F) @ expected.directions_FR @ expected.words_RV)


def test_a_mask_of_nothing_expects_nothing() -> None:
    """The release's masks may be negative, or all zero."""
    found = made().of(torch.randn(1, 5, FEATURES), torch.tensor([[-1.0, -2, 0, 0, 0]]), torch.tensor([0]))
    assert bool((found == 0).all())


@given(st.lists(st.lists(st.integers(0, WORDS - 1), min_size=7, max_size=7), min_size=1, max_size=4))
def test_the_worth_of_sentences_is_that_of_their_distinct_words(sentences: list[list[int]]) -> None:
    expected = made()
    expected_PV = torch.randn(1, WORDS, generator=torch.Generator().manual_seed(2))
    expected_PV[:, :4] = 0
    worth = expected.worth(expected_PV, torch.tensor([sentences]))[0]
    for found, sentence in zip(worth.tolist(), sentences, strict=True):
        words = [word for word in set(sentence) if word >= 4]
        size = math.sqrt(sum(float(expected.rarity_V[word]) ** 2 for word in words))
        gain = sum(float(expected_PV[0, word]) for word in words)
        assert found == pytest.approx(gain / size if words else 0.0, abs=1e-4)


def test_steps_are_compared_by_what_words_depend_on() -> None:
    loaded, expected = random_model({}, {}), made()
    features = torch.randn(2, 5, FEATURES)
    as_they_are = replace(loaded.config.inference, compare="features")
    assert compared_by(expected, as_they_are)(features) is features
    assert compared_by(None, loaded.config.inference)(features) is features
    meant = compared_by(expected, loaded.config.inference)(features)
    torch.testing.assert_close(meant.float(), (features - expected.usual_F) @ expected.directions_FR)
    alone = compared_by(expected, loaded.config.inference)(features[1:, :4])
    torch.testing.assert_close(alone, meant[1:, :4], rtol=1e-12, atol=1e-12)


@pytest.fixture
def loaded() -> LoadedModel:
    few = {"max_words": 5, "min_proposals": 4, "max_proposals": 4}
    return random_model({}, {"beam": 6, "agreement": 0.8, "expected_weight": 3.0} | few)


def with_weight(loaded: LoadedModel, weight: float) -> Captioner:
    settings = replace(loaded.config.inference, expected_weight=weight)
    return Captioner(replace(loaded, config=replace(loaded.config, inference=settings)))


def test_with_all_the_weight_the_sentence_is_the_worthiest_of_the_beam(loaded: LoadedModel) -> None:
    captioner, track = with_weight(loaded, 1e6), random_track(20, seed=3)
    plain = with_weight(loaded, 0.0)
    steps = torch.tensor([[0.0, 8], [6, 20], [2, 5], [10, 14], [0, 20], [15, 20]])
    spans = [(start / 2, end / 2) for start, end in steps.tolist()]
    told = [event.sentence for event in captioner.caption_segments(track, spans)]
    assert told != [event.sentence for event in plain.caption_segments(track, spans)]

    expected = loaded.expected_words
    assert expected is not None
    features = torch.from_numpy(np.asarray(track.values))[None]
    with torch.inference_mode():
        video = plain.model.encode(features, torch.ones(1, 20, dtype=torch.bool))
        mask = plain.model.segment_mask(steps, 20, torch.full((len(steps),), 20.0))
        rows = torch.zeros(len(steps), dtype=torch.long)
        beams = plain.speaker(video, mask, rows)
        worth = expected.worth_of(beams.words_PKL, features, mask, rows)
        best = beams.words_PKL[torch.arange(len(steps)), worth.argmax(dim=1)]
    assert told == plain.texts(best)


def test_it_says_the_same_whatever_shares_its_batch(loaded: LoadedModel) -> None:
    captioner = with_weight(loaded, 1e6)  # a mask that reaches beyond the end of a video would be heard
    tracks = [random_track(steps) for steps in (6, 40, 13, 25, 9)]
    together = [[event.sentence for event in events] for events in captioner.caption_many(tracks)]
    assert together == [[event.sentence for event in captioner.caption(track)] for track in tracks]
    assert together != [[event.sentence for event in with_weight(loaded, 0.0).caption(track)] for track in tracks]


def test_it_travels_with_the_model(loaded: LoadedModel, tmp_path: Path) -> None:
    save_model(tmp_path / "model", loaded, {})
    again = load_model(tmp_path / "model").expected_words
    assert again is not None and loaded.expected_words is not None
    torch.testing.assert_close(again.words_RV, loaded.expected_words.words_RV.half().float())
    assert load_model(tmp_path / "model").expected_on(torch.device("cpu")) is not None


@pytest.mark.parametrize("broken", ["garbage", "names", "shape", "nan"])
def test_a_file_that_does_not_fit_is_one_line(loaded: LoadedModel, tmp_path: Path, broken: str) -> None:
    save_model(tmp_path / "model", loaded, {})
    path = tmp_path / "model" / EXPECTED_WORDS
    assert loaded.expected_words is not None
    parts = {name: value.clone() for name, value in vars(loaded.expected_words).items()}
    if broken == "garbage":
        path.write_bytes(b"no tensors")
    elif broken == "names":
        save_file({"other": torch.zeros(3)}, path)
    else:
        parts["rarity_V"] = parts["rarity_V"][:-1] if broken == "shape" else parts["rarity_V"] * math.nan
        save_file(parts, path)
    with pytest.raises(InputError, match=EXPECTED_WORDS) as error:
        load_model(tmp_path / "model")
    assert "\n" not in str(error.value)
