"""Tables, rows and data sets as they are in the package: whole, consistent, and with the numbers of the paper."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from densevid.config import Config
from densevid.errors import InputError
from densevid.training.run_folder import RunFolder
from research.paper_tables.definitions import (
    Circumstances,
    datasets,
    replaced,
    require_differences,
    resolved,
    rows,
    tables,
)
from research.paper_tables.score_predictions import part_of
from research.paper_tables.table_lines import Line, lines_of

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
        assert set(table.shuffled.values()) <= set(rows()) and table.headline in heads
        assert {part_of(column.score) for column in table.columns if column.of != "gradient"} <= PARTS


def test_seeds_of_the_tables() -> None:
    assert {number for number, table in tables().items() if table.seeds == 3} == {1, 4, 7}


def test_every_table_shows_the_baselines_that_can_fill_it() -> None:
    for table in tables().values():
        titles = [line.title for line in lines_of(table, datasets()["msvd-timelines"], 1) if line.group == "baseline"]
        assert titles[-1] == "shuffled features"
        if table.number == 4:
            assert titles[:-1] == ["whole video", "prior grid", "change points"], "spans alone are scored"
            continue
        learned = any(column.of == "learned" for column in table.columns)
        assert "most frequent sentence" in titles
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


def lines(number: int, name: str) -> dict[str, Line]:
    return {line.title: line for line in lines_of(tables()[number], datasets()[name], 1)}


def test_rows_that_differ_from_the_papers_have_a_note() -> None:
    assert "test server" in lines(2, "activitynet")["End-to-end Masked Transformer"].notes[0]
    ours = "Self-Attn, end to end with captions"
    assert "stride factor 50" in lines(4, "youcook2")[ours].notes[0] and not lines(4, "msvd-timelines")[ours].notes
    for number, name in ((3, "youcook2"), (6, "activitynet")):
        (note,) = lines(number, name)["End-to-end Masked Transformer"].notes
        assert "another model, Masked Transformer, 2 layers" in note and "both models' sum" in note
    assert not lines(5, "activitynet")["Bi-LSTM + TempoAttn"].notes


def test_the_note_on_the_anchors_of_table_4_is_so() -> None:
    for name in ("activitynet", "youcook2"):
        whole, alone = (
            resolved(rows()[row], given(name)).model for row in ("end-to-end-proposals", "self-attn-proposals")
        )
        assert (whole.layers, whole.width, whole.stride_factor) == (2, 1024, 50)
        assert (alone.layers, alone.width, alone.stride_factor) == (1, 512, 10)
    whole, alone = (
        resolved(rows()[row], given("msvd-timelines")).model for row in ("end-to-end-proposals", "self-attn-proposals")
    )
    assert whole == alone


def test_titles_of_table_7_tell_the_mask_of_each_row() -> None:
    entries = tables()[7].rows
    assert entries[0].learned == "bi-lstm-tempoattn"
    for entry in entries:
        assert entry.learned is not None and entry.title is not None
        assert entry.title.endswith(f"{resolved(rows()[entry.learned], given('activitynet')).model.mask} mask")


def test_the_papers_recipe_keeps_the_epoch_that_validates_best() -> None:
    kept = {row: resolved(rows()[row], given("msvd-timelines")).training.best_by for row in rows()}
    assert {row for row, by in kept.items() if by == "loss"} == {"other-recipe"}
    assert set(kept.values()) == {"loss", "last"}


def test_a_model_shows_its_gradient_once() -> None:
    table = tables()[8]
    place = next(place for place, column in enumerate(table.columns) if column.of == "gradient")
    shown = [line.title for line in lines(8, "msvd-timelines").values() if place in line.models]
    assert shown == [rows()[row].title for row in ("end-to-end", "no-word-gradient", "detached")]


def test_a_flag_may_not_leave_a_row_without_its_difference() -> None:
    dataset = datasets()["msvd-timelines"]
    with pytest.raises(InputError, match=r"--set model.layers=1: this is all that row captions-1 is about"):
        require_differences([tables()[5]], dataset, ["model.layers=1"])
    require_differences([tables()[5]], dataset, ["model.layers=1"], ["bi-lstm-captions"])
    require_differences([tables()[8]], dataset, ["training.precision=float32", "training.epochs=1"])
    assert replaced(rows()["other-recipe"], dataset, ["training.ema=0.9", "model.width=8"]) == ["training.ema=0.9"]
    assert replaced(rows()["end-to-end"], dataset, ["model.width=8"]) == []
