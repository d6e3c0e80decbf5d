"""Filled tables for readers: Markdown, LaTeX, JSON and pictures of each table, and one report of all.

LaTeX tables are whole floats with caption, label and notes, and need the packages booktabs and graphicx; one that is
wider than a page is scaled to its width. Pictures are bars with the spread over seeds, and the paper's recall curve at
tIoU .8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from densevid.evaluation.report import Table as ShownTable
from densevid.evaluation.report import as_markdown, latex_text
from densevid.io import atomic_path, provenance, write_json, write_text
from research.paper_tables.filled_table import Cell, FilledLine, FilledTable
from research.paper_tables.ranking import as_json as ranking_json
from research.paper_tables.ranking import noise_note, ranking_table
from research.paper_tables.table_notes import QUICK

NOTHING = "–"
ONE_COLUMN, ONE_PAGE = 5, 9  # columns of a LaTeX table that fit beside another column of text, and on a page
COLOURS = {"ours": "tab:blue", "oracle": "tab:green", "baseline": "tab:gray", "published": "tab:orange"}
INK = "0.2"
TITLE_WIDTH = 55  # letters
GROUPS = {"ours": "", "oracle": "", "baseline": "baseline: ", "published": "published: "}
TIMES = {
    "events": "events/video",
    "summary_events": "in summary",
    "train_minutes": "train min",
    "train_speed": "train videos/s",
    "predict_ms": "predict ms/video",
}


def shown(filled: FilledTable) -> ShownTable:
    """The table as text: scores in percent, beside them the paper's numbers where there are any."""
    heads = [column.head for column in filled.table.columns]
    papers = {head for head in heads if any(head in line.paper for line in filled.lines)}
    times = _times(filled)
    header = [""]
    for head in heads:
        header += [head, f"{head} (paper)"] if head in papers else [head]
    rows = []
    for line in filled.lines:
        cells = [f"{GROUPS[line.group]}{line.title}"]
        for head, cell in zip(heads, line.cells, strict=True):
            cells.append(cell_text(cell))
            cells += [f"{line.paper[head]:.2f}" if head in line.paper else NOTHING] if head in papers else []
        rows.append([*cells, *(cell_text(getattr(line, name), 1) for name in times)])
    title = f"Table {filled.table.number}. {filled.table.caption}. {filled.dataset.title}{filled.mark}"
    return ShownTable(title, [*header, *times.values()], rows)


def cell_text(cell: Cell, digits: int = 2) -> str:
    """Mean ± spread, and how many of the seeds are finished if not all are."""
    if cell.mean is None:
        return NOTHING
    if cell.by_construction:
        return f"{cell.mean:g} (by construction)"
    spread = f" ± {cell.spread:.{digits}f}" if cell.spread is not None else ""
    missing = f" ({len(cell.values)} of {cell.seeds})" if len(cell.values) < cell.seeds else ""
    return f"{cell.mean:.{digits}f}{spread}{missing}"


def _times(filled: FilledTable) -> dict[str, str]:
    """The last columns; events of a summary where one is scored."""
    summarised = any(column.of == "summary" for column in filled.table.columns)
    return {name: head for name, head in TIMES.items() if summarised or name != "summary_events"}


def notes_of(filled: FilledTable) -> list[str]:
    """The notes under a table."""
    seeds = max((cell.seeds for line in filled.lines for cell in line.cells), default=0)
    spread = f"Mean ± standard deviation over {seeds} seeds" if seeds > 1 else "One seed"
    notes = [f"Data: {filled.dataset.about}. {spread}."]
    notes += [f"{fact[0].upper()}{fact[1:]}." for fact in filled.facts if fact != QUICK]  # which is in the title
    titles: dict[tuple[str, ...], list[str]] = {}
    for line in filled.lines:
        titles.setdefault(line.notes, []).append(line.title)
    notes += [f"{', '.join(some)}: {'; '.join(notes)}." for notes, some in titles.items() if notes]
    return notes


def markdown(filled: FilledTable, pictures: Sequence[Path]) -> str:
    """A table with its notes, its ranking and its pictures."""
    parts = [as_markdown(shown(filled)), "\n".join(f"- {note}" for note in notes_of(filled)) + "\n"]
    if filled.table.ranking:
        ranked = ranking_table(filled)
        parts.append(as_markdown(replace(ranked, title=f"{ranked.title}{filled.mark}")))
        parts.append(f"- {noise_note(filled)}\n")
    parts += [f"![{picture.stem}]({picture.name})\n" for picture in pictures]
    return "\n".join(parts)


