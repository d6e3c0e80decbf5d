"""Pictures of tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from helpers.filled_tables import TABLE, filled, line
from research.paper_tables.table_plots import bars, headline, plot_bars


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
