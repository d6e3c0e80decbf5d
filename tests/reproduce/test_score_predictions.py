"""Scores of event files that no evaluator gives: F1 of a short list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from densevid.reproduce.score_predictions import Scorer, part_of, value_of

TRUTH = {
    "v_a": {"duration": 10.0, "timestamps": [[0.0, 4.0], [5.0, 10.0]], "sentences": ["A.", "B."]},
    "v_b": {"duration": 8.0, "timestamps": [[0.0, 8.0]], "sentences": ["C."]},
}


def f1(folder: Path, told: dict[str, list[list[float]]]) -> float | None:
    folder.mkdir(exist_ok=True)
    rows = {v: [{"sentence": "x", "timestamp": t, "proposal_score": 0.5} for t in spans] for v, spans in told.items()}
    (folder / "truth.json").write_text(json.dumps(TRUTH))
    (folder / "summary.json").write_text(json.dumps({"version": "1", "results": rows, "external_data": {}}))
    scores = Scorer((folder / "truth.json",), "multi").score(folder / "summary.json", [part_of("F1")])
    return value_of(scores, "F1")


def test_of_what_is_told(tmp_path: Path) -> None:
    assert f1(tmp_path / "all", {"v_a": [[0.0, 4.0], [5.0, 10.0]], "v_b": [[0.0, 8.0]]}) == pytest.approx(1)
    assert f1(tmp_path / "none", {"v_a": [], "v_b": []}) == 0
    precision, recall = 1 / 2, 1 / 3  # one of two spans is right, one of three events is found; v_b is silent
    expected = 2 * precision * recall / (precision + recall)
    assert f1(tmp_path / "some", {"v_a": [[0.0, 4.0], [4.0, 5.0]]}) == pytest.approx(expected)
    seven = 7 / 10  # of the ten tIoUs .5, .55, ..., .95 an overlap of .8 reaches .5 to .8
    assert f1(tmp_path / "near", {"v_a": [], "v_b": [[0.0, 6.4]]}) == pytest.approx(
        2 * seven * seven / 3 / (seven * 4 / 3)
    )
