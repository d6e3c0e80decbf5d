"""The baselines of support: a sentence for every clip, and an annotator apart from the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from densevid.cli import run_program
from densevid.evaluation.evaluate import evaluate
from densevid.events import read_events
from research.reports import support_baselines

CLIPS = {
    "a": {"split": "val", "seconds": 4, "captions": ["a man cooks", "a dog runs", "a cat sits"]},
    "b": {"split": "train", "captions": ["a man is cooking rice", "a man is cooking rice", "a cow"]},
}


def test_the_files_can_be_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clips.json").write_text(json.dumps(CLIPS))
    (tmp_path / "labels.json").write_text(json.dumps({"a": "cooking"}))
    words = ["x", str(tmp_path), "--out", str(tmp_path / "out"), "--labels", str(tmp_path / "labels.json")]
    monkeypatch.setattr("sys.argv", words)
    program = support_baselines
    assert run_program("x", program.__doc__, program.add_arguments, program.run) == 0
    sentences = {path.stem: read_events(path)["a"][0].sentence for path in (tmp_path / "out").glob("[mlo]*.json")}
    assert sentences["most_frequent"] == "a man is cooking rice"
    assert sentences["labels"] == "someone is cooking"
    others = json.loads((tmp_path / "out" / "references_others.json").read_text())
    assert sorted([sentences["one_annotator"], *others["a"]["sentences"]]) == sorted(CLIPS["a"]["captions"])
    result = evaluate(tmp_path / "out" / "most_frequent.json", f"{tmp_path / 'clips.json'}:val", metrics=["support"])
    assert result.headlines() == {"support": 0}
