"""Pictures of filled tables: bars with the spread over seeds, and the paper's recall curve at tIoU .8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from densevid.artifacts import atomic_path
from densevid.reproduce.filled_table import QUICK, FilledTable

HEADLINES = ("SODA_c", "M 2018", "AR@10", "M")
COLOURS = {"ours": "tab:blue", "oracle": "tab:green", "baseline": "tab:gray", "published": "tab:orange"}
INK = "0.2"


def headline(filled: FilledTable) -> int | None:
    """The column that a picture shows: the first of the telling ones that has a number."""
    heads = [column.head for column in filled.table.columns]
    places = [heads.index(head) for head in HEADLINES if head in heads] or [len(heads) - 1]
    return next(
        (place for place in places if any(line.cells and line.cells[place].values for line in filled.lines)), None
    )


def plot_bars(path: Path, filled: FilledTable) -> bool:
    """The headline column of every line that has it; whether there was anything to draw."""
    place = headline(filled)
    if place is None:
        return False
    lines = [line for line in filled.lines if line.cells and line.cells[place].mean is not None][::-1]
    figure, axes = _figure(7, 1 + 0.32 * len(lines))
    for height, line in enumerate(lines):
        cell = line.cells[place]
        axes.barh(height, cell.mean, xerr=cell.spread, color=COLOURS[line.group], height=0.7, ecolor=INK)
        end = (cell.mean or 0.0) + (cell.spread or 0.0)
        axes.annotate(f"{cell.mean:.1f}", (end, height), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(lines)), [line.title for line in lines], fontsize=8)
    axes.set(xlabel=filled.table.columns[place].head)
    axes.margins(x=0.08)
    _tidy(axes, filled)
    _save(figure, path)
    return True


def plot_recall(path: Path, filled: FilledTable) -> bool:
    """Recall at tIoU .8 over the number of proposals, a curve a line; baselines are dashed."""
    lines = [line for line in filled.lines if line.curve is not None]
    if not lines:
        return False
    figure, axes = _figure(9, 4)
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


def _figure(width: float, height: float) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(width, height), layout="constrained")


def _tidy(axes: Any, filled: FilledTable) -> None:
    mark = f"\n({QUICK})" if QUICK in filled.facts else ""
    axes.set_title(f"Table {filled.table.number}, {filled.dataset.title}{mark}", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="both" if axes.lines else "x", color="0.9")
    axes.set_axisbelow(True)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
    pyplot.close(figure)
