"""What each choice is worth: the difference one row makes, what the better side of it costs, and gain per cost.

The better of two choices is better by some points and takes some more time, in training or in prediction, whichever it
adds more to. A gain that costs nothing comes first; others are ranked by points per percent of time. Last are those
that are smaller than the reference's own spread over seeds: which side is better is not known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from densevid.evaluation.report import Table as ShownTable
from densevid.reproduce.choice_costs import Cost
from densevid.reproduce.filled_table import Cell, FilledLine, FilledTable

FREE = 1.0  # percent of time that is not worth speaking of


@dataclass(frozen=True)
class Choice:
    """One difference from the reference, by how much it changes each score, and what the better side costs."""

    title: str
    differences: tuple[float | None, ...]
    gain: float
    reference_wins: bool
    cost: float | None
    within_noise: bool = False

    @property
    def per_cost(self) -> float:
        """Points for each percent of time; infinite where it is free, and zero where that is not known."""
        if self.cost is None or not self.gain or self.within_noise:
            return 0.0
        return math.inf if self.cost <= FREE else self.gain / self.cost


@dataclass(frozen=True)
class _Side:
    """A line with what it costs: as it was measured for this ranking, or as the table shows it."""

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


def choices(filled: FilledTable) -> list[Choice]:
    """The best bargain first, what is within noise last; a row without numbers is not ranked."""
    ranking, heads = filled.table.ranking, [column.head for column in filled.table.columns]
    places = [heads.index(head) for head in ranking["columns"]]
    by = heads.index(ranking["by"])
    costs = filled.costs.lines if filled.costs else (None,) * len(filled.lines)
    sides = [_Side(line, cost) for line, cost in zip(filled.lines, costs, strict=True) if line.group == "ours"]
    reference = next(side for side in sides if side.line is filled.line(ranking["reference"]))
    spread = (filled.costs.spread if filled.costs else None) or 0.0
    others = [side for side in sides if side is not reference]
    found = [choice for side in others if (choice := _choice(side, reference, by, places, spread)) is not None]
    return sorted(found, key=lambda choice: (choice.within_noise, -choice.per_cost, -choice.gain))


def _choice(side: _Side, reference: _Side, by: int, places: list[int], spread: float) -> Choice | None:
    cells, own = side.line.cells, reference.line.cells
    changed = _difference(cells[by], own[by])
    if changed is None:
        return None
    cost = _cost(reference, side) if changed <= 0 else _cost(side, reference)
    differences = tuple(_difference(cells[place], own[place]) for place in places)
    return Choice(side.line.title, differences, abs(changed), changed <= 0, cost, abs(changed) < spread)


def _cost(better: _Side, worse: _Side) -> float | None:
    """Percent more time, in training or in prediction; None where either is not known of both."""
    alone = _percent(better.alone, worse.alone)
    training = _percent(better.minutes, worse.minutes) if alone is None else alone
    prediction = _percent(better.predict_ms, worse.predict_ms)
    return None if training is None or prediction is None else max(training, prediction)


def _percent(more: float | None, less: float | None) -> float | None:
    return 100 * (more / less - 1) if more and less else None


def _difference(cell: Cell, reference: Cell) -> float | None:
    return None if cell.mean is None or reference.mean is None else cell.mean - reference.mean


def ranking_table(filled: FilledTable) -> ShownTable:
    """The choices as a table: the differences that a row makes, who is better, and gain per cost."""
    ranking = filled.table.ranking
    header = [
        "instead of our choice",
        *(f"Δ {head}" for head in ranking["columns"]),
        "better",
        "its cost",
        "gain per %",
    ]
    rows = [
        [
            choice.title,
            *("–" if change is None else f"{change:+.2f}" for change in choice.differences),
            _winner(choice),
            "–" if choice.cost is None or not choice.gain or choice.within_noise else f"{choice.cost:+.0f} %",
            _bargain(choice),
        ]
        for choice in choices(filled)
    ]
    title = f"What each choice is worth, by {ranking['by']} per time ({filled.dataset.title})"
    return ShownTable(title, header, rows)


def noise_note(filled: FilledTable) -> str:
    """What a difference must exceed to be one."""
    costs, score = filled.costs, filled.table.ranking["by"]
    if costs is None or costs.spread is None:
        return f"How far apart seeds lie in {score} is not known: small differences may be noise."
    title = filled.line(filled.table.ranking["reference"]).title
    return (
        f"Within noise: smaller than the standard deviation of {title} over {costs.seeds} seeds,"
        f" {costs.spread:.2f} {score}."
    )


def _winner(choice: Choice) -> str:
    if choice.within_noise:
        return "within noise"
    return "–" if not choice.gain else "ours" if choice.reference_wins else "this"


def _bargain(choice: Choice) -> str:
    if choice.cost is None or not choice.gain or choice.within_noise:
        return "–"
    return "free" if math.isinf(choice.per_cost) else f"{choice.per_cost:.3f}"
