"""From files to results: reading, choosing parts, subsets, coverage, the JSON contract, comparison, tables."""

from __future__ import annotations

import csv
import doctest
import importlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import densevid
from densevid.errors import InputError
from densevid.evaluation import report
from densevid.evaluation.compare import Sample, compare, compare_samples, samples
from densevid.evaluation.evaluate import PARTS, Evaluation, evaluate
from densevid.evaluation.files import read_references
from densevid.legacy import forget_reports

TEXT = {"METEOR", "Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"}


def event(sentence: str, start: float, end: float, score: float | None = 0.5) -> dict[str, Any]:
    row = {"sentence": sentence, "timestamp": [start, end], "proposal_score": score}
    return {key: value for key, value in row.items() if value is not None}


def annotated(*events: tuple[str, float, float]) -> dict[str, Any]:
    return {"timestamps": [[s, e] for _, s, e in events], "sentences": [text for text, _, _ in events]}


REFERENCES: list[dict[str, Any]] = [
    {"v_a": annotated(("a man walks", 0, 60), ("a dog runs", 60, 70)), "v_b": annotated(("two cats play", 0, 10))},
    {"v_a": annotated(("the man is walking", 0, 55)), "v_c": annotated(("a car", 5, 80))},
]
PREDICTIONS: dict[str, Any] = {
    "version": "VERSION 1.0",
    "external_data": {},
    "results": {
        "v_a": [event("a man is walking", 0, 58, 0.9), event("a dog", 61, 70), event("a dog", 30, 33, 0.1)],
        "v_c": [],
        "v_x": [event("unknown", 0, 1)],
    },
}


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(PREDICTIONS, REFERENCES, metrics=PARTS, cache=False)


def test_the_json_report_keeps_its_keys(evaluation: Evaluation) -> None:
    content = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert content["protocol"] == "2018"
    assert set(content["captioning"]["average"]) == TEXT | {"Recall", "Precision", "F1"}
    assert list(content["captioning"]["per_tiou"]) == ["0.3", "0.5", "0.7", "0.9"]
    assert set(content["soda"]) == {"a", "b", "c", "d"}
    assert set(content["soda"]["c"]) == {"merged", "multi", "per_reference"}
    assert set(content["soda"]["c"]["merged"]) == {"precision", "recall", "f1"}
    assert set(content["paragraph"]) == TEXT
    assert {"AR@1", "AR@5", "AR@10", "AR@50", "AR@100", "AUC", "recall"} <= set(content["proposals"]["first"])
    assert list(content["proposals"]["pooled"]["recall"]) == [f"{t:g}" for t in np.linspace(0.5, 0.95, 10)]
    assert set(content["segments"]["micro"]) == set(content["segments"]["macro"]) == TEXT


@pytest.mark.parametrize("part", PARTS)
def test_parts_not_computed_are_absent(part: str) -> None:
    content = evaluate(PREDICTIONS, REFERENCES, metrics=[part], cache=False).to_dict()
    assert set(content) & set(PARTS) == {part}


def test_f1_is_that_of_the_reported_recall_and_precision(evaluation: Evaluation) -> None:
    assert evaluation.captioning is not None
    for scores in (evaluation.captioning.average(), *evaluation.captioning.per_tiou().values()):
        p, r = scores["Precision"], scores["Recall"]
        assert scores["F1"] == pytest.approx(2 * p * r / (p + r) if p + r else 0)


def test_coverage_names_every_missing_and_extra_video(evaluation: Evaluation) -> None:
    coverage = evaluation.coverage
    assert (coverage.reference_videos, coverage.predicted_videos) == (3, 2)
    assert coverage.missing_videos == ["v_b"]
    assert coverage.unknown_videos == ["v_x"]
    assert coverage.videos_without_events == ["v_c"]
    assert coverage.events_per_video == {"mean": 1.5, "min": 0.0, "max": 3.0}
    assert coverage.repeated_sentences == pytest.approx(1 / 4)
    assert coverage.distinct_sentences == pytest.approx(3 / 4)
    assert coverage.files["references"][0]["events"] == 3
    assert coverage.protocol == "2018"
    assert coverage.skipped == [
        "1 predicted videos (1 events) are in no reference file",
        "soda: 1 reference videos without a prediction list are not in its mean",
    ]


def test_the_same_from_paths_with_hashes(tmp_path: Path, evaluation: Evaluation) -> None:
    paths = [tmp_path / name for name in ("p.json", "r1.json", "r2.json")]
    for path, content in zip(paths, (PREDICTIONS, *REFERENCES), strict=True):
        path.write_text(json.dumps(content))
    again = densevid.evaluate(str(paths[0]), paths[1:], metrics=PARTS, cache=False)
    ours, theirs = again.to_dict(), evaluation.to_dict()
    assert {part: ours[part] for part in PARTS} == {part: theirs[part] for part in PARTS}
    assert again.coverage.files["predictions"]["hash"].startswith("sha256:")


