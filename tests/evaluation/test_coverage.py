"""What a score covers is reported: subsets by length, given segments, paragraph files, repeated names, huge times."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from densevid.errors import InputError
from densevid.evaluation.evaluate import PARTS, evaluate
from densevid.evaluation.report import as_text, coverage_table


def annotated(*events: tuple[str, float, float]) -> dict[str, Any]:
    return {"timestamps": [[s, e] for _, s, e in events], "sentences": [text for text, _, _ in events]}


def predicted(**videos: list[tuple[str, float, float]]) -> dict[str, Any]:
    results = {
        video: [{"sentence": text, "timestamp": [s, e], "proposal_score": 0.5} for text, s, e in events]
        for video, events in videos.items()
    }
    return {"version": "", "external_data": {}, "results": results}


REFERENCES = {
    "v_a": annotated(("a man walks", 0, 60), ("a dog runs", 60, 70)),
    "v_b": annotated(("two cats play", 0, 10)),
}


def test_a_video_that_only_lacks_long_events_is_not_unknown() -> None:
    predictions = predicted(v_a=[("a man", 0, 59)], v_b=[("cats", 0, 9)], v_x=[("x", 0, 5), ("y", 0, 90)])
    coverage = evaluate(predictions, REFERENCES, min_seconds=50, metrics=["proposals"], cache=False).coverage
    assert coverage.unknown_videos == ["v_x"]
    assert coverage.skipped == ["1 predicted videos (2 events) are in no reference file"]
    assert coverage.reference_videos == 1
    assert coverage.subset["reference_videos_without_such_an_event"] == 1
    assert coverage.files["references"][0]["videos"] == 2
    assert "reference videos without such an event" in as_text(coverage_table(coverage))


def test_segments_without_prediction_and_unused_predictions_are_counted() -> None:
    predictions = predicted(v_a=[("a man", 0, 60), ("again", 0, 60), ("elsewhere", 5, 6)])
    found = evaluate(predictions, REFERENCES, metrics=["segments"], cache=False)
    counts = {"segments": 3, "scored_as_empty": 2, "unused_predictions": 2}
    assert found.to_dict()["coverage"]["segments"] == counts
    shown = as_text(coverage_table(found.coverage))
    assert "3 (2 without prediction, scored as empty)" in shown
    assert [note.split(";")[0] for note in found.coverage.warnings] == [
        "segments: 2 of 3 have no prediction with their times and score as empty",
        "segments: 2 of 3 predictions have the times of no segment and are not scored",
    ]


def test_segments_that_all_meet_raise_no_warning() -> None:
    predictions = predicted(v_a=[("a man", 0, 60), ("a dog", 60, 70)], v_b=[("cats", 0, 10)])
    coverage = evaluate(predictions, REFERENCES, metrics=["segments"], cache=False).coverage
    assert coverage.segments == {"segments": 3, "scored_as_empty": 0, "unused_predictions": 0}
    assert coverage.warnings == []
    assert evaluate(predictions, REFERENCES, metrics=["proposals"], cache=False).coverage.segments == {}


def test_paragraph_files_are_named_and_held_against_the_predictions(tmp_path: Path) -> None:
    path = tmp_path / "texts.json"
    path.write_text(json.dumps({"a": "A man walks. A dog runs.", "c": "A car."}))
    predictions = predicted(v_a=[("a man", 0, 60)], v_b=[("cats", 0, 10)])
    found = evaluate(predictions, REFERENCES, metrics=["paragraph"], paragraphs=[path], cache=False)
    (file,) = found.coverage.files["paragraphs"]
    assert (file["name"], file["videos"], file["hash"][:7]) == ("texts.json", 2, "sha256:")
    assert found.coverage.paragraph == {"reference_videos": 2, "missing_videos": ["v_c"], "unknown_videos": ["v_b"]}
    assert found.coverage.warnings == [
        "texts.json: the first video name lacks `v_`; for paragraphs all its names get it"
    ]
    assert "texts.json, 2 videos" in as_text(coverage_table(found.coverage))


@pytest.mark.parametrize("lengths", [{"min_seconds": 50}, {"max_seconds": 15}])
def test_paragraph_files_and_a_subset_cannot_be_compared(lengths: dict[str, float]) -> None:
    with pytest.raises(InputError, match="whole videos"):
        evaluate(predicted(v_a=[]), REFERENCES, paragraphs=[{"v_a": "a man"}], cache=False, **lengths)


@pytest.mark.parametrize("limit", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["min_seconds", "max_seconds"])
def test_limits_of_length_are_finite(name: str, limit: float) -> None:
    with pytest.raises(InputError, match="finite"):
        evaluate(predicted(v_a=[]), REFERENCES, cache=False, **{name: limit})


def test_repeated_names_are_warnings(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"version": "", "external_data": {}, "results": {"v_a": [], "v_b": [], "v_a": []}}')
    references = tmp_path / "r.json"
    entry = '{"timestamps": [[0, 1]], "sentences": ["x"]}'
    references.write_text("{" + ", ".join(f'"v_{n}": {entry}' for n in (1, 1, 2, 2, 3, 3, 4, 4, 5)) + "}")
    notes = evaluate(path, references, metrics=["proposals"], cache=False).coverage.warnings
    assert notes[0] == "p.json: 'v_a' stands more than once in its object; the last one counts"
    assert [note.split()[1] for note in notes[1:]] == ["'v_1'", "'v_2'", "'v_3'", "1"]


def test_the_versions_of_the_tools_are_named() -> None:
    coverage = evaluate(predicted(v_a=[]), REFERENCES, metrics=["proposals"], cache=False).coverage
    assert coverage.meteor == "native"
    assert set(coverage.versions) == {"densevid", "numpy", "pycocoevalcap"}


def test_times_near_the_largest_number_give_numbers_and_no_warning() -> None:
    huge = 1.7e308
    predictions = predicted(v_a=[("a", -huge, huge), ("b", huge, -huge), ("c", 0, huge)])
    references = {"v_a": annotated(("a", -huge, huge), ("b", 0, huge), ("c", huge, -huge))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for settings in ({}, {"min_seconds": 5}):
            found = evaluate(predictions, references, metrics=PARTS, cache=False, **settings)
            json.dumps(found.to_dict(), allow_nan=False)
