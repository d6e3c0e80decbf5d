"""The ablation ranking: how much each difference from the reference changes the scores, its cost, and gain per cost.

The better of the two sides gains some points and takes some more time, in training or in prediction, whichever grows
more. Gains without cost come first; others are ranked by points per percent of time. Last are differences within noise:
less than two standard deviations of a difference between seeds.

Runs that shared a device slowed each other down, so their minutes are no measure: training costs its steps, each as
long as it takes alone. Prediction costs the time alone of the predictions that the ranked score is of: a summary has
fewer events than all proposals, and another kind of summary may take longer.

Lines are compared with the mean over all seeds of the reference. Lines that have the reference's own weights are
compared with the same seed of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from densevid.evaluation.report import Table as ShownTable
from research.paper_tables.definitions import Table, tables
from research.paper_tables.filled_table import Cost, Costs, FilledLine, FilledTable
from research.paper_tables.model_runs import ModelRun
from research.paper_tables.predict_models import Predictor, Wanted, times_alone
from research.paper_tables.score_predictions import Scorer, part_of, value_of
from research.paper_tables.table_lines import Line

FREE = 1.0  # percent of time that counts as no cost
SURE = 2.0  # standard deviations
SEEDED = 1  # the table whose seeds give the spread of the reference


@dataclass(frozen=True)
class Ablation:
    """One difference from the reference: how much it changes each score, and what the better side costs."""

    title: str
    differences: tuple[float | None, ...]
    gain: float
    reference_wins: bool
    cost: float | None
    noise: float | None = 0.0

    @property
    def is_clear(self) -> bool:
        """Whether the difference exceeds the noise."""
        return self.noise is not None and self.gain > self.noise

    @property
    def per_cost(self) -> float:
        """Points for each percent of time; infinite without cost, and zero where the cost is not known."""
        if self.cost is None or not self.is_clear:
            return 0.0
        return math.inf if self.cost <= FREE else self.gain / self.cost


@dataclass(frozen=True)
class _Side:
    """A line with its cost: measured alone, or else as the table shows it."""

    line: FilledLine
    cost: Cost | None

    @property
    def alone(self) -> float | None:
        return self.cost.train_minutes if self.cost else None

    @property
    def minutes(self) -> float | None:
        return self.line.train_minutes.mean

    @property
    def predict_ms(self) -> float | None:
        return self.cost.predict_ms if self.cost else self.line.predict_ms.mean


def ablations(filled: FilledTable) -> list[Ablation]:
    """All differences of a filled table, the highest gain per cost first, those within noise last."""
    costs = filled.costs.lines if filled.costs else (None,) * len(filled.lines)
    sides = [_Side(line, cost) for line, cost in zip(filled.lines, costs, strict=True) if line.group == "ours"]
    reference = next(side for side in sides if side.line is filled.line(filled.table.ranking["reference"]))
    others = [side for side in sides if side is not reference]
    found = [ablation for side in others if (ablation := _ablation(filled, side, reference)) is not None]
    return sorted(found, key=lambda ablation: (not ablation.is_clear, -ablation.per_cost, -ablation.gain))


def _ablation(filled: FilledTable, side: _Side, reference: _Side) -> Ablation | None:
    ranking, paired = filled.table.ranking, side.cost is not None and side.cost.same_weights
    changes = {
        head: _difference(filled, head, side.line, reference.line, paired=paired)
        for head in {ranking["by"], *ranking["columns"]}
    }
    changed = changes[ranking["by"]]
    if changed is None:
        return None
    cost = _cost(reference, side) if changed <= 0 else _cost(side, reference)
    noise = 0.0 if paired else _noise(filled, side.line)
    differences = tuple(changes[head] for head in ranking["columns"])
    return Ablation(side.line.title, differences, abs(changed), changed <= 0, cost, noise)


def _difference(
    filled: FilledTable, head: str, line: FilledLine, reference: FilledLine, *, paired: bool
) -> float | None:
    """The difference from the reference: with the same seed, or else from the mean over all of its seeds."""
    place = [column.head for column in filled.table.columns].index(head)
    known = filled.costs.reference.get(head, ()) if filled.costs else ()
    own = mean(known) if known and not paired else reference.cells[place].mean
    value = line.cells[place].mean
    return None if value is None or own is None else value - own


def _noise(filled: FilledTable, line: FilledLine) -> float | None:
    """Two standard deviations of a difference between seeds; None: not known."""
    if filled.costs is None:
        return 0.0
    by = filled.table.ranking["by"]
    spread, known = filled.costs.spread(by), len(filled.costs.reference.get(by, ()))
    seeds = len(line.cells[[column.head for column in filled.table.columns].index(by)].values)
    return None if spread is None else SURE * spread * math.sqrt(1 / seeds + 1 / known)


def _cost(better: _Side, worse: _Side) -> float | None:
    """Percent more time, in training or in prediction; None where either is not known for both."""
    alone = _percent(better.alone, worse.alone)
    training = _percent(better.minutes, worse.minutes) if alone is None else alone
    prediction = _percent(better.predict_ms, worse.predict_ms)
    return None if training is None or prediction is None else max(training, prediction)


def _percent(more: float | None, less: float | None) -> float | None:
    return 100 * (more / less - 1) if more and less else None


def costs_of(table: Table, lines: Sequence[Line], predictor: Predictor, scorer: Scorer, seeds: int) -> Costs:
    """The costs of a table's lines, as far as they are known.

    Args:
        table: A table with a ranking.
        lines: Its lines.
        predictor: The predictions.
        scorer: Scores those of the reference.
        seeds: How many seeds the reference may have.
    """
    columns = {column.head: (place, column) for place, column in enumerate(table.columns)}
    place, _ = columns[table.ranking["by"]]
    row = table.ranking["reference"]
    own = predictor.runs.of(row, 0).hash
    found = [
        Cost(
            _minutes_alone(line, predictor),
            _milliseconds(line, place, predictor),
            bool(line.rows) and predictor.runs.of(line.rows[0], 0).hash == own,
        )
        for line in lines
    ]
    many = range(max(seeds, tables()[SEEDED].seeds))
    scores = {
        head: _scores([Wanted(row, column.of, seed) for seed in many], column.score, predictor, scorer)
        for head, (_, column) in columns.items()
        if head in {*table.ranking["columns"], table.ranking["by"]}
    }
    return Costs(tuple(found), scores)


def _minutes_alone(line: Line, predictor: Predictor) -> float | None:
    """Minutes for all models of a line and those they started from, with the first seed; None: not all are timed."""
    own = [predictor.runs.of(row, 0) for row in line.rows] if line.group == "ours" else []
    found = [minutes_alone(run) for each in own for run in (each.start_from, each) if run is not None]
    known = [minutes for minutes in found if minutes is not None]
    return sum(known) if known and len(known) == len(found) else None


def minutes_alone(run: ModelRun) -> float | None:
    """The minutes of a run's steps, each as long as it takes with nothing else on the device."""
    trained, speed = run.trained, run.measured_speed
    return trained["steps"] * speed["seconds_per_step"] / 60 if trained and speed else None