def test_the_default_computes_every_part_that_the_data_allow() -> None:
    assert evaluate(PREDICTIONS, REFERENCES, cache=False).parts == ("captioning", "soda", "paragraph", "proposals")
    on_segments = {"results": {"v_b": [event("cats", 0, np.float32(10.0).item(), None)]}}
    found = evaluate(on_segments, REFERENCES, cache=False)
    assert found.parts == ("captioning", "soda", "paragraph", "segments")
    assert "proposal_score" in found.coverage.skipped[0]
    assert sum("is missing" in note for note in found.coverage.warnings) == 2
    assert "4 of 5 have no prediction" in found.coverage.warnings[-1]


def test_protocol_2021_is_the_same_every_time() -> None:
    first, second = (evaluate(PREDICTIONS, REFERENCES, protocol="2021", cache=False).captioning for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.average() == second.average()


def test_min_seconds_leaves_out_short_events_of_both_sides() -> None:
    found = evaluate(PREDICTIONS, REFERENCES, min_seconds=50, cache=False)
    assert found.coverage.reference_videos == 2
    assert found.coverage.subset["references_left_out"] == 2
    assert found.coverage.subset["predictions_left_out"] == 3
    by_hand = {"results": {"v_a": PREDICTIONS["results"]["v_a"][:1], "v_c": [], "v_x": []}}
    only_long = [{"v_a": annotated(("a man walks", 0, 60))}, {**REFERENCES[1]}]
    expected = evaluate(by_hand, only_long, cache=False)
    assert found.to_dict()["captioning"] == expected.to_dict()["captioning"]
    assert found.to_dict()["soda"] == expected.to_dict()["soda"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"protocol": "2020"}, "2017, 2018, 2021"),
        ({"metrics": ["bleurt"]}, "captioning, soda"),
        ({"soda_metric": "BERT"}, "METEOR, CIDEr"),
        ({"min_seconds": 5, "max_seconds": 3}, "no event is left"),
        ({"min_seconds": 1e6}, "no reference event"),
        ({"metric": "soda"}, "unknown setting"),
    ],
)
def test_an_unknown_or_contradictory_setting_is_an_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(PREDICTIONS, REFERENCES, cache=False, **settings)


