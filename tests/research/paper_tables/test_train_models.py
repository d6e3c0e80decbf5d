"""A row that fails is told, its traceback kept, and the others go on; what succeeds is in test_reproduce.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from densevid.cli import main
from densevid.inference.predict import OpenedJob, PredictionJob, open_job
from helpers.clip_collections import write_collection
from research.paper_tables.model_runs import TRAINED
from research.paper_tables.train_models import sitting_seconds

ROWS = "captions-1,captions-2"


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("clips"), clips=200, splits=("train", "train", "val"))


def words(clips: Path, out: Path, *more: str) -> list[str]:
    data = ["--data", "msvd-timelines", "--clips", str(clips), "--quick", "--rows", ROWS, "--threads", "1"]
    return ["reproduce", "5", *data, "--out", str(out), *more]


def test_a_device_that_is_not_there_is_told_once(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing can be computed on `meta`."""
    assert main(words(clips, tmp_path, "--only", "train", "--device", "meta", "--parallel", "2")) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "--device meta: not a device" in told


def test_an_error_that_is_not_of_the_input_is_told_of_every_row(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*words: object, **named: object) -> Path:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr("research.paper_tables.train_models.train", broken)
    assert main(words(clips, tmp_path, "--only", "train", "--device", "cpu", "--parallel", "1")) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and err.count("failed (RuntimeError: the device is gone") == 2


def broken_for(run: Path) -> Callable[[PredictionJob], OpenedJob]:
    """Opening the model of this run fails as a device may."""

    def opened(job: PredictionJob) -> OpenedJob:
        if run in job.model.parents:
            raise RuntimeError("the device is gone")
        return open_job(job)

    return opened


def test_a_row_that_cannot_be_written_leaves_the_others(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(words(clips, tmp_path, "--plan")) == 0
    folder = tmp_path / "msvd-timelines-quick"
    runs = [folder / line.rpartition("(")[2].rstrip(")") for line in capsys.readouterr().out.splitlines()]
    blocked, free = sorted(runs)
    blocked.parent.parent.mkdir(parents=True)
    blocked.parent.write_text("not a folder")
    assert main(words(clips, tmp_path, "--only", "train", "--device", "cpu")) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and "1 failed: captions-1, seed 0: " in err
    assert (free / TRAINED).exists()
    blocked.parent.unlink()
    assert main(words(clips, tmp_path, "--only", "train", "--device", "cpu")) == 0
    (blocked / "vocabulary.txt").write_text("broken")
    capsys.readouterr()
    assert main(words(clips, tmp_path, "--only", "time", "--device", "cpu")) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and "captions-1, seed 0: " in err and "not timed" in err
    assert (free / "speed.json").exists() and not (blocked / "speed.json").exists()
    assert "Traceback" in (blocked / "train.log").read_text()
    monkeypatch.setattr("research.paper_tables.predict_models.open_job", broken_for(blocked))
    capsys.readouterr()
    assert main(words(clips, tmp_path, "--only", "predict", "--device", "cpu")) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and "RuntimeError: the device is gone" in err
    predicted = {path.parent.parent.name.rpartition("-")[0] for path in folder.glob("predictions/*/seed-0/*.json")}
    assert "captions-1" not in predicted and predicted


def test_seconds_of_several_sittings_add_up() -> None:
    assert sitting_seconds([]) == 0
    assert sitting_seconds([1.0, 2.0, 3.0]) == 3.0
    assert sitting_seconds([1.0, 5.0, 2.0, 4.0, 1.5]) == pytest.approx(5 + 4 + 1.5)
