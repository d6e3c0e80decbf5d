"""Actionness: the formula step by step, and files that do not fit."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from densevid.checkpoint import ACTIONNESS, LoadedModel, load_model, save_model
from densevid.errors import InputError
from densevid.model.priors import Actionness
from helpers.random_models import WIDTH, random_actionness, random_model


@given(st.integers(1, 7), st.integers(0, 20))
def test_a_step_counts_by_its_features_and_their_change(steps: int, seed: int) -> None:
    actionness = random_actionness(3)
    values = np.random.default_rng(seed).normal(size=(steps, 3)).astype(np.float16)
    value, change = actionness.value_F.tolist(), actionness.change_F.tolist()
    for step, found in enumerate(actionness.of_steps(values).tolist()):
        here = values[step].astype(float)
        before = values[step - 1].astype(float) if step else (values[1].astype(float) if steps > 1 else here)
        wanted = float(actionness.bias) + sum(
            value[f] * here[f] + change[f] * abs(here[f] - before[f]) for f in range(3)
        )
        assert found == pytest.approx(wanted, abs=1e-4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    loaded = random_model({}, {})
    save_model(tmp_path / "model", LoadedModel(**{**vars(loaded), "actionness": random_actionness(WIDTH)}), {})
    return tmp_path / "model"


def test_actionness_is_saved_with_the_model_and_not_rounded(folder: Path) -> None:
    loaded = load_model(folder)
    assert loaded.actionness is not None
    save_model(folder, loaded, {}, half_precision=True)
    again = load_model(folder).actionness
    assert again is not None and torch.equal(again.value_F, loaded.actionness.value_F)
    assert load_model(folder, fitted=False).actionness is None


@pytest.mark.parametrize("broken", ["garbage", "names", "format", "shape", "nan"])
def test_a_file_that_does_not_fit_is_one_line(folder: Path, broken: str) -> None:
    path, parts = folder / ACTIONNESS, random_actionness(WIDTH).parts
    if broken == "garbage":
        path.write_bytes(b"no tensors")
    elif broken == "names":
        save_file({"other": torch.zeros(3)}, path)
    elif broken == "format":
        save_file(parts, path, metadata={"densevid": '{"format": 99}'})
    else:
        parts["change_F"] = parts["change_F"][1:] if broken == "shape" else parts["change_F"] * math.nan
        save_file(parts, path, metadata={"densevid": '{"format": 1}'})
    with pytest.raises(InputError, match=ACTIONNESS) as error:
        load_model(folder)
    assert "\n" not in str(error.value)


def test_actionness_with_nan_is_not_written(tmp_path: Path) -> None:
    fit = Actionness(torch.tensor([math.inf]), torch.zeros(1), torch.zeros(1))
    with pytest.raises(InputError, match="value_F does not fit"):
        fit.save(tmp_path / ACTIONNESS)
    assert not list(tmp_path.iterdir())
