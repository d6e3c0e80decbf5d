"""The lines of a table and the source of each number: models with their seeds, baselines, the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from research.paper_tables.definitions import Column, Dataset, Table, TableRow, rows
from research.paper_tables.predict_models import SHUFFLED as OF_SHUFFLED
from research.paper_tables.predict_models import Wanted
from research.paper_tables.score_predictions import part_of

Group = Literal["ours", "oracle", "baseline", "published"]
GRADIENT = "gradient"

# The trivial baselines by what they are predictions of: every table shows them.
BASELINES: dict[str, dict[str, str]] = {
    "most frequent sentence": {
        "learned": "frequent_whole_video",
        "summary": "frequent_whole_video-summary",
        "segments": "segments_most_frequent",
    },
    "nearest neighbour's sentence": {"segments": "segments_nearest"},
    "whole video, nearest neighbour": {"learned": "whole_video", "summary": "whole_video-summary"},
    "prior grid, nearest neighbour": {"learned": "prior_grid", "summary": "prior_grid-summary"},
    "change points, nearest neighbour": {"learned": "change_points", "summary": "change_points-summary"},
}
# Where spans alone are scored: named without their sentences.
PROPOSERS: dict[str, dict[str, str]] = {
    "whole video": {"learned": "whole_video"},
    "prior grid": {"learned": "prior_grid"},
    "change points": {"learned": "change_points"},
}
SHUFFLED = {kind: shuffled for shuffled, kind in OF_SHUFFLED.items()}


@dataclass(frozen=True)
class Line:
    """One line: for every column (by its place) the predictions of each seed, or the file of a baseline."""

    title: str
    group: Group
    models: dict[int, list[Wanted]] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()

    @property
    def wanted(self) -> list[Wanted]:
        """All predictions of models that it needs."""
        return [each for some in self.models.values() for each in some]

    @property
    def is_timed(self) -> bool:
        """Whether its time is shown; on shuffled features a model takes as long."""
        return self.group in ("ours", "oracle")


def lines_of(table: Table, dataset: Dataset, seeds: int) -> list[Line]:
    """Our rows, oracles, what else the paper lists, and the baselines."""
    ours = [_line(entry, table, dataset, seeds) for entry in table.rows]
    published = [
        Line(entry.title, "published", paper=_papers(entry.paper, table, dataset), notes=_notes(entry.note))
        for entry in table.published
    ]
    return [*ours, *published, *_baselines(table), *_shuffled(table, seeds)]


def wanted_by(lines: Iterable[Line]) -> list[Wanted]:
    """Every prediction of a model that lines need, once."""
    return list(dict.fromkeys(each for line in lines for each in line.wanted))


def _line(entry: TableRow, table: Table, dataset: Dataset, seeds: int) -> Line:
    models: dict[int, list[Wanted]] = {}
    for place, column in enumerate(table.columns):
        source = entry.source(column)
        if source is not None and _has(entry, table, column):
            models[place] = [Wanted(*source, seed) for seed in range(seeds)]
    title = entry.title or rows()[entry.rows[0]].title_on(dataset)
    paper = _papers(entry.paper, table, dataset)
    notes = _notes(entry.note, rows()[entry.rows[0]].note_on(dataset), _two_models(entry))
    return Line(title, "oracle" if entry.oracle else "ours", models, paper=paper, notes=notes, rows=tuple(entry.rows))


def _has(entry: TableRow, table: Table, column: Column) -> bool:
    """The gradient is measured for some rows only, and shown where a table first has the model."""
    if column.of != GRADIENT:
        return True
    first = next(each for each in table.rows if each.learned == entry.learned)
    return entry is first and rows()[entry.rows[0]].gradient


def _two_models(entry: TableRow) -> str:
    """A note where captions of given segments are of another model, trained for captions alone."""
    if entry.learned is None or entry.segments is None:
        return ""
    name = rows()[entry.segments].title
    return f"the GT columns are of another model, {name}, trained for captions alone; train min is both models' sum"


def _notes(*notes: str) -> tuple[str, ...]:
    return tuple(note for note in notes if note)


def _papers(numbers: Mapping[str, float], table: Table, dataset: Dataset) -> Mapping[str, float]:
    """The paper's numbers, where the data set is the paper's."""
    return numbers if table.paper_data == dataset.name else {}


def _baselines(table: Table) -> list[Line]:
    spans_alone = all(part_of(column.score) == "proposals" for column in table.columns)
    lines = []
    for title, files in (PROPOSERS if spans_alone else BASELINES).items():
        own = {place: files[column.of] for place, column in enumerate(table.columns) if column.of in files}
        if own:
            lines.append(Line(title, "baseline", files=own))
    return lines


def _shuffled(table: Table, seeds: int) -> list[Line]:
    """The model of the table on the features of other videos."""
    models: dict[int, list[Wanted]] = {}
    for place, column in enumerate(table.columns):
        row = table.shuffled.get("segments" if column.of == "segments" else "learned")
        if column.of in SHUFFLED and row is not None:
            models[place] = [Wanted(row, SHUFFLED[column.of], seed) for seed in range(seeds)]
    return [Line("shuffled features", "baseline", models)] if models else []
