"""The way from nothing to filled tables: train, predict, time, score. Each step leaves files; finished ones stay.

OUT/DATA holds `data/` (the test set), `models/` (runs), `predictions/` (with their scores), `tables/`, and `pages/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from densevid.errors import InputError
from densevid.io import write_json
from research.paper_tables.definitions import Dataset, Table, rows
from research.paper_tables.fact_files import read_facts
from research.paper_tables.measure_models import write_speed
from research.paper_tables.model_runs import ModelRun, Runs
from research.paper_tables.paper_data import PaperData
from research.paper_tables.predict_models import Predictor, Wanted, time_file
from research.paper_tables.prepared_data import Inputs, PreparedData
from research.paper_tables.table_lines import GRADIENT, Line, lines_of, wanted_by
from research.paper_tables.timeline_data import TimelineData
from research.paper_tables.train_models import Machine, log_of, note_failure, train_all

QUICK_STEPS, TIMED_STEPS = 1, 40
TIMED_KINDS = ("learned", "summary", "calibrated", "segments")
QUALITATIVE = "end-to-end"
Report = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What to fill; `seeds` None: the number of each table; `only_rows` empty: all that the tables need."""

    dataset: Dataset
    tables: Sequence[Table]
    inputs: Inputs
    out: Path
    seeds: int | None = None
    quick: bool = False
    only_rows: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True)
