"""Pictures of filled tables: bars with the spread over seeds, and the paper's recall curve at tIoU .8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from densevid.io import atomic_path
from research.paper_tables.filled_table import FilledLine, FilledTable

COLOURS = {"ours": "tab:blue", "oracle": "tab:green", "baseline": "tab:gray", "published": "tab:orange"}
INK = "0.2"
TITLE_WIDTH = 55  # letters


def headline(filled: FilledTable) -> int | None:
    """The column that a picture shows: the table's own choice, or the first that has a number where that has none."""
    heads = [column.head for column in filled.table.columns]
    places = sorted(range(len(heads)), key=lambda place: heads[place] != filled.table.headline)
    return next((place for place in places if any(_mean(line, place) is not None for line in filled.lines)), None)


def plot_bars(path: Path, filled: FilledTable) -> bool:
    """The headline column of every line that has it; whether there was anything to draw."""
    place = headline(filled)
    if place is None:
        return False
    _save(bars(filled, place), path)
    return True


def bars(filled: FilledTable, place: int) -> Any:
    """A figure of a column.

    What oracles would give has an axis of its own: beside it the differences between models could not be seen.
    """
    there = [line for line in filled.lines if _mean(line, place) is not None][::-1]
    parts = [[line for line in there if (line.group == "oracle") == oracles] for oracles in (False, True)]
    parts = [part for part in parts if part]
    figure, all_axes = _figure(7, len(parts) + 0.32 * len(there), [len(part) + 0.5 for part in parts])
    for axes, part in zip(all_axes, parts, strict=True):
        _bars(axes, part, place)
        axes.set(xlabel=filled.table.columns[place].head)
        _tidy(axes, filled if axes is all_axes[0] else None)
    return figure


def _bars(axes: Any, lines: Sequence[FilledLine], place: int) -> None:
    for height, line in enumerate(lines):
        cell = line.cells[place]
        axes.barh(height, cell.mean, xerr=cell.spread, color=COLOURS[line.group], height=0.7, ecolor=INK)
        end = (cell.mean or 0.0) + (cell.spread or 0.0)
        axes.annotate(f"{cell.mean:.1f}", (end, height), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(lines)), [line.title for line in lines], fontsize=8)
    axes.margins(x=0.08)
    axes.set_ylim(-0.75, len(lines) - 0.25)


def _mean(line: FilledLine, place: int) -> float | None:
    return line.cells[place].mean if line.cells else None


def plot_recall(path: Path, filled: FilledTable) -> bool:
    """Recall at tIoU .8 over the number of proposals, a curve a line; baselines are dashed."""
    lines = [line for line in filled.lines if line.curve is not None]
    if not lines:
        return False
    figure, (axes,) = _figure(9, 4, [1])
    for line in lines:
        assert line.curve is not None
        numbers, recall = line.curve
        style = "--" if line.group == "baseline" else "-"
        axes.plot(numbers, [100 * value for value in recall], style, label=line.title)
    axes.set(xlabel="proposals per video, on average", ylabel="recall at tIoU 0.8 (%)", xlim=(0, None), ylim=(0, 100))
    _tidy(axes, filled)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)  # beside the curves, never on them
    _save(figure, path)
    return True


def _figure(width: float, height: float, shares: Sequence[float]) -> Any:
    """A figure with axes one under another, of such shares of its height."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(shares), figsize=(width, height), layout="constrained", height_ratios=shares, squeeze=False
    )
    return figure, list(axes[:, 0])


def _tidy(axes: Any, filled: FilledTable | None) -> None:
    """Nothing but what is needed; a title for the axes of a table."""
    if filled is not None:
        lines = [f"Table {filled.table.number}, {filled.dataset.title}", *wrap(filled.mark.strip(), TITLE_WIDTH)]
        axes.set_title("\n".join(lines), fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="both" if axes.lines else "x", color="0.9")
    axes.set_axisbelow(True)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
    pyplot.close(figure)
