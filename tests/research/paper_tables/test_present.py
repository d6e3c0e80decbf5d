"""Filled tables as people read them."""

from __future__ import annotations

from dataclasses import replace

from helpers.filled_tables import filled, line
from research.paper_tables.filled_table import QUICK, Cell
from research.paper_tables.present import cell_text, latex, markdown, notes_of, shown


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


def test_a_changed_table_says_so_in_its_titles_and_below_it() -> None:
    flag = 'changed with --set: training.best_by="loss"'
    table = replace(filled(line("ours", 8.0, 10, 10), line("other", 1.0, 1, 1)), facts=(QUICK, flag))
    text = markdown(table, [])
    assert f"({QUICK}; {flag})**" in text.splitlines()[0] and f"- C{flag[1:]}." in text
    assert text.count(flag[1:]) == 3, "the table, its notes, its ranking"
    assert latex(table).count(r"-{}-set: training.best\_by=''loss''") == 3
    assert flag in table.as_json()["facts"]


def test_lines_with_the_same_note_share_it() -> None:
    told = ("test server, published",)
    table = filled(line("ours", 8.0, 10, 10), line("A", 1.0, 1, 1, notes=told), line("B", 1.0, 1, 1, notes=told))
    assert "A, B: test server, published." in notes_of(table)
