"""LaTeX that compiles: escaped, balanced, nested."""

from __future__ import annotations

import re
from dataclasses import replace

from helpers.filled_tables import COLUMNS, TABLE, line
from research.paper_tables.definitions import datasets
from research.paper_tables.filled_table import Cell, FilledTable
from research.paper_tables.present import latex


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
