"""Filled tables of numbers that can be checked by hand, for tests."""

from __future__ import annotations

from research.paper_tables.definitions import Column, Table, datasets
from research.paper_tables.filled_table import Cell, FilledLine, FilledTable

COLUMNS = (Column("M", "learned", "2017.METEOR"), Column("SODA_c", "summary", "SODA_c"))
RANKING = {"reference": "ours", "columns": ["M", "SODA_c"], "by": "SODA_c"}
TABLE = Table(8, "caption", "activitynet", 1, COLUMNS, (), ranking=RANKING)


def line(title: str, soda: float | None, minutes: float, milliseconds: float, **more: object) -> FilledLine:
    cells = (Cell((10.0,), 1), Cell(() if soda is None else (soda,), 1))
    times = {"train_minutes": Cell((minutes,), 1), "predict_ms": Cell((milliseconds,), 1)}
    return FilledLine(title, "ours", cells, {}, rows=(title,), **{**times, **more})  # type: ignore[arg-type]


def filled(*lines: FilledLine) -> FilledTable:
    return FilledTable(TABLE, datasets()["activitynet"], lines)
