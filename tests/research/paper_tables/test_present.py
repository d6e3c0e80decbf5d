"""Filled tables as readers see them: Markdown, LaTeX that compiles, pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from helpers.filled_tables import COLUMNS, TABLE, filled, line
from research.paper_tables.definitions import datasets
from research.paper_tables.filled_table import QUICK, Cell, FilledTable
from research.paper_tables.present import bars, cell_text, headline, latex, markdown, notes_of, plot_bars, shown


def test_mean_spread_and_missing_seeds() -> None:
    assert cell_text(Cell((1.0, 2.0, 3.0), 3)) == "2.00 ± 1.00"
    assert cell_text(Cell((1.0, 3.0), 3)) == "2.00 ± 1.41 (2 of 3)"
    assert cell_text(Cell((4.0,), 1), 1) == "4.0" and cell_text(Cell((), 3)) == "–"


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


def test_changed_settings_stand_in_the_titles_and_below_the_table() -> None:
    flag = 'changed with --set: training.best_by="loss"'
    table = replace(filled(line("ours", 8.0, 10, 10), line("other", 1.0, 1, 1)), facts=(QUICK, flag))
    text = markdown(table, [])
    assert f"({QUICK}; {flag})**" in text.splitlines()[0] and f"- C{flag[1:]}." in text
    assert text.count(flag[1:]) == 3, "the table, its notes, its ranking"
    assert latex(table).count(r"-{}-set: training.best\_by=''loss''") == 3
    assert flag in table.as_json()["facts"]


def test_lines_with_the_same_note_share_it() -> None:
    notes = ("test server, published",)
    table = filled(line("ours", 8.0, 10, 10), line("A", 1.0, 1, 1, notes=notes), line("B", 1.0, 1, 1, notes=notes))
    assert "A, B: test server, published." in notes_of(table)


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
