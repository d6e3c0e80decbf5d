"""Filled tables: lines with their scores become mean and spread over seeds, with times and notes.

No line and no seed is dropped: what is missing is a dash, and a note has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from research.paper_tables.definitions import Column, Dataset, Table
from research.paper_tables.model_runs import ModelRun
from research.paper_tables.predict_models import Predictor, Wanted, prediction_times
from research.paper_tables.score_predictions import Scorer, events_per_video, part_of, value_of
from research.paper_tables.table_lines import GRADIENT, Group, Line
from research.paper_tables.table_notes import CHANGED, QUICK, TableNotes

TIMES = ("events", "summary_events", "train_minutes", "train_speed", "predict_ms")


@dataclass(frozen=True)
class Cell:
    """The values of the finished seeds, out of so many; or a value `by_construction` that was not measured."""

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
        content = {"mean": self.mean, "spread": self.spread, "values": list(self.values), "seeds": self.seeds}
        return {**content, "by_construction": True} if self.by_construction else content


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
class Cost:
    """The cost of a line: minutes to train, ms a video to predict, both alone on the device; None: not known.

    `same_weights`: its model is the reference's own.
    """

    train_minutes: float | None = None
    predict_ms: float | None = None
    same_weights: bool = False


@dataclass(frozen=True)
class Costs:
    """The costs of every line of a table, in its order, and the reference's scores over its seeds by column."""

    lines: tuple[Cost, ...]
    reference: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def spread(self, column: str) -> float | None:
        """The standard deviation of the reference over its seeds."""
        values = self.reference.get(column, ())
        return stdev(values) if len(values) > 1 else None


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
        """The end of its title where it is no result of the rows as they are: `--quick`, or changed settings."""
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
    """Fills tables: scores the predictions of their lines."""

    predictor: Predictor
    scorer: Scorer

    def fill(self, table: Table, lines: Sequence[Line], watch: Callable[[str], None]) -> FilledTable:
        """Score the predictions of a table's lines; `watch` gets a line of progress for each."""
        files_of = partial(self._main_files, table)
        notes = TableNotes(self.predictor, self.scorer.references, table, tuple(lines), files_of)
        filled = []
        for line in lines:
            watch(f"table {table.number}: {line.title}")
            filled.append(self._line(table, line, notes))
        return FilledTable(table, self.predictor.data.dataset, tuple(filled), notes.facts())

    def _line(self, table: Table, line: Line, notes: TableNotes) -> FilledLine:
        cells = [self._cell(line, place, column) for place, column in enumerate(table.columns)]
        files, summaries = self._main_files(table, line), self._of(table, line, "summary")
        seconds = prediction_times(files).values() if line.is_timed else ()
        return FilledLine(
            line.title,
            line.group,
            tuple(cells),
            dict(line.paper),
            events=Cell(tuple(map(events_per_video, files)), len(files)),
            summary_events=Cell(tuple(map(events_per_video, summaries)), len(summaries)),
            train_minutes=self._training(line),
            train_speed=self._speed(line),
            predict_ms=Cell(tuple(1000 * value for value in seconds), len(seconds)),
            notes=notes.of(line),
            curve=self._curve(table, line, files),
            rows=line.rows,
        )

    def _main_files(self, table: Table, line: Line) -> list[Path]:
        """A line's predictions: all proposals, or captions of given segments where it has no others."""
        return self._of(table, line, "learned") or self._of(table, line, "segments")

    def _of(self, table: Table, line: Line, kind: str) -> list[Path]:
        """The existing files that the columns of a kind are scores of."""
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
        """Whether the caption loss cannot reach the proposals of this model, whatever its weights."""
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
