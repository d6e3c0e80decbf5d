"""Cross-validation of the actionness: every clip is scored by a fit that has not seen it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from densevid.cli import run_program
from densevid.timelines.clips import ClipCollection
from helpers.clip_collections import write_collection
from research.bundled_model.actionness_folds import HeldOut, add_arguments, cross_validate, run


def program(arguments: list[str]) -> int:
    return run_program("actionness_folds", None, add_arguments, run, arguments)


def test_figures_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    held_out = HeldOut(rng.normal(1, 1, 30), np.r_[rng.normal(-1, 1, 19), 0.5])
    pairs = [(one > other) + (one == other) / 2 for one in held_out.event_N for other in held_out.no_event_M]
    assert held_out.area_under_curve == pytest.approx(np.mean(pairs))
    right = [1 / (1 + np.exp(-held_out.event_N)), 1 / (1 + np.exp(held_out.no_event_M))]
    assert held_out.loss == pytest.approx(-np.mean([np.log(each).mean() for each in right]))
    assert f"{(held_out.event_N < 0).sum()} of 30 clips missed" in held_out.line()
    assert HeldOut(np.zeros(3), np.zeros(2)).area_under_curve == 0.5


def test_every_clip_is_scored_once_and_constant_features_are_recognized(tmp_path: Path) -> None:
    folder = write_collection(tmp_path, clips=60, splits=("train",), negatives=30)
    held_out = cross_validate(ClipCollection.read(folder), "train", 0.05)
    assert (len(held_out.event_N), len(held_out.no_event_M)) == (60, 30)
    assert held_out.area_under_curve > 0.95


def test_a_line_for_every_ridge_and_one_for_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_collection(tmp_path / "clips", clips=40, splits=("train",), negatives=20)
    assert program(["--data", str(folder), "--ridge", "0.02", "0.5"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("ridge 0.02: ") and second.startswith("ridge 0.5: ") and first[10:] != second[10:]
    assert program(["--data", str(folder), "--ridge", "0"]) == 2
    assert "--ridge must be above 0" in capsys.readouterr().err
    captioned = write_collection(tmp_path / "captioned", clips=40, splits=("train",))
    assert program(["--data", str(captioned)]) == 2
    assert "some must have none" in capsys.readouterr().err
