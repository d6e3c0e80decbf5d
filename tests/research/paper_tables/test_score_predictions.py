"""Scores of event files: F1 of the top n, which no official evaluator has, and scores of changed files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from densevid.errors import InputError
from research.paper_tables.score_predictions import Scorer, events_per_video, part_of, score_file, value_of

TRUTH = {
    "v_a": {"duration": 10.0, "timestamps": [[0.0, 4.0], [5.0, 10.0]], "sentences": ["A.", "B."]},
    "v_b": {"duration": 8.0, "timestamps": [[0.0, 8.0]], "sentences": ["C."]},
}


def f1(folder: Path, spans: dict[str, list[list[float]]]) -> float | None:
    folder.mkdir(exist_ok=True)
    rows = {v: [{"sentence": "x", "timestamp": t, "proposal_score": 0.5} for t in own] for v, own in spans.items()}
    (folder / "truth.json").write_text(json.dumps(TRUTH))
    (folder / "summary.json").write_text(json.dumps({"version": "1", "results": rows, "external_data": {}}))
    scores = Scorer((folder / "truth.json",), "multi").score(folder / "summary.json", [part_of("F1")])
    return value_of(scores, "F1")


def test_f1_counts_missing_and_wrong_spans(tmp_path: Path) -> None:
    assert f1(tmp_path / "all", {"v_a": [[0.0, 4.0], [5.0, 10.0]], "v_b": [[0.0, 8.0]]}) == pytest.approx(1)
    assert f1(tmp_path / "none", {"v_a": [], "v_b": []}) == 0
    precision, recall = 1 / 2, 1 / 3  # one of two spans is right, one of three events is found; v_b is silent
    expected = 2 * precision * recall / (precision + recall)
    assert f1(tmp_path / "some", {"v_a": [[0.0, 4.0], [4.0, 5.0]]}) == pytest.approx(expected)
    seven = 7 / 10  # of the ten tIoUs .5, .55, ..., .95 an overlap of .8 reaches .5 to .8
    assert f1(tmp_path / "near", {"v_a": [], "v_b": [[0.0, 6.4]]}) == pytest.approx(
        2 * seven * seven / 3 / (seven * 4 / 3)
    )


def event_file(*spans: list[float]) -> str:
    rows = [{"sentence": "x", "timestamp": span, "proposal_score": 0.5} for span in spans]
    return json.dumps({"version": "1", "results": {"v_b": rows}, "external_data": {}})


def test_other_predictions_or_references_are_scored_anew(tmp_path: Path) -> None:
    truth, predictions = tmp_path / "truth.json", tmp_path / "summary.json"
    truth.write_text(json.dumps({"v_b": TRUTH["v_b"]}))
    predictions.write_text(event_file([0.0, 8.0]))
    scorer = Scorer((truth,), "multi")
    assert scorer.score(predictions, ["list"])["list"]["F1"] == pytest.approx(1)
    written = score_file(predictions).stat().st_mtime_ns
    assert scorer.score(predictions, ["list"])["list"]["F1"] == pytest.approx(1)
    assert score_file(predictions).stat().st_mtime_ns == written, "the same is scored once"
    predictions.write_text(event_file([0.0, 1.0]))
    assert scorer.score(predictions, ["list"])["list"]["F1"] == 0
    truth.write_text(json.dumps({"v_b": {**TRUTH["v_b"], "timestamps": [[0.0, 1.0]]}}))
    scores = scorer.score(predictions, ["proposals"])
    assert "list" not in scores, "what was scored against other references is not kept"
    assert scorer.score(predictions, ["list"])["list"]["F1"] == pytest.approx(1)


@pytest.mark.parametrize("content", [{}, [], {"parts": []}, {"parts": {"list": 1}}, {"parts": {"list": {}}}])
def test_a_score_file_that_says_nothing_is_written_again(content: object, tmp_path: Path) -> None:
    truth, predictions = tmp_path / "truth.json", tmp_path / "summary.json"
    truth.write_text(json.dumps({"v_b": TRUTH["v_b"]}))
    predictions.write_text(event_file([0.0, 8.0]))
    scorer = Scorer((truth,), "multi")
    scorer.score(predictions, ["list"])
    noted = json.loads(score_file(predictions).read_text())
    about = {"provenance": noted["provenance"]} if isinstance(content, dict) else None
    score_file(predictions).write_text(json.dumps({**content, **about} if about else content))
    assert scorer.score(predictions, ["list"])["list"]["F1"] == pytest.approx(1)


@pytest.mark.parametrize("content", [{}, [], {"results": []}, {"results": {"v_b": 1}}, {"results": {"v_b": [1]}}])
def test_predictions_that_are_none_are_one_line(content: object, tmp_path: Path) -> None:
    truth, predictions = tmp_path / "truth.json", tmp_path / "summary.json"
    truth.write_text(json.dumps({"v_b": TRUTH["v_b"]}))
    predictions.write_text(json.dumps(content))
    for part in ("list", "proposals"):
        with pytest.raises(InputError, match=r"summary\.json"):
            Scorer((truth,), "multi").score(predictions, [part])
    with pytest.raises(InputError, match=r"summary\.json"):
        events_per_video(predictions)
