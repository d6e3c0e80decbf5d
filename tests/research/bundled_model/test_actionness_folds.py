"""How a fit of whether anything happens is judged: by clips it has not seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.timelines.clips import ClipCollection
from helpers.clip_collections import write_collection
from research.bundled_model.actionness_folds import HeldOut, judge_folds, main


def test_figures_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    held_out = HeldOut(rng.normal(1, 1, 30), np.r_[rng.normal(-1, 1, 19), 0.5])
    pairs = [(told > quiet) + (told == quiet) / 2 for told in held_out.told_N for quiet in held_out.quiet_M]
    assert held_out.rightly_ranked == pytest.approx(np.mean(pairs))
    right = [1 / (1 + np.exp(-held_out.told_N)), 1 / (1 + np.exp(held_out.quiet_M))]
    assert held_out.loss == pytest.approx(-np.mean([np.log(each).mean() for each in right]))
    assert f"{(held_out.told_N < 0).sum()} of 30 clips missed" in held_out.line()
    assert HeldOut(np.zeros(3), np.zeros(2)).rightly_ranked == 0.5


def test_every_clip_is_judged_once_and_what_stands_still_is_known(tmp_path: Path) -> None:
    folder = write_collection(tmp_path, clips=60, splits=("train",), negatives=30)
    held_out = judge_folds(ClipCollection.read(folder), "train", 0.05)
    assert (len(held_out.told_N), len(held_out.quiet_M)) == (60, 30)
    assert held_out.rightly_ranked > 0.95


def test_a_line_for_every_ridge_and_bad_input_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_collection(tmp_path / "clips", clips=40, splits=("train",), negatives=20)
    assert main(["--data", str(folder), "--ridge", "0.02", "0.5"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("ridge 0.02: ") and second.startswith("ridge 0.5: ") and first[10:] != second[10:]
    with pytest.raises(InputError, match="--ridge must be above 0"):
        main(["--data", str(folder), "--ridge", "0"])
    told = write_collection(tmp_path / "told", clips=40, splits=("train",))
    with pytest.raises(InputError, match="none is quiet"):
        main(["--data", str(told)])