def _milliseconds(line: Line, place: int, predictor: Predictor) -> float | None:
    known = times_alone([predictor.path(each) for each in line.models.get(place, [])]).values()
    return 1000 * mean(known) if known else None


def _scores(wanted: Sequence[Wanted], score: str, predictor: Predictor, scorer: Scorer) -> tuple[float, ...]:
    """The score in percent of every seed with predictions."""
    files = [predictor.path(each) for each in wanted]
    scored = [scorer.score(file, [part_of(score)]) for file in files if file.exists()]
    return tuple(100 * value for scores in scored if (value := value_of(scores, score)) is not None)


def ranking_table(filled: FilledTable) -> ShownTable:
    """The ranking as a table: differences, the better side, its cost, and gain per cost."""
    ranking = filled.table.ranking
    header = [
        "change",
        *(f"Δ {head}" for head in ranking["columns"]),
        "better",
        "cost",
        "gain per %",
    ]
    rows = [
        [
            ablation.title,
            *("–" if change is None else f"{change:+.2f}" for change in ablation.differences),
            _winner(ablation),
            f"{ablation.cost:+.0f} %" if ablation.cost is not None and ablation.is_clear else "–",
            _gain_per_cost(ablation),
        ]
        for ablation in ablations(filled)
    ]
    title = f"Ablation ranking by {ranking['by']} per time ({filled.dataset.title})"
    return ShownTable(title, header, rows)


def noise_note(filled: FilledTable) -> str:
    """Name the reference of the ranking and the noise that a difference must exceed."""
    costs, score = filled.costs, filled.table.ranking["by"]
    spread = costs.spread(score) if costs else None
    if costs is None or spread is None:
        return f"The spread over seeds in {score} is not known, so models with other weights cannot be ranked."
    title = filled.line(filled.table.ranking["reference"]).title
    seeds = len(costs.reference[score])
    return (
        f"Differences are from the mean of {title} over {seeds} seeds, which has a standard deviation of"
        f" {spread:.2f} {score}. Within noise: less than two standard deviations of such a difference. Lines that have"
        " the same weights are compared with the same seed, and have no such noise."
    )


def as_json(filled: FilledTable) -> list[dict[str, Any]]:
    """The ranking at full precision."""
    heads = filled.table.ranking["columns"]
    return [
        {
            "title": ablation.title,
            "differences": dict(zip(heads, ablation.differences, strict=True)),
            "better": _winner(ablation),
            "noise": ablation.noise,
            "cost_percent": ablation.cost,
        }
        for ablation in ablations(filled)
    ]


def _winner(ablation: Ablation) -> str:
    if ablation.noise is None:
        return "not known"
    if not ablation.is_clear:
        return "within noise" if ablation.noise else "–"
    return "reference" if ablation.reference_wins else "change"


def _gain_per_cost(ablation: Ablation) -> str:
    if ablation.cost is None or not ablation.is_clear:
        return "–"
    return "free" if math.isinf(ablation.per_cost) else f"{ablation.per_cost:.3f}"
