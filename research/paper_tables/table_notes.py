"""The notes under a filled table: test data, changed settings, devices, and what is missing and why.

Times are of the device they were measured on; a line whose device is not that of most lines has a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from densevid.io import read_json
from research.baselines.spans import Spans
from research.paper_tables.definitions import Table, replaced, rows
from research.paper_tables.model_runs import ModelRun
from research.paper_tables.predict_models import Predictor, prediction_times
from research.paper_tables.score_predictions import LENGTHS
from research.paper_tables.table_lines import GRADIENT, Line

QUICK = "quick: a check of the machinery, not a result"
CHANGED = "changed with --set: "
BESIDE_OTHERS = "Some predictions were timed as they were made, beside what else was on the device: see --only time"
TIMED = ("training steps timed", "predictions timed")
FilesOf = Callable[[Line], Sequence[Path]]


@dataclass(frozen=True)
class TableNotes:
    """The notes of a table's lines; `timed` gives the predictions that a line's time is of."""

    predictor: Predictor
    references: tuple[Path, ...]
    table: Table
    lines: tuple[Line, ...]
    timed: FilesOf

    def of(self, line: Line) -> tuple[str, ...]:
        """The notes of a line: how it differs, and why something is missing."""
        return tuple(dict.fromkeys([*line.notes, *self._replaced(line), *self._missing(line), *self._elsewhere(line)]))

    def facts(self) -> tuple[str, ...]:
        """The notes of the whole table: changed settings, test data, and devices."""
        quick = (QUICK,) if self.predictor.runs.quick else ()
        flags = self.predictor.runs.flags
        changed = (CHANGED + ", ".join(flags),) if flags else ()
        return (*quick, *changed, *self.predictor.data.coverage(), *self._lengths(), *self._trained(), *self._timed())

    def _replaced(self, line: Line) -> list[str]:
        runs = self.predictor.runs
        found = [flag for row in line.rows for flag in replaced(rows()[row], runs.data.dataset, runs.flags)]
        return [f"--set {flag} replaces a setting that this row is about" for flag in found]

    def _missing(self, line: Line) -> list[str]:
        notes = []
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
        return notes

    def _lengths(self) -> list[str]:
        """How many reference events have the lengths that columns are about."""
        names = [name for name in LENGTHS if any(column.score.startswith(f"{name}.") for column in self.table.columns)]
        if not names:
            return []
        times = [entry["timestamps"] for file in self.references for entry in read_json(file).values()]
        spans_N2 = np.array([span for spans in times for span in spans], dtype=np.float64).reshape(-1, 2)
        counts = (f"{_count(spans_N2, **LENGTHS[name]):,} {name}" for name in names)
        people = "annotator" if len(self.references) == 1 else "annotators together"
        return [f"Reference events: {', '.join(counts)}, of {len(spans_N2):,} ({len(self.references)} {people})"]

    def _trained(self) -> list[str]:
        known = [facts for line in self.lines for run in self._runs(line) if (facts := run.trained)]
        parallel: dict[str, set[int]] = {}
        for facts in known:
            parallel.setdefault(facts["device"], set()).add(facts["parallel"])
        return [f"Trained on {device}, {_at_once(parallel[device])}" for device in sorted(parallel)]

    def _timed(self) -> list[str]:
        names = {what: sorted({name for some in by_line for name in some}) for what, by_line in self._devices.items()}
        facts = [f"{what.capitalize()} on {', '.join(names[what])}" for what in TIMED if names[what]]
        shared = any(file in self.timed(line) for line in self.lines for file in self._predictions(line))
        return [*facts, BESIDE_OTHERS] if shared else facts

    def _elsewhere(self, line: Line) -> list[str]:
        """The devices of a line that are not those of most lines."""
        notes = []
        for what, by_line in self._devices.items():
            most = Counter(name for some in by_line for name in some).most_common(1)
            own = by_line[self.lines.index(line)]
            notes += [f"{what} on {name}, most others on {most[0][0]}" for name in sorted(own) if name != most[0][0]]
        return notes

    @cached_property
    def _devices(self) -> dict[str, list[set[str]]]:
        """By what was measured, the devices of every line."""
        return {
            "trained": [
                {str(facts["device"]) for run in self._runs(line) if (facts := run.trained)} for line in self.lines
            ],
            TIMED[0]: [set(map(device_of, self._speeds(line))) for line in self.lines],
            TIMED[1]: [set(map(device_of, self._predictions(line))) for line in self.lines],
        }

    def _runs(self, line: Line) -> list[ModelRun]:
        found = {(each.row, each.seed) for each in line.wanted}
        return [self.predictor.runs.of(row, seed) for row, seed in sorted(found)]

    def _speeds(self, line: Line) -> list[Path]:
        path = self.predictor.runs.of(line.rows[0], 0).speed if line.group == "ours" else None
        return [path] if path is not None and path.exists() else []

    def _predictions(self, line: Line) -> Iterable[Path]:
        return prediction_times(self.timed(line)) if line.is_timed else ()


def device_of(file: Path) -> str:
    """The name of the device that a time was measured on; its kind where the name is not recorded."""
    content = read_json(file)
    blocks = [content, content.get("provenance")] if isinstance(content, dict) else []
    facts = {key: value for block in reversed(blocks) if isinstance(block, dict) for key, value in block.items()}
    return str(facts.get("device_name") or facts.get("device") or "an unrecorded device")


def _at_once(counts: set[int]) -> str:
    """How many runs of one command shared the device; other commands may have shared it, too."""
    number = str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return f"{number} at a time (in each command)"


def _count(spans_N2: Spans, min_seconds: float = 0.0, max_seconds: float = np.inf) -> int:
    seconds_N = spans_N2[:, 1] - spans_N2[:, 0]
    return int(((seconds_N >= min_seconds) & (seconds_N <= max_seconds)).sum())
