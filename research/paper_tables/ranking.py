"""What each choice is worth: the difference one row makes, what the better side of it costs, and gain per cost.

The better of two choices is better by some points and takes some more time, in training or in prediction, whichever it
adds more to. A gain that costs nothing comes first; others are ranked by points per percent of time. Last are those of
which it is not known which side is better: two standard deviations of a difference between seeds are larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import mean
from typing import Any

from densevid.evaluation.report import Table as ShownTable
from research.paper_tables.choice_costs import Cost
from research.paper_tables.filled_table import FilledLine, FilledTable

FREE = 1.0  # percent of time that is not worth speaking of
SURE = 2.0  # standard deviations


@dataclass(frozen=True)
class Choice:
    """One difference from the reference, by how much it changes each score, and what the better side costs."""

    title: str
    differences: tuple[float | None, ...]
    gain: float
    reference_wins: bool
    cost: float | None
    noise: float | None = 0.0

    @property
    def is_clear(self) -> bool:
        """Whether it is known which side is better."""
        return self.noise is not None and self.gain > self.noise

    @property
    def per_cost(self) -> float:
        """Points for each percent of time; infinite where it is free, and zero where that is not known."""
        if self.cost is None or not self.is_clear:
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
    """The best bargain first, what is not clear last; a row without numbers is not ranked."""
    costs = filled.costs.lines if filled.costs else (None,) * len(filled.lines)
    sides = [_Side(line, cost) for line, cost in zip(filled.lines, costs, strict=True) if line.group == "ours"]
    reference = next(side for side in sides if side.line is filled.line(filled.table.ranking["reference"]))
    others = [side for side in sides if side is not reference]
    found = [choice for side in others if (choice := _choice(filled, side, reference)) is not None]
    return sorted(found, key=lambda choice: (not choice.is_clear, -choice.per_cost, -choice.gain))


def _choice(filled: FilledTable, side: _Side, reference: _Side) -> Choice | None:
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
    return Choice(side.line.title, differences, abs(changed), changed <= 0, cost, noise)


def _difference(
    filled: FilledTable, head: str, line: FilledLine, reference: FilledLine, *, paired: bool
) -> float | None:
    """From the reference with the same seeds, or else from the mean over all of its seeds that are known."""
    place = [column.head for column in filled.table.columns].index(head)
    known = filled.costs.reference.get(head, ()) if filled.costs else ()
    own = mean(known) if known and not paired else reference.cells[place].mean
    told = line.cells[place].mean
    return None if told is None or own is None else told - own


def _noise(filled: FilledTable, line: FilledLine) -> float | None:
    """How far apart two models that differ in nothing but their seeds may well lie; None: not known."""
    if filled.costs is None:
        return 0.0
    by = filled.table.ranking["by"]
    spread, known = filled.costs.spread(by), len(filled.costs.reference.get(by, ()))
    seeds = len(line.cells[[column.head for column in filled.table.columns].index(by)].values)
    return None if spread is None else SURE * spread * math.sqrt(1 / seeds + 1 / known)


def _cost(better: _Side, worse: _Side) -> float | None:
    """Percent more time, in training or in prediction; None where either is not known of both."""
    alone = _percent(better.alone, worse.alone)
    training = _percent(better.minutes, worse.minutes) if alone is None else alone
    prediction = _percent(better.predict_ms, worse.predict_ms)
    return None if training is None or prediction is None else max(training, prediction)


def _percent(more: float | None, less: float | None) -> float | None:
    return 100 * (more / less - 1) if more and less else None


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
            f"{choice.cost:+.0f} %" if choice.cost is not None and choice.is_clear else "–",
            _bargain(choice),
        ]
        for choice in choices(filled)
    ]
    title = f"What each choice is worth, by {ranking['by']} per time ({filled.dataset.title})"
    return ShownTable(title, header, rows)


def noise_note(filled: FilledTable) -> str:
    """What a difference must exceed to be one, and from what it is."""
    costs, score = filled.costs, filled.table.ranking["by"]
    spread = costs.spread(score) if costs else None
    if costs is None or spread is None:
        return f"How far apart seeds lie in {score} is not known, so of other weights not which are better."
    title = filled.line(filled.table.ranking["reference"]).title
    seeds = len(costs.reference[score])
    return (
        f"Differences are from the mean of {title} over {seeds} seeds, which has a standard deviation of"
        f" {spread:.2f} {score}. Within noise: less than two standard deviations of such a difference. Lines that have"
        " the same weights are compared with the same seed, and have no such noise."
    )


def as_json(filled: FilledTable) -> list[dict[str, Any]]:
    """The choices in their order, at full precision."""
    heads = filled.table.ranking["columns"]
    return [
        {
            "title": choice.title,
            "differences": dict(zip(heads, choice.differences, strict=True)),
            "better": _winner(choice),
            "noise": choice.noise,
            "cost_percent": choice.cost,
        }
        for choice in choices(filled)
    ]


def _winner(choice: Choice) -> str:
    if choice.noise is None:
        return "not known"
    if not choice.is_clear:
        return "within noise" if choice.noise else "–"
    return "ours" if choice.reference_wins else "this"


def _bargain(choice: Choice) -> str:
    if choice.cost is None or not choice.is_clear:
        return "–"
    return "free" if math.isinf(choice.per_cost) else f"{choice.per_cost:.3f}"
