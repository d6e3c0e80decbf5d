"""`densevid calibrate` on a tiny trained model, and the summary that follows from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from densevid.checkpoint import load_model, model_files, save_model
from densevid.cli import main
from densevid.data.layouts import open_features
from densevid.errors import ExitCode
from densevid.inference.confidence import Calibration
from helpers.tiny_run import train_here, write_tiny_data


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = write_tiny_data(tmp_path_factory.mktemp("tiny"))
    assert train_here(data, data / "run", validate=False) == 0
    return data


def words(data: Path, verb: str, *more: str) -> list[str]:
    return [verb, "--model", str(data / "run" / "model"), "--features", str(data / "train"), *more]


def test_a_model_learns_how_sure_it_is(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--references", str(trained / "train.json")]
    assert main(words(trained, "calibrate", *settings)) == 0
    folder = trained / "run" / "model"
    assert "calibration.toml: fitted on" in capsys.readouterr().out
    loaded = load_model(folder)
    assert loaded.calibration is not None and "provenance" in loaded.calibration
    assert Calibration.of_table(loaded.calibration).fitted["videos"] == 8
    assert folder / "calibration.toml" in model_files(folder)

    out = trained / "summary.json"
    assert main(words(trained, "predict", "--summary", "--out", str(out))) == 0
    assert "no calibration" not in capsys.readouterr().err
    results = json.loads(out.read_text())["results"]
    scores = [row["proposal_score"] for rows in results.values() for row in rows]
    assert all(0.4 < score < 1 for score in scores)

    save_model(trained / "copy", loaded, {})
    assert load_model(trained / "copy").calibration == loaded.calibration


def test_what_cannot_be_fitted_is_one_line(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = trained / "other.json"
    other.write_text(json.dumps({"nobody": {"duration": 9, "timestamps": [[0, 5]], "sentences": ["x"]}}))
    assert main(words(trained, "calibrate", "--references", str(other))) == 2
    assert "no video has both features and true events" in capsys.readouterr().err


def test_bad_videos_are_named_and_left_out(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest is used, and the exit code shows that some could not be."""
    shutil.copytree(trained / "run" / "model", tmp_path / "model")
    (tmp_path / "model" / "calibration.toml").unlink(missing_ok=True)
    source = open_features(trained / "train")
    (tmp_path / "features").mkdir()
    for number, video in enumerate(source.videos()):
        values = np.array(source.track(video).values)
        values[:2] = np.nan if number == 7 else values[:2]
        for name, part in (("resnet", values[:, :24]), ("bn", values[:, 24:])):
            np.save(tmp_path / "features" / f"{video}_{name}.npy", part[:0] if number == 3 else part)
    files = ["--model", str(tmp_path / "model"), "--features", str(tmp_path / "features"), "--seconds-per-step", "0.5"]
    assert main(["calibrate", *files, "--references", str(trained / "train.json")]) == ExitCode.PARTIAL
    shown = capsys.readouterr()
    assert "fitted on" in shown.out and "6 videos" in shown.out
    empty, hollow = source.videos()[3], source.videos()[7]
    assert (
        f"{hollow}: its features hold NaN" in shown.err and f"{empty}: its resnet array has shape (0, 24)" in shown.err
    )
    assert "2 of 8 videos cannot be used and are left out" in shown.err
    assert load_model(tmp_path / "model").calibration is not None
