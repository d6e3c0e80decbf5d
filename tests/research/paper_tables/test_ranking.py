"""The ablation ranking, its costs and its noise, on numbers that can be checked by hand and on files of the steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from densevid.events import Event, write_events
from densevid.io import write_json
from helpers.clip_collections import write_collection
from helpers.filled_tables import filled, line
from research.paper_tables.definitions import Column, Table, datasets, tables
from research.paper_tables.filled_table import Cell, FilledLine, FilledTable
from research.paper_tables.model_runs import TRAINED, Runs
from research.paper_tables.predict_models import Predictor, Wanted, time_file
from research.paper_tables.prepared_data import Inputs
from research.paper_tables.present import markdown
from research.paper_tables.ranking import Cost, Costs, ablations, as_json, costs_of, ranking_table
from research.paper_tables.score_predictions import Scorer
from research.paper_tables.table_lines import lines_of
from research.paper_tables.timeline_data import TimelineData


def test_ablations_are_ranked_by_gain_per_cost() -> None:
    table = filled(
        line("ours", 8.0, 10, 10),
        line("cheap", 6.0, 8, 10),  # ours is 2 better and takes 25 % more training: .08 a percent
        line("dear", 4.0, 5, 10),  # 4 better, 100 %: .04
        line("slow words", 9.0, 10, 15),  # this is 1 better and takes 50 % more prediction: .02
        line("free", 7.5, 11, 12),  # ours is better and faster
        line("unknown", None, 1, 1),
    )
    found = ablations(table)
    assert [ablation.title for ablation in found] == ["free", "cheap", "dear", "slow words"]
    assert [ablation.reference_wins for ablation in found] == [True, True, True, False]
    assert [round(ablation.per_cost, 3) for ablation in found[1:]] == [0.08, 0.04, 0.02]
    assert found[1].differences == (0.0, -2.0)


def test_an_ablation_that_changes_nothing_has_no_cost() -> None:
    table = filled(line("ours", 8.0, 10, 10), line("same, and twice as fast", 8.0, 5, 5))
    assert ranking_table(table).rows == [["same, and twice as fast", "+0.00", "+0.00", "–", "–", "–"]]


COSTED_COLUMNS = (Column("SODA_c", "summary", "SODA_c"),)
COSTED_TABLE = Table(
    8, "caption", "", 1, COSTED_COLUMNS, (), ranking={"reference": "ours", "columns": ["SODA_c"], "by": "SODA_c"}
)


def costed_line(title: str, soda: float, minutes: float = 10.0, milliseconds: float = 10.0) -> FilledLine:
    times = {"train_minutes": Cell((minutes,), 1), "predict_ms": Cell((milliseconds,), 1)}
    return FilledLine(title, "ours", (Cell((soda,), 1),), {}, rows=(title,), **times)


def costed(costs: Costs | None, *lines: FilledLine) -> FilledTable:
    return FilledTable(COSTED_TABLE, datasets()["activitynet"], lines, costs=costs)


def test_time_alone_counts_and_minutes_where_it_is_not_known() -> None:
    """By the minutes of packed runs ours takes half of the first's time; alone, it takes twice as long."""
    lines = (costed_line("ours", 8, 10), costed_line("packed", 6, 20), costed_line("not timed", 6, 5))
    table = costed(Costs((Cost(4, 10), Cost(2, 10), Cost(None, 10))), *lines)
    assert {ablation.title: ablation.cost for ablation in ablations(table)} == {"packed": 100, "not timed": 100}


def test_a_missing_time_is_no_cost_of_zero() -> None:
    """Both have the reference's model; the files that their score is of take their own time, or are not timed."""
    lines = (costed_line("ours", 8), costed_line("no summary", 6), costed_line("fitted", 9))
    table = costed(Costs((Cost(4, 10), Cost(4, 40, True), Cost(4, None, True))), *lines)
    assert {ablation.title: ablation.cost for ablation in ablations(table)} == {"no summary": 0, "fitted": None}
    assert ranking_table(table).rows[1] == ["fitted", "+1.00", "change", "–", "–"]
    slower = costed(Costs((Cost(4, 40), Cost(4, 10, True), Cost(4, 60, True))), *lines)
    assert {ablation.title: ablation.cost for ablation in ablations(slower)} == {"no summary": 300, "fitted": 50}


