"""Model folders: what is written is read back, and nobody's files are lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from densevid.checkpoint import (
    ACTIONNESS,
    CALIBRATION,
    FILES,
    REDUCTION,
    SENTENCE_CONFIDENCE,
    WEIGHTS,
    WORD_PRIOR,
    LoadedModel,
    load_model,
    save_model,
)
from densevid.config import Config
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import FeatureRecipe


@pytest.fixture
def loaded() -> LoadedModel:
    model = {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 12, "kernels": [2, 5]}
    config = Config().with_values({"model": model, "features": {"streams": ["one"], "widths": [3]}})
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "a", "dog"))
    return LoadedModel(MaskedTransformer(config, 6), config, vocabulary, FeatureRecipe({"name": "made", "version": 1}))


def test_a_saved_model_loads_equal_and_names_its_origin(loaded: LoadedModel, tmp_path: Path) -> None:
    save_model(tmp_path / "deep" / "model", loaded, {"densevid": "1"})
    again = load_model(tmp_path / "deep" / "model")
    assert (again.config, again.vocabulary, again.recipe) == (loaded.config, loaded.vocabulary, loaded.recipe)
    ours = loaded.model.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in again.model.state_dict().items())
    with safe_open(tmp_path / "deep" / "model" / WEIGHTS, "pt") as file:
        assert json.loads(file.metadata()["densevid"])["provenance"] == {"densevid": "1"}
    assert [item.name for item in (tmp_path / "deep").iterdir()] == ["model"]


def test_all_files_of_a_folder_may_be_read_by_the_same_people(loaded: LoadedModel, tmp_path: Path) -> None:
    save_model(tmp_path / "model", loaded, {})
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert len(set(modes.values())) == 1, modes


def test_a_folder_may_hold_a_calibration(loaded: LoadedModel, tmp_path: Path) -> None:
    table = {"format": {"version": 1}, "event": {"names": ["logit"], "weights": [0.5], "bias": -1.0}}
    save_model(tmp_path / "with", replace(loaded, calibration=table), {})
    save_model(tmp_path / "without", loaded, {})
    assert load_model(tmp_path / "with").calibration == table and load_model(tmp_path / "without").calibration is None
    (tmp_path / "with" / CALIBRATION).write_text("not = = toml")
    with pytest.raises(InputError, match="not a readable TOML file"):
        load_model(tmp_path / "with")


def test_an_older_model_is_replaced_and_nothing_else_is(loaded: LoadedModel, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(folder, replace(loaded, calibration={"format": {"version": 1}}), {})
    later = {REDUCTION, WORD_PRIOR, ACTIONNESS, SENTENCE_CONFIDENCE}
    assert sorted(item.name for item in folder.iterdir()) == sorted({*FILES} - later)
    save_model(folder, loaded, {"second": "time"})
    assert sorted(item.name for item in folder.iterdir()) == sorted({*FILES} - later - {CALIBRATION})
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds more than a model"):
        save_model(folder, loaded, {})
    assert (folder / "thesis.tex").read_text() == "years of work"


def test_a_failure_leaves_the_older_model(loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    save_model(folder, loaded, {"first": "time"})
    before = (folder / "config.toml").read_bytes()
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError("the disk is gone")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="disk"):
        save_model(folder, loaded, {"second": "time"})
    assert (folder / "config.toml").read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


def test_a_place_that_is_no_folder_is_one_line(loaded: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/model"):
        with pytest.raises(InputError, match="cannot write"):
            save_model(tmp_path / place, loaded, {})


def test_weights_that_are_not_numbers_are_named(loaded: LoadedModel, tmp_path: Path) -> None:
    save_model(tmp_path / "model", loaded, {})
    weights = load_file(tmp_path / "model" / WEIGHTS)
    weights["caption_decoder.words.bias"][2] = torch.nan
    save_file(weights, tmp_path / "model" / WEIGHTS)
    with pytest.raises(InputError, match=r"hold NaN or infinity: caption_decoder\.words\.bias"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("features.toml", "version = 1", "features.toml: a feature recipe needs a name"),
        ("features.toml", "= 1", "features.toml: not a readable TOML file"),
        ("config.toml", "format = 3", "config.toml: model format 3"),
        ("config.toml", "[format]\nversion = 1\n[model]\nheads = 7", "config.toml: model.heads = 7 must divide"),
        ("vocabulary.txt", "a\nb\n", "vocabulary.txt: a vocabulary has four special tokens"),
    ],
)
def test_a_broken_file_is_named(loaded: LoadedModel, tmp_path: Path, file: str, text: str, message: str) -> None:
    save_model(tmp_path / "model", loaded, {})
    (tmp_path / "model" / file).write_text(text)
    with pytest.raises(InputError, match=message):
        load_model(tmp_path / "model")
