"""A row that fails is told, its traceback kept, and the others go on; what succeeds is in test_reproduce.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from clip_collections import write_collection
from densevid.cli import main
from densevid.reproduce.model_runs import TRAINED

ROWS = "captions-1,captions-2"


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("clips"), clips=200, splits=("train", "train", "val"))


def words(clips: Path, out: Path, *more: str) -> list[str]:
    data = ["--data", "msvd-timelines", "--clips", str(clips), "--quick", "--rows", ROWS, "--threads", "1"]
    return ["reproduce", "5", *data, "--out", str(out), *more]


@pytest.mark.parametrize("parallel", ["1", "2"])
def test_an_error_of_the_device_is_told_of_every_row(
    parallel: str, clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing can be computed on `meta`: torch raises what is no error of the input."""
    command = words(clips, tmp_path, "--only", "train", "--device", "meta", "--parallel", parallel)
    assert main(command) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and "2 models failed: " in err
    for row in ROWS.split(","):
        (line,) = [line for line in err.splitlines() if f"{row}, seed 0: failed" in line]
        log = Path(line.partition("; see ")[2].partition(")")[0])
        assert "Traceback" in log.read_text() and "Error: " in line


def test_a_row_that_cannot_be_written_leaves_the_others(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(clips, tmp_path, "--plan")) == 0
    folder = tmp_path / "msvd-timelines-quick"
    runs = [folder / line.rpartition("(")[2].rstrip(")") for line in capsys.readouterr().out.splitlines()]
    blocked, free = sorted(runs)
    blocked.parent.parent.mkdir(parents=True)
    blocked.parent.write_text("not a folder")
    assert main(words(clips, tmp_path, "--only", "train", "--device", "cpu")) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and "1 models failed: captions-1, seed 0: " in err
    assert (free / TRAINED).exists()
    blocked.parent.unlink()
    assert main(words(clips, tmp_path, "--only", "train", "--device", "cpu")) == 0
    (blocked / "model" / "weights.safetensors").write_bytes(b"broken")
    capsys.readouterr()
    assert main(words(clips, tmp_path, "--only", "time", "--device", "cpu")) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and "captions-1, seed 0: " in err and "not timed" in err
    assert (free / "speed.json").exists() and not (blocked / "speed.json").exists()
    assert "Traceback" in (blocked / "train.log").read_text()
