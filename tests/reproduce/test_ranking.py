"""Cells, ranking and text of filled tables, on numbers that can be checked by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from densevid.reproduce.definitions import Column, Table, datasets
from densevid.reproduce.filled_table import QUICK, Cell, FilledLine, FilledTable
from densevid.reproduce.present import cell_text, latex, markdown, notes_of, shown
from densevid.reproduce.qualitative import spread_out
from densevid.reproduce.ranking import choices, ranking_table
from densevid.reproduce.table_plots import bars, headline, plot_bars
from densevid.reproduce.train_models import sitting_seconds

COLUMNS = (Column("M", "learned", "2017.METEOR"), Column("SODA_c", "summary", "SODA_c"))
RANKING = {"reference": "ours", "columns": ["M", "SODA_c"], "by": "SODA_c"}
TABLE = Table(8, "caption", "activitynet", 1, COLUMNS, (), ranking=RANKING)


def line(title: str, soda: float | None, minutes: float, milliseconds: float, **more: object) -> FilledLine:
    cells = (Cell((10.0,), 1), Cell(() if soda is None else (soda,), 1))
    times = {"train_minutes": Cell((minutes,), 1), "predict_ms": Cell((milliseconds,), 1)}
    return FilledLine(title, "ours", cells, {}, rows=(title,), **{**times, **more})  # type: ignore[arg-type]


def filled(*lines: FilledLine) -> FilledTable:
    return FilledTable(TABLE, datasets()["activitynet"], lines)


def test_mean_spread_and_missing_seeds() -> None:
    assert cell_text(Cell((1.0, 2.0, 3.0), 3)) == "2.00 ± 1.00"
    assert cell_text(Cell((1.0, 3.0), 3)) == "2.00 ± 1.41 (2 of 3)"
    assert cell_text(Cell((4.0,), 1), 1) == "4.0" and cell_text(Cell((), 3)) == "–"


def test_choices_are_ranked_by_gain_per_cost() -> None:
    table = filled(
        line("ours", 8.0, 10, 10),
        line("cheap", 6.0, 8, 10),  # ours is 2 better and takes 25 % more training: .08 a percent
        line("dear", 4.0, 5, 10),  # 4 better, 100 %: .04
        line("slow words", 9.0, 10, 15),  # this is 1 better and takes 50 % more prediction: .02
        line("free", 7.5, 11, 12),  # ours is better and faster
        line("unknown", None, 1, 1),
    )
    found = choices(table)
    assert [choice.title for choice in found] == ["free", "cheap", "dear", "slow words"]
    assert [choice.reference_wins for choice in found] == [True, True, True, False]
    assert [round(choice.per_cost, 3) for choice in found[1:]] == [0.08, 0.04, 0.02]
    assert found[1].differences == (0.0, -2.0)


def test_a_choice_that_changes_nothing_has_no_price() -> None:
    table = filled(line("ours", 8.0, 10, 10), line("same, and twice as fast", 8.0, 5, 5))
    assert ranking_table(table).rows == [["same, and twice as fast", "+0.00", "+0.00", "–", "–", "–"]]


def test_the_papers_numbers_stand_beside_ours() -> None:
    table = filled(line("ours", 8.0, 10, 10), line("other", None, 1, 1, notes=("not trained yet",)))
    text = shown(replace(table, lines=(replace(table.lines[0], paper={"M": 9.56}), table.lines[1])))
    assert text.header[:4] == ["", "M", "M (paper)", "SODA_c"]
    assert text.rows[0][:4] == ["ours", "10.00", "9.56", "8.00"] and text.rows[1][:4] == ["other", "10.00", "–", "–"]
    assert "other: not trained yet." in notes_of(table)
    assert notes_of(table)[0].endswith(" One seed.")
    three = replace(table.lines[0], cells=(Cell((1.0, 2.0, 3.0), 3),) * 2)
    assert notes_of(replace(table, lines=(three,)))[0].endswith(" Mean ± standard deviation over 3 seeds.")
    assert r"$\Delta$ SODA\_c" in latex(table) and "–" not in latex(table)


def test_what_is_zero_by_construction_is_not_a_measurement() -> None:
    assert cell_text(Cell((0.0,), 1, by_construction=True)) == "0 (by construction)"
    assert Cell((0.0,), 1, by_construction=True).as_json()["by_construction"]


def test_a_changed_table_says_so_in_its_titles_and_below_it() -> None:
    flag = 'changed with --set: training.best_by="loss"'
    table = replace(filled(line("ours", 8.0, 10, 10), line("other", 1.0, 1, 1)), facts=(QUICK, flag))
    text = markdown(table, [])
    assert f"({QUICK}; {flag})**" in text.splitlines()[0] and f"- C{flag[1:]}." in text
    assert text.count(flag[1:]) == 3, "the table, its notes, its ranking"
    assert latex(table).count(r"-{}-set: training.best\_by=''loss''") == 3
    assert flag in table.as_json()["facts"]


def test_latex_is_a_float_that_is_balanced() -> None:
    lines = (
        line("50 % of {x} & a_b~c^d\\e #1 $", 8.0, 10, 10, notes=("seed 0: not trained yet",)),
        replace(line("other [b]", 1.0, 1, 1), group="baseline"),
    )
    for columns in (COLUMNS, COLUMNS * 5):
        cells = tuple(Cell((1.0,), 1) for _ in columns)
        table = replace(TABLE, columns=columns, ranking={})
        text = latex(FilledTable(table, datasets()["activitynet"], tuple(replace(each, cells=cells) for each in lines)))
        bare = re.sub(r"\\[{}&%$#_]", "", text)  # what is escaped
        assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
        rows = [row for row in bare.splitlines() if row.endswith("\\\\")]
        assert len(rows) == 3 and {row.count("&") for row in rows} == {len(columns) + 5}
        assert text.count(r"\midrule") == 2, "one before the baselines"
        assert nested(text)
        assert (
            "not trained yet" in text
            and r"\caption{caption. ActivityNet Captions}" in text
            and r"\begin{table*}" in text
        )
        assert (r"\resizebox{\textwidth}" in text) == (len(columns) > 4)
    assert r"50 \% of \{x\} \& a\_b\textasciitilde{}c\textasciicircum{}d\textbackslash{}e \#1 \$" in text


def nested(text: str) -> bool:
    """Whether every environment that begins ends, the innermost first."""
    opened = []
    for what, name in re.findall(r"\\(begin|end){(.+?)}", text):
        if what == "begin":
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


def test_pictures_show_the_headline_and_oracles_apart(tmp_path: Path) -> None:
    table = replace(filled(line("ours", 8.0, 10, 10)), table=replace(TABLE, headline="SODA_c"))
    assert headline(table) == 1
    assert headline(replace(table, lines=(line("ours", None, 1, 1),))) == 0, "the first that has a number"
    assert headline(replace(table, lines=())) is None and not plot_bars(tmp_path / "none.png", replace(table, lines=()))
    oracle = replace(line("oracle", 90.0, 1, 1), group="oracle")
    both = replace(table, lines=(*table.lines, oracle))
    assert plot_bars(tmp_path / "bars.png", both) and (tmp_path / "bars.png").stat().st_size > 0
    ours, theirs = bars(both, 1).axes
    assert ours.get_xlim()[1] < 10 and theirs.get_xlim()[1] > 90


def test_seconds_of_several_sittings_add_up() -> None:
    assert sitting_seconds([]) == 0
    assert sitting_seconds([1.0, 2.0, 3.0]) == 3.0
    assert sitting_seconds([1.0, 5.0, 2.0, 4.0, 1.5]) == pytest.approx(5 + 4 + 1.5)


def test_pages_show_the_best_the_middle_and_the_worst() -> None:
    scores = {f"v{number:02d}": number / 100 for number in range(50)}
    chosen = spread_out(scores)
    assert [place for place, _, _ in chosen] == ["best"] * 3 + ["median"] * 4 + ["worst"] * 3
    assert [video for _, video, _ in chosen][:3] == ["v49", "v48", "v47"]
    assert [video for _, video, _ in chosen][3:7] == ["v26", "v25", "v24", "v23"]
    assert [video for _, video, _ in chosen][7:] == ["v02", "v01", "v00"]
    assert len(spread_out({"a": 1.0, "b": 0.5})) == 2
