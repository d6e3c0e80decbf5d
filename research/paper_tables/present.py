"""Filled tables for people: Markdown, LaTeX, JSON and pictures, one of each a table, and all of them in one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from densevid.evaluation.report import Table as ShownTable
from densevid.evaluation.report import as_markdown
from densevid.io import provenance, write_json, write_text
from research.paper_tables.filled_table import QUICK, Cell, FilledTable
from research.paper_tables.latex_table import LatexTable
from research.paper_tables.ranking import as_json as ranking_json
from research.paper_tables.ranking import noise_note, ranking_table
from research.paper_tables.table_plots import plot_bars, plot_recall

NOTHING = "–"
GROUPS = {"ours": "", "oracle": "", "baseline": "baseline: ", "published": "published: "}
TIMES = {
    "events": "events/video",
    "summary_events": "in summary",
    "train_minutes": "train min",
    "train_speed": "train videos/s",
    "predict_ms": "predict ms/video",
}


def shown(filled: FilledTable) -> ShownTable:
    """The table as text: scores in percent, the paper's own numbers beside ours where there are any."""
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
    """Mean ± spread; how many of the seeds are there if not all are."""
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
    """What to know besides the numbers."""
    seeds = max((cell.seeds for line in filled.lines for cell in line.cells), default=0)
    spread = f"Mean ± standard deviation over {seeds} seeds" if seeds > 1 else "One seed"
    notes = [f"Data: {filled.dataset.about}. {spread}."]
    notes += [f"{fact[0].upper()}{fact[1:]}." for fact in filled.facts if fact != QUICK]  # which the title says
    titles: dict[tuple[str, ...], list[str]] = {}
    for line in filled.lines:
        titles.setdefault(line.notes, []).append(line.title)
    notes += [f"{', '.join(some)}: {'; '.join(told)}." for told, some in titles.items() if told]
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
    """The same for a paper."""
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
    """table-N.md, .tex, .json and pictures; the path of the first."""
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
    """All tables that were ever filled in this folder, in one file."""
    files = sorted(folder.glob("table-*.md"))
    write_text(folder / "report.md", f"# {title}\n\n" + "\n".join(file.read_text(encoding="utf-8") for file in files))
    return folder / "report.md"
