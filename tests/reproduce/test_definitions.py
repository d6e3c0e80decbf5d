"""Tables, rows and data sets as they are in the package: whole, consistent, and with the numbers of the paper."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from densevid.config import Config
from densevid.reproduce.definitions import Circumstances, datasets, resolved, rows, tables
from densevid.reproduce.score_predictions import part_of
from densevid.reproduce.table_lines import lines_of
from densevid.training.run_folder import RunFolder

PARTS = {"2017", "2018", "soda", "proposals", "list", "segments", "long.2017", "short.2017"}
TWO_STREAMS = (("resnet", 2048), ("bn", 1024))


def given(name: str, *, quick: bool = False) -> Circumstances:
    return Circumstances(datasets()[name], TWO_STREAMS, quick)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", list(datasets()))
def test_every_row_has_settings_on_every_data_set(name: str, quick: bool) -> None:
    for row in rows().values():
        config = resolved(row, given(name, quick=quick))
        assert config.features.streams == (("resnet",) if row.streams else ("resnet", "bn"))
        assert config.training.task == {"dense": "dense", "proposals": "proposals", "captions": "captions"}[row.learn]


@pytest.mark.parametrize("name", list(datasets()))
@pytest.mark.parametrize("quick", [False, True])
def test_rows_differ_in_what_they_train_unless_they_say_whose_model_they_use(name: str, quick: bool) -> None:
    seen: dict[Config, str] = {}
    for row in rows().values():
        if row.model_of or row.start_from:
            continue
        config = replace(resolved(row, given(name, quick=quick)), inference=Config().inference)
        assert config not in seen, f"{row.name} is {seen.get(config)}"
        seen[config] = row.name


def test_the_settings_of_the_papers_rows() -> None:
    anet = given("activitynet")
    e2e = resolved(rows()["end-to-end"], anet)
    assert (e2e.model.mask, e2e.model.layers, e2e.training.optimizer) == ("gated", 2, "sgd")
    lstm = resolved(rows()["bi-lstm-tempoattn"], anet).model
    assert (lstm.encoder, lstm.decoder, lstm.mask) == ("bi-lstm", "lstm", "discrete")
    proposals = resolved(rows()["self-attn-proposals"], anet)
    assert (proposals.model.width, proposals.model.stride_factor, proposals.training.optimizer) == (512, 10, "adam")
    procnets = resolved(rows()["procnets-prop"], anet).model
    assert (procnets.proposal_head, procnets.kernels) == ("procnets", proposals.model.kernels), "the same anchors"
    assert resolved(rows()["captions-6"], anet).training.sampling_end == 0.25


def test_tables_name_rows_and_scores_that_there_are() -> None:
    assert sorted(tables()) == list(range(1, 9))
    for table in tables().values():
        heads = [column.head for column in table.columns]
        assert len(set(heads)) == len(heads)
        for row in (*table.rows, *table.published):
            assert set(row.paper) <= set(heads)
        for row in table.rows:
            assert row.rows and set(row.rows) <= set(rows())
        assert set(table.shuffled.values()) <= set(rows())
        assert {part_of(column.score) for column in table.columns if column.of != "gradient"} <= PARTS


def test_seeds_of_the_tables() -> None:
    assert {number for number, table in tables().items() if table.seeds == 3} == {1, 4, 7}


def test_every_table_shows_the_baselines_that_can_fill_it() -> None:
    for table in tables().values():
        titles = [line.title for line in lines_of(table, datasets()["msvd-timelines"], 1) if line.group == "baseline"]
        learned = any(column.of == "learned" for column in table.columns)
        assert "most frequent sentence" in titles and titles[-1] == "shuffled features"
        assert ("change points, nearest neighbour" in titles) == learned
        assert ("nearest neighbour's sentence" in titles) == any(c.of == "segments" for c in table.columns)


def test_the_papers_numbers_are_in_the_paper(shared: Path) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (shared / "paper").glob("*.txt"))
    printed = {float(number) for number in re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", text)}
    stated = [v for table in tables().values() for row in (*table.rows, *table.published) for v in row.paper.values()]
    assert len(stated) > 60 and set(stated) <= printed


def test_a_row_of_the_paper_and_its_numbers_on_the_papers_data_alone() -> None:
    table = tables()[1]
    for name, shown in (("activitynet", 9.56), ("msvd-timelines", None)):
        line = next(each for each in lines_of(table, datasets()[name], 3) if "end-to-end" in each.rows)
        assert line.paper.get("M") == shown and len(line.models[0]) == 3


def test_runs_of_a_changed_setting_are_refused_by_training(tmp_path: Path) -> None:
    """Why a model is known by the hash of its settings: a folder of another run cannot be gone on with."""
    config = resolved(rows()["end-to-end"], given("msvd-timelines"))
    config.save(tmp_path / "config.toml")
    RunFolder(tmp_path).require_same(config)
    with pytest.raises(ValueError, match=r"model\.mask"):
        RunFolder(tmp_path).require_same(resolved(rows()["masked-transformer"], given("msvd-timelines")))
