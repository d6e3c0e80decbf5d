"""Lines and what was predicted and scored become a filled table: mean and spread over seeds, times, what is missing.

No line and no seed is dropped: what is not there yet is a dash, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from densevid.reproduce.choice_costs import Costs
from densevid.reproduce.definitions import Column, Dataset, Table
from densevid.reproduce.model_runs import ModelRun
from densevid.reproduce.predict_models import Predictor, Wanted, predicted_seconds
from densevid.reproduce.score_predictions import Scorer, events_per_video, part_of, value_of
from densevid.reproduce.table_lines import GRADIENT, Group, Line

TIMES = ("events", "train_minutes", "train_speed", "predict_ms")
QUICK = "quick: a check of the machinery, not a result"


@dataclass(frozen=True)
class Cell:
    """The values of the seeds that are there, out of so many."""

    values: tuple[float, ...] = ()
    seeds: int = 0

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
        return {"mean": self.mean, "spread": self.spread, "values": list(self.values), "seeds": self.seeds}


@dataclass(frozen=True)
class FilledLine:
    """A line with its numbers: scores in percent by column, events a video, and times.

    Those are minutes to train, videos a second that a training step learns from by itself, ms a video to predict.
    """

    title: str
    group: Group
    cells: tuple[Cell, ...]
    paper: dict[str, float]
    events: Cell = field(default_factory=Cell)
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
        filled = []
        for line in lines:
            watch(f"table {table.number}: {line.title}")
            filled.append(self._line(table, line))
        return FilledTable(table, self.predictor.data.dataset, tuple(filled), self._facts(lines))

    def _line(self, table: Table, line: Line) -> FilledLine:
        cells = [self._cell(line, place, column) for place, column in enumerate(table.columns)]
        told = [self._file(line, place) for place, column in enumerate(table.columns) if column.of == "learned"]
        told = told or [
            self._file(line, place) for place, column in enumerate(table.columns) if column.of == "segments"
        ]
        counted = [file for some in told[:1] for file in some if file.exists()]
        seconds = [value for file in counted if (value := predicted_seconds(file)) is not None]
        return FilledLine(
            line.title,
            line.group,
            tuple(cells),
            dict(line.paper),
            events=Cell(tuple(map(events_per_video, counted)), len(counted)),
            train_minutes=self._training(line),
            train_speed=self._speed(line),
            predict_ms=Cell(tuple(1000 * value for value in seconds), len(counted)),
            notes=self._notes(line),
            curve=self._curve(table, line, counted),
            rows=line.rows,
        )

    def _file(self, line: Line, place: int) -> list[Path]:
        if place in line.files:
            return [self.predictor.baseline(line.files[place])]
        return [self.predictor.path(each) for each in line.models.get(place, [])]

    def _cell(self, line: Line, place: int, column: Column) -> Cell:
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

    def _notes(self, line: Line) -> tuple[str, ...]:
        """Why something is not there."""
        notes = [line.note] if line.note else []
        if not all(self.predictor.baseline(name).exists() for name in line.files.values()):
            notes.append("not predicted yet")
        for each in line.wanted:
            run = self.predictor.runs.of(each.row, each.seed)
            if reason := self.predictor.data.unavailable(run.row):
                notes.append(f"not on this data: {reason}")
            elif run.trained is None:
                notes.append(f"seed {each.seed}: not trained yet")
            elif each.kind != GRADIENT and not self.predictor.path(each).exists():
                notes.append(f"seed {each.seed}: no {each.kind} predictions")
        return tuple(dict.fromkeys(notes))

    def _curve(self, table: Table, line: Line, files: Sequence[Path]) -> Any:
        if not table.curve or not files:
            return None
        found = [self.scorer.score(file, ["proposals"])["proposals"] for file in files]
        means = (tuple(map(mean, zip(*(each[name] for each in found), strict=True))) for name in ("numbers", "curve"))
        return tuple(means)

    def _facts(self, lines: Sequence[Line]) -> tuple[str, ...]:
        """What is judged on; on what, and how many at a time, the models were trained."""
        runs = {
            run.folder: run
            for line in lines
            for each in line.wanted
            for run in [self.predictor.runs.of(each.row, each.seed)]
        }
        told = {(known["device"], known["parallel"]) for run in runs.values() if (known := run.trained)}
        trained = (f"Trained on {device}, {parallel} at a time" for device, parallel in sorted(told))
        quick = (QUICK,) if self.predictor.runs.quick else ()
        return (*quick, *self.predictor.data.coverage(), *trained)