def test_the_choice_of_the_meteor_engine_of_0_1_is_accepted_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    forget_reports()
    found = evaluate(PREDICTIONS, REFERENCES, cache=False, meteor="java")
    assert found.to_dict() == evaluate(PREDICTIONS, REFERENCES, cache=False).to_dict()
    assert capsys.readouterr().err.startswith("densevid: meteor has no effect any more")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "results"),
        ({"results": []}, "results"),
        ({"results": {"v_a": {}}}, "expected a list of events, got dict"),
        ({"results": {"v_a": [3]}}, "event 0: expected an object, got int"),
        (
            {"results": {"v_a": [event("x", 0, 1), {"sentence": "x", "timestamp": [True, 2]}]}},
            "event 1: .*must be a number",
        ),
        ({"results": {"v_a": [{"sentence": "x", "timestamp": [0, 10**400]}]}}, "must be finite"),
        ({"results": {"v_a": [{"sentence": "x", "timestamp": "ab"}]}}, r"must be \[start, end\]"),
    ],
)
def test_malformed_predictions_are_an_error(content: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as error:
        evaluate(path, REFERENCES, cache=False)
    assert str(error.value).startswith("p.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "references need"),
        ({"v": {"timestamps": [[0, 1]], "sentences": []}}, "1 timestamps but 0 sentences"),
        ({"v": {"timestamps": [[0, 1]]}}, '"sentences" must be a list'),
        ({"v": 3}, '"timestamps" must be a list'),
    ],
)
def test_malformed_references_are_an_error(content: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_references(content)


def test_per_video_scores_have_one_row_a_video(evaluation: Evaluation) -> None:
    header, rows = evaluation.per_video()
    assert [row[0] for row in rows] == ["v_a", "v_b", "v_c"]
    assert evaluation.captioning is not None
    mean = np.mean([row[header.index("METEOR")] for row in rows])
    assert mean == pytest.approx(evaluation.captioning.average()["METEOR"])
    assert rows[1][header.index("soda_c_merged_f1")] == ""
    assert evaluation.segments is not None
    macro = np.mean([row[header.index("segments_METEOR")] for row in rows])
    assert macro == pytest.approx(evaluation.segments.macro()["METEOR"])


def test_a_system_does_not_differ_from_itself(evaluation: Evaluation) -> None:
    for comparison in compare(evaluation, evaluation, draws=50):
        assert comparison.difference == 0
        assert comparison.difference_interval == (0.0, 0.0)
        assert comparison.p_value == 1.0


def test_comparisons_carry_the_reported_scores(evaluation: Evaluation) -> None:
    content = evaluation.to_dict()
    values = {c.name: c.first for c in compare(evaluation, evaluation, draws=5)}
    assert values["captioning F1"] == pytest.approx(content["captioning"]["average"]["F1"])
    assert values["soda c multi f1"] == pytest.approx(content["soda"]["c"]["multi"]["f1"])
    assert values["soda a per_reference recall"] == pytest.approx(content["soda"]["a"]["per_reference"]["recall"])
    assert values["proposals pooled AR@100"] == pytest.approx(content["proposals"]["pooled"]["AR@100"])
    for name in TEXT:
        assert values[f"captioning {name}"] == pytest.approx(content["captioning"]["average"][name])
        assert values[f"paragraph {name}"] == pytest.approx(content["paragraph"][name])
        assert values[f"segments micro {name}"] == pytest.approx(content["segments"]["micro"][name])
        assert values[f"segments macro {name}"] == pytest.approx(content["segments"]["macro"][name])


def test_intervals_and_p_follow_the_data() -> None:
    random = np.random.default_rng(1)
    values = random.normal(0.5, 0.1, size=400)
    mean = next(
        sample.score for sample in samples(evaluate(PREDICTIONS, REFERENCES, metrics=["captioning"], cache=False))
    )

    def sample(shift: float, noise: float) -> Sample:
        moved = values + shift + random.normal(0, noise, size=400)
        return Sample("x", [str(n) for n in range(400)], np.column_stack([moved, np.ones(400)]), mean)

    clear = compare_samples(sample(0, 0), sample(0.02, 0.01), 500, random)
    assert clear.p_value < 0.01
    assert clear.difference_interval[0] > 0
    half_width = (clear.first_interval[1] - clear.first_interval[0]) / 2
    assert half_width == pytest.approx(1.96 * values.std() / 20, rel=0.15)
    chance = compare_samples(sample(0, 0.1), sample(0, 0.1), 500, random)
    assert chance.p_value > 0.01
    assert chance.difference_interval[0] < 0 < chance.difference_interval[1]


def test_reports_print_as_markdown_and_latex(evaluation: Evaluation) -> None:
    table = next(report.score_tables(evaluation.to_dict()))
    assert evaluation.captioning is not None
    meteor = f"{100 * evaluation.captioning.average()['METEOR']:.2f}"
    assert report.as_markdown(table).splitlines()[-1].startswith(f"| mean | {meteor} |")
    assert report.as_latex(table).splitlines()[-3].startswith(f"mean & {meteor} &")
    assert list(csv.reader(io.StringIO(report.as_csv(table))))[-1][:2] == ["mean", meteor]
    assert report.as_text(table).splitlines()[-1].split()[:2] == ["mean", meteor]
    assert report.percent(None) == "-"
    assert r"\_" in report.as_latex(replace(table, rows=[("per_reference",)]))


def test_no_segment_is_undefined_not_zero() -> None:
    empty = [{"v_a": annotated()}]
    found = evaluate(PREDICTIONS, empty, metrics=["segments"], cache=False)
    assert found.segments is not None
    assert set(found.segments.micro().values()) == set(found.segments.macro().values()) == {None}


@pytest.mark.parametrize("name", ["evaluate", "meteor.ptb_tokenizer", "meteor.statistics"])
def test_the_examples_of_the_documentation_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"densevid.evaluation.{name}"))
    assert found.attempted > 0 and found.failed == 0


def test_a_short_repr_and_a_notebook_view(evaluation: Evaluation) -> None:
    shown = repr(evaluation)
    assert shown.startswith("Evaluation(METEOR ") and shown.endswith("; protocol 2018, 3 videos)")
    assert "SODA_c" in shown and "\n" not in shown
    page = evaluation._repr_html_()
    assert page.count("<table>") == len(list(report.score_tables(evaluation.to_dict())))
    assert f"<td>{report.percent(evaluation.headlines()['METEOR'])}</td>" in page
    odd = report.Table("<script>", ("a & b",), [("<b>",)])
    assert "&lt;script&gt;" in report.as_html(odd) and "a &amp; b" in report.as_html(odd)
    assert "<b>" not in report.as_html(odd) and "<script>" not in report.as_html(odd)


def test_a_file_is_parsed_once_and_each_pair_reaches_meteor_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = importlib.import_module("densevid.evaluation.files")
    scorer = importlib.import_module("densevid.evaluation.meteor.scorer")
    read: list[str] = []
    pairs: list[Any] = []
    interval, statistics = files._interval, scorer.statistics
    monkeypatch.setattr(files, "_interval", lambda value: (read.append(str(value)), interval(value))[1])
    monkeypatch.setattr(scorer, "statistics", lambda batch: (pairs.extend(batch), statistics(batch))[1])
    evaluate(PREDICTIONS, REFERENCES, metrics=PARTS, min_seconds=5, cache=False)
    assert len(read) == 4 + 3 + 2
    assert len(pairs) == len(set(pairs)) > 0
