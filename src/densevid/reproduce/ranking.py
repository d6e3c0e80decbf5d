"""What each choice is worth: the difference one row makes, what the better side of it costs, and gain per cost.

The better of two choices is better by some points and takes some more time, in training or in prediction, whichever it
adds more to. A gain that costs nothing comes first; others are ranked by points per percent of time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from densevid.evaluation.report import Table as ShownTable
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

    @property
    def per_cost(self) -> float:
        """Points for each percent of time; infinite where it is free, and zero where the cost is not known."""
        if self.cost is None or not self.gain:
            return 0.0
        return math.inf if self.cost <= FREE else self.gain / self.cost


def choices(filled: FilledTable) -> list[Choice]:
    """The best bargain first; a row without numbers is not ranked."""
    ranking, heads = filled.table.ranking, [column.head for column in filled.table.columns]
    places = [heads.index(head) for head in ranking["columns"]]
    by = heads.index(ranking["by"])
    reference = filled.line(ranking["reference"])
    others = [line for line in filled.lines if line.group == "ours" and line is not reference]
    found = [choice for line in others if (choice := _choice(line, reference, by, places)) is not None]
    return sorted(found, key=lambda choice: (-choice.per_cost, -choice.gain))


def _choice(line: FilledLine, reference: FilledLine, by: int, places: list[int]) -> Choice | None:
    changed = _difference(line.cells[by], reference.cells[by])
    if changed is None:
        return None
    better, worse = (reference, line) if changed <= 0 else (line, reference)
    costs = [
        100 * (getattr(better, name).mean / getattr(worse, name).mean - 1)
        for name in ("train_minutes", "predict_ms")
        if getattr(better, name).mean and getattr(worse, name).mean
    ]
    differences = tuple(_difference(line.cells[place], reference.cells[place]) for place in places)
    return Choice(line.title, differences, abs(changed), changed <= 0, max(costs, default=None))


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
            "–" if not choice.gain else "ours" if choice.reference_wins else "this",
            "–" if choice.cost is None or not choice.gain else f"{choice.cost:+.0f} %",
            _bargain(choice),
        ]
        for choice in choices(filled)
    ]
    title = f"What each choice is worth, by {ranking['by']} per time ({filled.dataset.title})"
    return ShownTable(title, header, rows)


def _bargain(choice: Choice) -> str:
    if choice.cost is None or not choice.gain:
        return "–"
    return "free" if math.isinf(choice.per_cost) else f"{choice.per_cost:.3f}"
