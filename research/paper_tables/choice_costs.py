"""What the lines of a ranked table cost, and what they are compared with: a difference is weighed by both in `ranking`.

Runs that shared a device slowed each other down, so the minutes they took are no measure: steps are counted, and each
takes as long as it takes alone. Predictions cost what those take alone that the ranked score is of: a summary tells
less than all that is proposed, and another kind of summary may take longer.

One seed is luck: lines are compared with the mean of all seeds of the reference that are there. Lines that have the
reference's own weights are compared with the same seed of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev

from research.paper_tables.definitions import Table, tables
from research.paper_tables.model_runs import ModelRun
from research.paper_tables.predict_models import Predictor, Wanted, times_alone
from research.paper_tables.score_predictions import Scorer, part_of, value_of
from research.paper_tables.table_lines import Line

SEEDED = 1  # the table whose seeds tell how far apart they lie


@dataclass(frozen=True)
class Cost:
    """Of a line: minutes to train, ms a video to predict what is ranked, both alone on the device; None: not known.

    `same_weights`: its model is the reference's own.
    """

    train_minutes: float | None = None
    predict_ms: float | None = None
    same_weights: bool = False


@dataclass(frozen=True)
class Costs:
    """Of every line of a table, in its order, and the reference's scores over its seeds by column."""

    lines: tuple[Cost, ...]
    reference: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def spread(self, column: str) -> float | None:
        """The standard deviation of the reference over its seeds."""
        values = self.reference.get(column, ())
        return stdev(values) if len(values) > 1 else None


def costs_of(table: Table, lines: Sequence[Line], predictor: Predictor, scorer: Scorer, seeds: int) -> Costs:
    """What is known of them; `seeds`: those of the reference that may be there."""
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
    """Of all models of a line and those they started from, with the first seed, whose steps are timed."""
    own = [predictor.runs.of(row, 0) for row in line.rows] if line.group == "ours" else []
    found = [minutes_alone(run) for each in own for run in (each.start_from, each) if run is not None]
    known = [minutes for minutes in found if minutes is not None]
    return sum(known) if known and len(known) == len(found) else None


def minutes_alone(run: ModelRun) -> float | None:
    """Steps, each as long as it takes with nothing else on the device."""
    trained, speed = run.trained, run.measured_speed
    return trained["steps"] * speed["seconds_per_step"] / 60 if trained and speed else None


def _milliseconds(line: Line, place: int, predictor: Predictor) -> float | None:
    known = times_alone([predictor.path(each) for each in line.models.get(place, [])]).values()
    return 1000 * mean(known) if known else None


def _scores(wanted: Sequence[Wanted], score: str, predictor: Predictor, scorer: Scorer) -> tuple[float, ...]:
    """The score in percent of every seed that is predicted."""
    files = [predictor.path(each) for each in wanted]
    scored = [scorer.score(file, [part_of(score)]) for file in files if file.exists()]
    return tuple(100 * value for scores in scored if (value := value_of(scores, score)) is not None)
