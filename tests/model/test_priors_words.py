"""The word prior: scores of words under a mask and fit of sentences, by hand; files that do not fit."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from densevid.checkpoint import ACTIONNESS, WORD_PRIOR, LoadedModel, load_model, model_files, save_model
from densevid.errors import InputError
from densevid.model.priors import WordPrior
from helpers.random_models import WIDTH, random_actionness, random_model, random_word_prior

FEATURES, WORDS = 6, 12


def made() -> WordPrior:
    return random_word_prior(FEATURES, WORDS)


def test_word_scores_are_those_of_the_mean_under_the_mask() -> None:
    expected, features = made(), torch.randn(2, 5, FEATURES, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[0.0, 1, 1, 0, 0], [0.2, 0.2, 0.2, 0.2, 0.2], [0, 0, 0, 0.5, 1]])
    found = expected.word_scores(features, torch.tensor([5, 5]), mask, torch.tensor([1, 0, 0]))
    means = [features[1, 1:3].mean(0), features[0].mean(0), (0.5 * features[0, 3] + features[0, 4]) / 1.5]
    for row, mean in zip(found, means, strict=True):
        torch.testing.assert_close(row, (mean - expected.mean_F) @ expected.directions_FR @ expected.words_RV)


def test_an_empty_mask_scores_no_word() -> None:
    """The release's masks may be negative, zero, or reach beyond the end of a video."""
    found = made().word_scores(
        torch.randn(1, 5, FEATURES), torch.tensor([3]), torch.tensor([[-1.0, -2, 0, 1, 0]]), torch.tensor([0])
    )
    assert bool((found == 0).all())


@given(st.lists(st.lists(st.integers(0, WORDS - 1), min_size=7, max_size=7), min_size=1, max_size=4))
def test_the_fit_of_sentences_counts_distinct_words(sentences: list[list[int]]) -> None:
    expected = made()
    expected_PV = torch.randn(1, WORDS, generator=torch.Generator().manual_seed(2))
    expected_PV[:, :4] = 0
    worth = expected.fit_of_sentences(expected_PV, torch.tensor([sentences]))[0]
    for found, sentence in zip(worth.tolist(), sentences, strict=True):
        words = [word for word in set(sentence) if word >= 4]
        size = math.sqrt(sum(float(expected.rarity_V[word]) ** 2 for word in words))
        gain = sum(float(expected_PV[0, word]) for word in words)
        assert found == pytest.approx(gain / size if words else 0.0, abs=1e-4)


@pytest.fixture
def loaded() -> LoadedModel:
    few = {"max_words": 5, "min_proposals": 4, "max_proposals": 4}
    return random_model({}, {"beam": 6, "mbr_weight": 0.8, "word_prior_weight": 3.0} | few)


def test_a_word_prior_is_saved_with_the_model(loaded: LoadedModel, tmp_path: Path) -> None:
    save_model(tmp_path / "model", loaded, {})
    again = load_model(tmp_path / "model").word_prior
    assert again is not None and loaded.word_prior is not None
    assert torch.equal(again.words_RV, loaded.word_prior.words_RV)
    save_model(tmp_path / "model", loaded, {}, half_precision=True)
    rounded = load_model(tmp_path / "model").word_prior
    assert rounded is not None and torch.equal(rounded.words_RV, loaded.word_prior.words_RV.half().float())
    huge = replace(loaded.word_prior, mean_F=loaded.word_prior.mean_F + 1e5)
    with pytest.raises(InputError, match="does not fit"):
        save_model(tmp_path / "other", replace(loaded, word_prior=huge), {}, half_precision=True)
    assert not (tmp_path / "other").exists()
    assert load_model(tmp_path / "model").word_prior_on(torch.device("cpu")) is not None


@pytest.mark.parametrize("broken", ["garbage", "names", "format", "shape", "nan"])
def test_a_file_that_does_not_fit_is_one_line(loaded: LoadedModel, tmp_path: Path, broken: str) -> None:
    save_model(tmp_path / "model", loaded, {})
    path = tmp_path / "model" / WORD_PRIOR
    assert loaded.word_prior is not None
    parts = {name: part.clone() for name, part in loaded.word_prior.parts.items()}
    if broken == "garbage":
        path.write_bytes(b"no tensors")
    elif broken == "names":
        save_file({"other": torch.zeros(3)}, path)
    elif broken == "format":
        save_file(parts, path, metadata={"densevid": '{"format": 99}'})
    else:
        parts["rarity_V"] = parts["rarity_V"][:-1] if broken == "shape" else parts["rarity_V"] * math.nan
        save_file(parts, path, metadata={"densevid": '{"format": 1}'})
    with pytest.raises(InputError, match=WORD_PRIOR) as error:
        load_model(tmp_path / "model")
    assert "\n" not in str(error.value)


def test_files_and_tensors_of_01_are_read_and_written_under_the_present_names(
    loaded: LoadedModel, tmp_path: Path
) -> None:
    assert loaded.word_prior is not None
    folder = tmp_path / "model"
    save_model(folder, replace(loaded, actionness=random_actionness(WIDTH)), {})
    parts = {name.replace("mean_F", "usual_F"): part for name, part in loaded.word_prior.parts.items()}
    (folder / WORD_PRIOR).unlink()
    save_file(parts, folder / "expected_words.safetensors", metadata={"densevid": '{"format": 1}'})
    (folder / ACTIONNESS).rename(folder / "happening.safetensors")
    again = load_model(folder)
    assert again.word_prior is not None and torch.equal(again.word_prior.mean_F, loaded.word_prior.mean_F)
    assert again.actionness is not None
    assert {"expected_words.safetensors", "happening.safetensors"} <= {file.name for file in model_files(folder)}
    save_model(folder, again, {})
    names = {file.name for file in folder.iterdir()}
    assert {WORD_PRIOR, ACTIONNESS} <= names and "expected_words.safetensors" not in names
