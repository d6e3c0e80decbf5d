"""What a folder was filled from, and what is chosen of tables: nothing is trained here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from densevid.cli import main
from helpers.clip_collections import write_collection
from research.paper_tables.definitions import datasets, tables
from research.paper_tables.engine import Reproduction, Request
from research.paper_tables.prepared_data import Inputs


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "clips", clips=40, splits=("train", "train", "val"))


def command_of(clips: Path, out: Path, *more: str, table: str = "8") -> list[str]:
    return ["reproduce", table, "--data", "msvd-timelines", "--clips", str(clips), "--quick", "--out", str(out), *more]


def reproduction(clips: Path, out: Path, lines: list[str]) -> Reproduction:
    request = Request(datasets()["msvd-timelines"], [tables()[8]], Inputs(clips=clips), out, quick=True)
    return Reproduction(request, lines.append)


def change_features(clips: Path) -> None:
    """The same clips and widths, other numbers."""
    values = np.load(clips / "features.npy")
    np.save(clips / "features.npy", values + np.float16(1))


def test_a_plan_writes_nothing(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command_of(clips, tmp_path / "out", "--plan")) == 0
    assert "to train" in capsys.readouterr().out and not (tmp_path / "out").exists()


def test_other_features_of_the_same_clips_are_refused(clips: Path, tmp_path: Path, capsys: object) -> None:
    reported: list[str] = []
    reproduction(clips, tmp_path / "out", reported).claim()
    moved = shutil.copytree(clips, tmp_path / "elsewhere")
    reproduction(moved, tmp_path / "out", reported).claim()
    assert not reported, "the same files in another place are the same data"
    change_features(moved)
    assert isinstance(capsys, pytest.CaptureFixture)
    assert main(command_of(moved, tmp_path / "out", "--plan")) == 2
    assert "was filled from other data (features)" in capsys.readouterr().err


def test_what_was_noted_before_is_accepted_once_and_completed(clips: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    first = reproduction(clips, tmp_path / "out", reported)
    first.claim()
    whole = json.loads(first.noted.read_text())
    older = {name: whole[name] for name in ("data", "annotations", "streams")}
    first.noted.write_text(json.dumps(older))
    assert reproduction(clips, tmp_path / "out", reported).plan() and len(reported) == 1
    assert "files and features could not be compared" in reported[0] and json.loads(first.noted.read_text()) == older
    reproduction(clips, tmp_path / "out", reported).claim()
    assert json.loads(first.noted.read_text()) == whole and len(reported) == 2
    reproduction(clips, tmp_path / "out", reported).claim()
    assert len(reported) == 2


@pytest.mark.parametrize("content", ["[]", "{}", '{"data": "msvd-timelines"}'])
def test_a_note_of_another_shape_is_named(
    content: str, clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out" / "msvd-timelines-quick" / "data.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert main(command_of(clips, tmp_path / "out", "--plan")) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "data.json" in lines[0]


def test_clips_without_features_are_one_line(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (clips / "features.npy").unlink()
    (clips / "clips").mkdir()
    for name in json.loads((clips / "clips.json").read_text()):
        (clips / "clips" / f"{name}.mp4").touch()
    assert main(command_of(clips, tmp_path / "out", "--plan")) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "has no features.npy" in lines[0]


@pytest.mark.parametrize(
    ("table", "row", "model"),
    [
        ("8", "other-search", "end-to-end, seed 0"),
        ("4", "end-to-end-proposals", "end-to-end, seed 0"),
        ("4", "end-to-end", "end-to-end, seed 0"),
        ("5", "captions-1", "captions-1, seed 0"),
    ],
)
def test_a_row_is_chosen_by_its_name_or_its_models(
    table: str, row: str, model: str, clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command_of(clips, tmp_path / "out", "--plan", "--rows", row, table=table)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"{model}: to train")


@pytest.mark.parametrize("more", [["--plan"], ["--only", "train"], ["--only", "predict"]])
def test_rows_that_a_table_does_not_have_are_an_error(
    more: list[str], clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command_of(clips, tmp_path / "out", *more, "--rows", "procnets-prop", table="5")) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "table 5 has no procnets-prop, but" in lines[0] and "captions-1, captions-2" in lines[0]
