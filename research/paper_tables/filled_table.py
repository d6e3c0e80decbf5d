"""Lines and what was predicted and scored become a filled table: mean and spread over seeds, times, what is missing.

No line and no seed is dropped: what is not there yet is a dash, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from research.paper_tables.choice_costs import Costs
from research.paper_tables.definitions import Column, Dataset, Table
from research.paper_tables.model_runs import ModelRun
from research.paper_tables.predict_models import Predictor, Wanted, prediction_times
from research.paper_tables.score_predictions import Scorer, events_per_video, part_of, value_of
from research.paper_tables.table_lines import GRADIENT, Group, Line
from research.paper_tables.table_notes import CHANGED, QUICK, TableNotes

__all__ = ["QUICK", "TIMES", "Cell", "FilledLine", "FilledTable", "Filler"]

TIMES = ("events", "summary_events", "train_minutes", "train_speed", "predict_ms")


@dataclass(frozen=True)
class Cell:
    """The values of the seeds that are there, out of so many; or what is so `by_construction` and was not measured."""

    values: tuple[float, ...] = ()
    seeds: int = 0
    by_construction: bool = False

    @property
    def mean(self) -> float | None:
        """Over the seeds."""
        return mean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """The sample standard deviation over the seeds; None for one."""
        return stdev(self.values) if len(self.values) > 1 else None

    def as_json(self) -> dict[str, Any]:
        """Everything, at full precision."""
        told = {"mean": self.mean, "spread": self.spread, "values": list(self.values), "seeds": self.seeds}
        return {**told, "by_construction": True} if self.by_construction else told


@dataclass(frozen=True)
class FilledLine:
    """A line with its numbers: scores in percent by column, events a video (all, and of the summary), and times.

    Those are minutes to train, videos a second that a training step learns from by itself, ms a video to predict.
    """

    title: str
    group: Group
    cells: tuple[Cell, ...]
    paper: dict[str, float]
    events: Cell = field(default_factory=Cell)
    summary_events: Cell = field(default_factory=Cell)
    train_minutes: Cell = field(default_factory=Cell)
    train_speed: Cell = field(default_factory=Cell)
    predict_ms: Cell = field(default_factory=Cell)
    notes: tuple[str, ...] = ()
    curve: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class FilledTable:
    """A table on a data set, all its lines."""

    table: Table
    dataset: Dataset
    lines: tuple[FilledLine, ...]
    costs: Costs | None = field(default=None, kw_only=True)  # where its lines are ranked
    facts: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """What its title must say, lest it be taken for a result of the rows as they are; mostly nothing."""
        found = [fact for fact in self.facts if fact == QUICK or fact.startswith(CHANGED)]
        return f" ({'; '.join(found)})" if found else ""

    def line(self, row: str) -> FilledLine:
        """The first line of a row."""
        return next(line for line in self.lines if row in line.rows)

    def as_json(self) -> dict[str, Any]:
        """All numbers, at full precision."""
        heads = [column.head for column in self.table.columns]
        lines = [
            {
                "title": line.title,
                "group": line.group,
                "scores": {head: cell.as_json() for head, cell in zip(heads, line.cells, strict=True)},
                "paper": line.paper,
                **{name: getattr(line, name).as_json() for name in TIMES},
                "notes": list(line.notes),
                "recall_at_tiou_0.8": None
                if line.curve is None
                else {"proposals": line.curve[0], "recall": line.curve[1]},
            }
            for line in self.lines
        ]
        columns = [asdict(column) for column in self.table.columns]
        about = {"table": self.table.number, "caption": self.table.caption, "data": self.dataset.name}
        return {**about, "facts": list(self.facts), "columns": columns, "lines": lines}


@dataclass(frozen=True)
class Filler:
    """Fills tables from what was predicted, which it scores."""

    predictor: Predictor
    scorer: Scorer

    def fill(self, table: Table, lines: Sequence[Line], watch: Callable[[str], None]) -> FilledTable:
        """Score what was predicted, and put it in its places."""
        notes = TableNotes(self.predictor, self.scorer.references, table, tuple(lines), partial(self._told, table))
        filled = []
        for line in lines:
            watch(f"table {table.number}: {line.title}")
            filled.append(self._line(table, line, notes))
        return FilledTable(table, self.predictor.data.dataset, tuple(filled), notes.facts())

    def _line(self, table: Table, line: Line, notes: TableNotes) -> FilledLine:
        cells = [self._cell(line, place, column) for place, column in enumerate(table.columns)]
        told, summaries = self._told(table, line), self._of(table, line, "summary")
        seconds = prediction_times(told).values() if line.is_timed else ()
        return FilledLine(
            line.title,
            line.group,
            tuple(cells),
            dict(line.paper),
            events=Cell(tuple(map(events_per_video, told)), len(told)),
            summary_events=Cell(tuple(map(events_per_video, summaries)), len(summaries)),
            train_minutes=self._training(line),
            train_speed=self._speed(line),
            predict_ms=Cell(tuple(1000 * value for value in seconds), len(seconds)),
            notes=notes.of(line),
            curve=self._curve(table, line, told),
            rows=line.rows,
        )

    def _told(self, table: Table, line: Line) -> list[Path]:
        """All that a line tells: of its own proposals, or of given segments where it has none."""
        return self._of(table, line, "learned") or self._of(table, line, "segments")

    def _of(self, table: Table, line: Line, kind: str) -> list[Path]:
        """The files that the columns of a kind are scores of, as far as they are there."""
        found = (self._file(line, place) for place, column in enumerate(table.columns) if column.of == kind)
        return [file for file in next(found, []) if file.exists()]

    def _file(self, line: Line, place: int) -> list[Path]:
        if place in line.files:
            return [self.predictor.baseline(line.files[place])]
        return [self.predictor.path(each) for each in line.models.get(place, [])]

    def _cell(self, line: Line, place: int, column: Column) -> Cell:
        if column.of == GRADIENT and self._cut_off(line):
            return Cell((0.0,), 1, by_construction=True)
        if column.of == GRADIENT:
            values = [self._gradient(each, column.score) for each in line.models.get(place, [])]
        else:
            values = [self._score(file, column.score) for file in self._file(line, place)]
        return Cell(tuple(100 * value for value in values if value is not None), len(values))

    def _score(self, file: Path, score: str) -> float | None:
        if not file.exists():
            return None
        return value_of(self.scorer.score(file, [part_of(score)]), score)

    def _gradient(self, wanted: Wanted, score: str) -> float | None:
        known = self.predictor.runs.of(wanted.row, wanted.seed).measured_gradient
        return None if known is None else float(known[score])

    def _cut_off(self, line: Line) -> bool:
        """Whether no word can move a proposal of this model, whatever it has learnt."""
        if line.group != "ours":
            return False
        model = self.predictor.runs.config(line.rows[0]).model
        return model.mask == "discrete" or not (model.mask_gradient and model.word_gradient)

    def _training(self, line: Line) -> Cell:
        """Minutes for all models of a line together, by seed."""
        if line.group != "ours":
            return Cell()
        seeds = sorted({each.seed for each in line.wanted})
        found = [[run.trained for run in self._runs(line, seed)] for seed in seeds]
        sums = [sum(float(each["seconds"]) for each in some if each) / 60 for some in found if all(some)]
        return Cell(tuple(sums), len(seeds))

    def _runs(self, line: Line, seed: int) -> list[ModelRun]:
        """The models of a line, and those they started from."""
        own = [self.predictor.runs.of(row, seed) for row in line.rows]
        return [run for each in own for run in (each.start_from, each) if run is not None]

    def _speed(self, line: Line) -> Cell:
        """Of the first model of a line, measured once."""
        if line.group != "ours":
            return Cell()
        known = self.predictor.runs.of(line.rows[0], 0).measured_speed
        return Cell((float(known["videos_per_second"]),) if known else (), 1)

    def _curve(self, table: Table, line: Line, files: Sequence[Path]) -> Any:
        if not table.curve or not files:
            return None
        found = [self.scorer.score(file, ["proposals"])["proposals"] for file in files]
        means = (tuple(map(mean, zip(*(each[name] for each in found), strict=True))) for name in ("numbers", "curve"))
        return tuple(means)