def latex(filled: FilledTable) -> str:
    """Write the table as LaTeX, for a paper."""
    number, table = filled.table.number, shown(filled)
    unnumbered = replace(table, title=table.title.removeprefix(f"Table {number}. "))  # a paper counts its own
    name, groups = f"{filled.dataset.name}-{number}", [line.group for line in filled.lines]
    parts = [LatexTable(unnumbered, f"tab:{name}", groups, notes_of(filled))]
    if filled.table.ranking:
        ranked = ranking_table(filled)
        titled = replace(ranked, title=f"{ranked.title}{filled.mark}")
        parts.append(LatexTable(titled, f"tab:{name}-ranking", notes=[noise_note(filled)]))
    return "\n".join(part.text() for part in parts)


def write_table(filled: FilledTable, folder: Path) -> Path:
    """Write table-N.md, .tex, .json and pictures; return the path of the first."""
    name = f"table-{filled.table.number}"
    pictures = []
    if plot_bars(folder / f"{name}.png", filled):
        pictures.append(folder / f"{name}.png")
    if filled.table.curve and plot_recall(folder / f"{name}-recall.png", filled):
        pictures.append(folder / f"{name}-recall.png")
    write_text(folder / f"{name}.md", markdown(filled, pictures))
    write_text(folder / f"{name}.tex", latex(filled))
    ranked = {"ranking": ranking_json(filled)} if filled.table.ranking else {}
    about = provenance(command="reproduce")
    write_json(folder / f"{name}.json", {**filled.as_json(), **ranked, "provenance": about})
    return folder / f"{name}.md"


def write_report(folder: Path, title: str) -> Path:
    """Write all tables of this folder into one file."""
    files = sorted(folder.glob("table-*.md"))
    write_text(folder / "report.md", f"# {title}\n\n" + "\n".join(file.read_text(encoding="utf-8") for file in files))
    return folder / "report.md"


@dataclass(frozen=True)
class LatexTable:
    """A LaTeX float; `groups` has the kind of every row, with a rule where it changes."""

    table: ShownTable
    label: str
    groups: Sequence[str] = ()
    notes: Sequence[str] = ()

    def text(self) -> str:
        """The whole float."""
        float_name = "table" if len(self.table.header) <= ONE_COLUMN else "table*"
        lines = [
            "% needs \\usepackage{booktabs,graphicx}",
            f"\\begin{{{float_name}}}[t]",
            "\\centering",
            f"\\caption{{{latex_text(self.table.title)}}}",
            f"\\label{{{self.label}}}",
            *self._sized(self._tabular()),
            *self._below(),
            f"\\end{{{float_name}}}",
        ]
        return "\n".join(lines) + "\n"

    def _tabular(self) -> list[str]:
        columns = "l" + "r" * (len(self.table.header) - 1)
        body = [_latex_row(row) for row in self.table.rows]
        for place in reversed(self._changes()):
            body.insert(place, "\\midrule")
        head = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", _latex_row(self.table.header), "\\midrule"]
        return [*head, *body, "\\bottomrule", "\\end{tabular}"]

    def _changes(self) -> list[int]:
        """The rows before which the kind changes."""
        pairs = zip(self.groups, self.groups[1:], strict=False)
        return [place for place, (before, after) in enumerate(pairs, start=1) if before != after]

    def _sized(self, tabular: list[str]) -> list[str]:
        if len(self.table.header) <= ONE_PAGE:
            return ["{\\small", *tabular, "}"]
        return ["\\resizebox{\\textwidth}{!}{%", *tabular, "}"]

    def _below(self) -> list[str]:
        if not self.notes:
            return []
        notes = [f"{latex_text(note)}\\par" for note in self.notes]
        return ["\\smallskip", "\\begin{minipage}{\\linewidth}\\footnotesize", *notes, "\\end{minipage}"]


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"


def headline(filled: FilledTable) -> int | None:
    """The column of a picture: the table's headline, or the first that has a number where that has none."""
    heads = [column.head for column in filled.table.columns]
    places = sorted(range(len(heads)), key=lambda place: heads[place] != filled.table.headline)
    return next((place for place in places if any(_mean(line, place) is not None for line in filled.lines)), None)


def plot_bars(path: Path, filled: FilledTable) -> bool:
    """Draw the headline column of every line that has it; return whether there was any."""
    place = headline(filled)
    if place is None:
        return False
    _save(bars(filled, place), path)
    return True


def bars(filled: FilledTable, place: int) -> Any:
    """A figure of a column; oracles have an axis of their own, since their values dwarf those of the models."""
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
    """Draw recall at tIoU .8 over the number of proposals, a curve a line; baselines are dashed."""
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
    """Remove clutter; add a title for the axes of a table."""
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