class Attempts:
    """What a step tried to do, and a line for each failure."""

    count: int = 0
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """The steps of a request."""

    request: Request
    report: Report

    @property
    def folder(self) -> Path:
        """Where everything of this data set lies."""
        name = self.request.dataset.name
        return self.request.out / (f"{name}-quick" if self.request.quick else name)

    @cached_property
    def data(self) -> PreparedData:
        """The data set; raises `InputError` where the folder was filled from other files. Writes nothing."""
        request = self.request
        kind = TimelineData if request.dataset.family == "timelines" else PaperData
        data = kind(request.dataset, request.inputs, self.folder / "data", quick=request.quick)
        self._compare(data)
        return data

    def _compare(self, data: PreparedData) -> None:
        if not self.noted.exists():
            return
        now = facts_of(data)
        known = read_facts(self.noted, "choose another --out", data=str, annotations=str, streams=list)
        other = [name for name in now if name in known and known[name] != now[name]]
        if other:
            raise InputError(f"{self.folder}: was filled from other data ({', '.join(other)}); choose another --out")
        if missing := [name for name in now if name not in known]:
            unknown = " and ".join(missing)
            self.report(f"{self.noted}: is of an older version; {unknown} could not be compared with the present data")

    @property
    def noted(self) -> Path:
        """The record of what data the folder is filled from."""
        return self.folder / "data.json"

    def claim(self) -> None:
        """Record what data the folder is filled from; every step that writes there does it first."""
        now = facts_of(self.data)
        known = read_facts(self.noted) if self.noted.exists() else {}
        if known != {**known, **now}:
            write_json(self.noted, {**known, **now})

    @cached_property
    def runs(self) -> Runs:
        """The models."""
        return Runs(self.data, self.folder, self.request.quick, self.request.flags)

    @cached_property
    def predictor(self) -> Predictor:
        """The predictions of these models."""
        return Predictor(self.runs, self.request.machine.device)

    @cached_property
    def lines(self) -> dict[int, list[Line]]:
        """The lines of every table."""
        request = self.request
        default = 1 if request.quick else None
        return {
            table.number: lines_of(table, request.dataset, request.seeds or default or table.seeds)
            for table in request.tables
        }

    @property
    def wanted(self) -> list[Wanted]:
        """All predictions that the tables need; with `only_rows` those of rows named there, or whose model is."""
        found = wanted_by(line for lines in self.lines.values() for line in lines)
        names = set(self.request.only_rows)
        if not names:
            return found
        chosen = [each for each in found if {each.row, rows()[each.row].model_of} & names]
        if not chosen:
            shown, known = ", ".join(str(table.number) for table in self.request.tables), {each.row for each in found}
            raise InputError(
                f"--rows: table {shown} has no {' and no '.join(sorted(names))}, but {', '.join(sorted(known))}"
            )
        return chosen

    def models(self) -> list[ModelRun]:
        """All models that the tables need, each once."""
        return self.runs.needed((each.row, each.seed) for each in self.wanted)

    def plan(self) -> list[str]:
        """A line for every model: whether it is trained, and what it took."""
        lines = []
        for run in self.models():
            known = run.trained
            state = f"trained in {known['seconds'] / 60:.1f} min on {known['device']}" if known else "to train"
            lines.append(f"{run.name}: {state} ({run.folder.relative_to(self.folder)})")
        return lines

    def train(self) -> Attempts:
        """Train what is not trained."""
        self.claim()
        models = self.models()
        left = sum(run.trained is None for run in models)
        self.report(f"{len(models)} models, {left} to train, {self.request.machine.parallel} at a time")
        limit = self.request.dataset.quick.get("limit_steps") if self.request.quick else None
        failed = train_all(models, self.data, self.request.machine, limit, self.report)
        return Attempts(left, tuple(failed))

    def predict(self) -> Attempts:
        """Predict what is not predicted, and report what cannot be."""
        self.claim()
        self._use_threads()
        todo, failed = [each for each in self.wanted if each.kind != GRADIENT], []
        if not any(self.runs.of(each.row, each.seed).trained for each in todo):
            raise InputError(f"{self.folder}: none of these models is trained; do that first, with --only train")
        for number, each in enumerate(todo, start=1):
            name = f"{each.row}, seed {each.seed}"
            there = self.predictor.is_there(each)
            try:
                reason = self.predictor.predict(each)
            except Exception as error:  # the others are predicted all the same
                failed.append(f"{name}, {each.kind}: {note_failure(self.runs.of(each.row, each.seed), error)}")
                reason = f"{failed[-1]} (see {log_of(self.runs.of(each.row, each.seed))})"
            if reason:
                self.report(f"not predicted: {name}, {each.kind}: {reason}")
            elif not there:
                self.report(f"{number} of {len(todo)}: {name}: {each.kind} predicted")
        self.predictor.predict_baselines()
        self.report("baselines predicted")
        return Attempts(len(todo), tuple(failed))

    def time(self) -> Attempts:
        """Time training steps and predictions of first seeds, one by one."""
        self.claim()
        self._use_threads()
        steps = QUICK_STEPS if self.request.quick else TIMED_STEPS
        todo = [run for run in self.models() if run.seed == 0 and run.trained is not None and not run.measured_speed]
        failed = []
        for run in todo:
            step = partial(write_speed, run, self.data.training(run.row), self.request.machine.device, steps=steps)
            failed += self._timed(run.row.name, run, step, "{:.0f} training videos a second")
        predictions = self._predictions_to_time()
        for each in predictions:
            run, text = self.runs.of(each.row, 0), f"{{:.4f}} seconds a video to predict ({each.kind})"
            failed += self._timed(each.row, run, partial(self.predictor.time, each), text)
        return Attempts(len(todo) + len(predictions), tuple(failed))

    def _use_threads(self) -> None:
        """Use as many as runs have that train in processes of their own."""
        if self.request.machine.threads is not None:
            torch.set_num_threads(self.request.machine.threads)

    def _predictions_to_time(self) -> list[Wanted]:
        """Predictions of models without a measured time."""
        found = [each for each in self.wanted if each.seed == 0 and each.kind in TIMED_KINDS]
        paths = {each: self.predictor.path(each) for each in found}
        return [each for each, path in paths.items() if path.exists() and not time_file(path).exists()]

    def _timed(self, row: str, run: ModelRun, measure: Callable[[], float], text: str) -> list[str]:
        """Measure and report; return a line for a failure."""
        try:
            self.report(f"{row}: {text.format(measure())}")
        except Exception as error:  # the others are timed all the same
            failed = f"{run.name}: {note_failure(run, error)}"
            self.report(f"{failed} (not timed; see {log_of(run)})")
            return [failed]
        return []

    def score(self) -> list[Path]:
        """Score the predictions, fill the tables and write everything for readers; return the files."""
        from research.paper_tables.filled_table import Filler
        from research.paper_tables.present import write_report, write_table
        from research.paper_tables.ranking import costs_of
        from research.paper_tables.score_predictions import Scorer
        from research.paper_tables.table_notes import QUICK

        self.claim()
        dataset = self.request.dataset
        scorer = Scorer(self.data.test().references, dataset.soda, own_segments=dataset.family == "paper")
        filler = Filler(self.predictor, scorer)
        self._report_old_gradients()
        written = []
        for table in self.request.tables:
            lines = self.lines[table.number]
            filled = filler.fill(table, lines, self.report)
            if table.ranking:
                filled = replace(filled, costs=costs_of(table, lines, self.predictor, scorer, self.request.seeds or 1))
            written.append(write_table(filled, self.folder / "tables"))
            if table.submission:
                written += self._submission(table.submission)
        written += self._pages()
        quick = f" ({QUICK})" if self.request.quick else ""
        return [*written, write_report(self.folder / "tables", f"{self.request.dataset.title}{quick}")]

    def _report_old_gradients(self) -> None:
        wanted = wanted_by(line for lines in self.lines.values() for line in lines)
        for run in [self.runs.of(each.row, each.seed) for each in wanted if each.kind == GRADIENT]:
            if run.gradient.exists() and run.measured_gradient is None:
                self.report(f"{run.name}: its gradient was measured in an older way; --only train measures it again")

    def _submission(self, row: str) -> list[Path]:
        from research.paper_tables.submission import write_submission

        predictions = self.predictor.path(Wanted(row, "learned", 0))
        if not predictions.exists():
            return []
        videos = set().union(*(read_facts(file) for file in self.data.test().references))
        prefix = self.request.dataset.name == "activitynet"
        write_submission(predictions, videos, self.folder / "tables" / "submission.json", prefix=prefix)
        return [self.folder / "tables" / "submission.json"]

    def _pages(self) -> list[Path]:
        from research.paper_tables.qualitative import write_pages

        predictions = self.predictor.path(Wanted(QUALITATIVE, "summary", 0))
        if not predictions.exists():
            return []
        dataset, references = self.request.dataset, self.data.test().references
        return [write_pages(predictions, references, dataset, self.folder / "pages", rows()[QUALITATIVE].title)]


def facts_of(data: PreparedData) -> dict[str, Any]:
    """What identifies a data set; records of older versions have neither files nor features."""
    streams = [list(stream) for stream in data.streams]
    return {"data": data.dataset.name, "annotations": data.digest, "streams": streams, **data.fingerprints}
