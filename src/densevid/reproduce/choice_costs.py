"""What the lines of a ranked table cost, and how far apart seeds lie: what a difference is weighed with in `ranking`.

Runs that shared a device slowed each other down, so the minutes they took are no measure: steps are counted, and each
takes as long as it takes alone. Predictions cost what those took that the ranked score is of: a summary tells less than
all that is proposed, and another kind of summary may take longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from densevid.reproduce.definitions import Table, tables
from densevid.reproduce.model_runs import ModelRun
from densevid.reproduce.predict_models import Predictor, Wanted
from densevid.reproduce.prediction_times import prediction_times
from densevid.reproduce.score_predictions import Scorer, part_of, value_of
from densevid.reproduce.table_lines import Line

SEEDED = 1  # the table whose seeds tell how far apart they lie


@dataclass(frozen=True)
class Cost:
    """Of a line: minutes to train alone on the device, ms a video to predict what is ranked; None: not known."""

    train_minutes: float | None = None
    predict_ms: float | None = None


@dataclass(frozen=True)
class Costs:
    """Of every line of a table, in its order, and the reference's spread over so many seeds in the ranked score."""

    lines: tuple[Cost, ...]
    spread: float | None = None
    seeds: int = 0


def costs_of(table: Table, lines: Sequence[Line], predictor: Predictor, scorer: Scorer, seeds: int) -> Costs:
    """What is known of them; `seeds`: those of the reference that may be there."""
    place = [column.head for column in table.columns].index(table.ranking["by"])
    found = [Cost(_minutes_alone(line, predictor), _milliseconds(line, place, predictor)) for line in lines]
    wanted = [
        Wanted(table.ranking["reference"], table.columns[place].of, seed)
        for seed in range(max(seeds, tables()[SEEDED].seeds))
    ]
    values = _scores(wanted, table.columns[place].score, predictor, scorer)
    return Costs(tuple(found), stdev(values) if len(values) > 1 else None, len(values))


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
    files = [predictor.path(each) for each in line.models.get(place, [])]
    known = prediction_times([file for file in files if file.exists()]).values()
    return 1000 * mean(known) if known else None


def _scores(wanted: Sequence[Wanted], score: str, predictor: Predictor, scorer: Scorer) -> list[float]:
    """The score in percent of every seed that is predicted."""
    files = [predictor.path(each) for each in wanted]
    scored = [scorer.score(file, [part_of(score)]) for file in files if file.exists()]
    return [100 * value for scores in scored if (value := value_of(scores, score)) is not None]