def test_differences_within_the_spread_of_seeds_come_last() -> None:
    """From the mean of the reference's seeds, 8.25, whose deviation is .25; a line of one seed adds its own."""
    lines = (
        costed_line("ours", 8),
        costed_line("free and tiny", 7.9),
        costed_line("dear", 6, 5),
        costed_line("tiny", 8.8, 20),
        costed_line("greedy", 8.1),
    )
    costs = (Cost(10, 10), Cost(10, 10), Cost(5, 10), Cost(20, 10), Cost(10, 10, True))
    table = costed(Costs(costs, {"SODA_c": (8.0, 8.25, 8.5)}), *lines)
    found = ablations(table)
    assert [ablation.title for ablation in found] == ["greedy", "dear", "tiny", "free and tiny"]
    assert [ablation.is_clear for ablation in found] == [True, True, False, False]
    assert found[1].noise == pytest.approx(2 * 0.25 * (4 / 3) ** 0.5) and found[0].noise == 0
    rows = ranking_table(table).rows
    assert rows[0][:3] == ["greedy", "+0.10", "change"], "the same weights: from the same seed"
    assert rows[1][:3] == ["dear", "-2.25", "reference"]
    assert rows[3] == ["free and tiny", "-0.35", "within noise", "–", "–"]
    text = markdown(table, [])
    assert text.index("over 3 seeds, which has a standard deviation of 0.25 SODA_c.") > text.index("| dear | -2.25 |")
    assert [each["better"] for each in as_json(table)] == ["change", "reference", "within noise", "within noise"]
    unknown = costed(Costs(costs), *lines)
    assert next(ablation.title for ablation in ablations(unknown)) == "greedy", "of the others it is not known"
    assert ranking_table(unknown).rows[1][2] == "not known"
    assert "The spread over seeds in SODA_c is not known" in markdown(unknown, [])


@pytest.fixture
def predictor(tmp_path: Path) -> Predictor:
    clips = write_collection(tmp_path / "clips", clips=40, splits=("train", "train", "val"))
    data = TimelineData(datasets()["msvd-timelines"], Inputs(clips=clips), tmp_path / "data", quick=True)
    return Predictor(Runs(data, tmp_path, quick=True))


def test_costs_are_read_from_the_files_of_the_steps(predictor: Predictor, tmp_path: Path) -> None:
    table = tables()[8]
    lines = lines_of(table, predictor.data.dataset, 1)
    for row, steps, seconds in (("end-to-end", 600, 0.5), ("reward", 60, 2.0), ("detached", 600, 0.25)):
        run = predictor.runs.of(row, 0)
        facts = {"seconds": 9999.0, "steps": steps, "device": "CPU", "parallel": 9}
        write_json(run.folder / TRAINED, facts)
        write_json(run.speed, {"seconds_per_step": seconds, "videos_per_second": 8 / seconds})
    truth = tmp_path / "truth.json"
    write_json(truth, {"v": {"duration": 9.0, "timestamps": [[0.0, 8.0]], "sentences": ["a man sings a song."]}})
    sentences = ("a man sings a song.", "a man plays a song.", "a dog runs.")
    for seed, sentence in enumerate(sentences):
        for kind, seconds in (("learned", 4.0), ("summary", 1.0), ("calibrated", 2.0)):
            path = predictor.path(Wanted("end-to-end", kind, seed))
            write_events(path, {"v": [Event(0.0, 8.0, sentence)]}, provenance={"seconds": 9999.0, "videos": 2})
            write_json(time_file(path), {"seconds": seconds, "videos": 2})
    scorer = Scorer((truth,), predictor.data.dataset.soda)
    costs = costs_of(table, lines, predictor, scorer, 1)
    by_title = {line.title: cost for line, cost in zip(lines, costs.lines, strict=True)}
    assert by_title[lines[0].title] == Cost(5.0, 500.0, True)
    assert by_title["all proposals, no summary"] == Cost(5.0, 2000.0, True)
    assert by_title["summary by fitted confidence"] == Cost(5.0, 1000.0, True)
    rewarded, detached = (next(line for line in lines if line.rows == (row,)) for row in ("reward", "detached"))
    assert by_title[detached.title] == Cost(2.5, None)
    assert by_title[rewarded.title].train_minutes == pytest.approx(7.0), "with the model that it starts from"
    scores = [
        100 * scorer.score(predictor.path(Wanted("end-to-end", "summary", s)), ["soda"])["soda"]["SODA_c"]
        for s in range(3)
    ]
    mean = sum(scores) / 3
    assert costs.reference["SODA_c"] == pytest.approx(scores) and len(set(scores)) > 1
    assert costs.spread("SODA_c") == pytest.approx((sum((score - mean) ** 2 for score in scores) / 2) ** 0.5)
