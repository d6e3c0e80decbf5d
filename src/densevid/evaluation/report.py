"""Tables for reading (rich, or plain text) and for pasting (markdown, LaTeX, CSV, HTML), and the figure of recall.

Scores are printed x 100.
"""

from __future__ import annotations

import csv
import html
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from densevid.errors import InputError
from densevid.evaluation.coverage import Coverage
from densevid.evaluation.protocols.proposals import TIOUS, ProposalScores
from densevid.io import atomic_path

SHORT = {
    "Bleu_1": "B@1",
    "Bleu_2": "B@2",
    "Bleu_3": "B@3",
    "Bleu_4": "B@4",
    "ROUGE_L": "ROUGE",
    "Recall": "Rec",
    "Precision": "Prec",
}
LATEX_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}"}
    | {"±": r"$\pm$", "–": "--", "Δ": r"$\Delta$", "×": r"$\times$", "−": "$-$", "\n": " ", "\r": " ", "\0": "{}"}
)


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of text; the first column names the row."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def score_tables(content: Mapping[str, Any]) -> Iterator[Table]:
    """One table for each part of the result's JSON."""
    if "captioning" in content:
        parts = content["captioning"]
        rows = parts["per_tiou"] | {"mean": parts["average"]}
        yield _table(f"captioning, protocol {content['protocol']}", rows)
    if "soda" in content:
        rows = {f"{kind} {mode}": scores for kind, modes in content["soda"].items() for mode, scores in modes.items()}
        yield _table(f"SODA ({content['soda_metric']})", rows)
    if "paragraph" in content:
        yield _table("paragraphs", {"all": content["paragraph"]})
    if "proposals" in content:
        sides = content["proposals"]
        yield _table(
            "proposals",
            {side: {k: v for k, v in s.items() if k not in ("recall", "curve")} for side, s in sides.items()},
        )
        yield _table("proposal recall at tIoU", {side: scores["recall"] for side, scores in sides.items()})
    if "segments" in content:
        yield _table("given segments", content["segments"])
    if "support" in content:
        yield _support_table(content["support"])


def coverage_table(coverage: Coverage, title: str = "coverage") -> Table:
    """The coverage as a table."""
    events, files = coverage.events_per_video, coverage.files
    rows = [
        ("reference videos", str(coverage.reference_videos)),
        ("with predictions", f"{coverage.predicted_videos} ({len(coverage.missing_videos)} missing, score 0)"),
        ("unknown videos", str(len(coverage.unknown_videos))),
        ("events per video", f"{events['mean']:.2f} ({events['min']:g} to {events['max']:g})"),
        ("reference events per video", f"{coverage.reference_events_per_video:.2f}"),
        ("repeated sentences", f"{percent(coverage.repeated_sentences)} % of events repeat one of their video"),
        ("distinct sentences", f"{percent(coverage.distinct_sentences)} % of all"),
    ]
    rows += [(f"references {place}", _described(file)) for place, file in enumerate(files["references"], start=1)]
    rows.append(("predictions", _described(files["predictions"])))
    rows += [
        (f"paragraphs {place}", _described(file)) for place, file in enumerate(files.get("paragraphs", ()), start=1)
    ]
    if coverage.paragraph:
        missing, unknown = (len(coverage.paragraph[key]) for key in ("missing_videos", "unknown_videos"))
        rows.append(
            (
                "paragraph videos",
                f"{coverage.paragraph['reference_videos']} ({missing} missing, score as empty; {unknown} unknown)",
            )
        )
    if coverage.segments:
        counts = coverage.segments
        rows.append(
            (
                "given segments",
                f"{counts['segments']} ({counts['scored_as_empty']} without prediction, scored as empty)",
            )
        )
        rows.append(
            ("unused predictions", f"{counts['unused_predictions']} have the times of no segment, or not first")
        )
    rows += [(name.replace("_", " "), f"{value:g}") for name, value in coverage.subset.items() if value is not None]
    rows += [("skipped", note) for note in coverage.skipped]
    rows.append(
        ("METEOR", f"{coverage.meteor}, " + ", ".join(f"{name} {v or '?'}" for name, v in coverage.versions.items()))
    )
    return Table(title, ("what", "value"), rows)


def percent(value: float | None) -> str:
    """A fraction x 100 with two digits; a dash where it is undefined."""
    return "-" if value is None else f"{100 * value:.2f}"


def as_markdown(table: Table) -> str:
    """A table for a README."""
    lines = [table.header, ["---", *["---:"] * (len(table.header) - 1)], *table.rows]
    body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"**{table.title}**\n\n{body}\n"


def as_latex(table: Table) -> str:
    """A table for a paper (booktabs)."""
    lines = [" & ".join(map(latex_text, line)) + r" \\" for line in (table.header, *table.rows)]
    columns = "l" + "r" * (len(table.header) - 1)
    inner = "\n".join([r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"])
    return f"% {latex_text(table.title)}\n\\begin{{tabular}}{{{columns}}}\n{inner}\n\\end{{tabular}}\n"


def latex_text(text: str) -> str:
    """Text that means itself in LaTeX."""
    return re.sub("-(?=-)", "-\0", text).translate(LATEX_SPECIAL)  # two hyphens would be a dash


def as_csv(table: Table) -> str:
    """A table for a spreadsheet."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([(table.title, *table.header[1:]), *table.rows])
    return text.getvalue()


def as_html(table: Table) -> str:
    """A table for a notebook, escaped."""
    header = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><caption>{html.escape(table.title)}</caption><tr>{header}</tr>{body}</table>"


def as_text(table: Table) -> str:
    """A table for a terminal without rich."""
    lines = [table.header, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]
    align = str.rjust if len(table.header) > 2 else str.ljust
    aligned = ("  ".join([line[0].ljust(widths[0]), *map(align, line[1:], widths[1:])]).rstrip() for line in lines)
    return "\n".join([table.title, *aligned]) + "\n"


WRITERS: dict[str, Callable[[Table], str]] = {"markdown": as_markdown, "latex": as_latex, "csv": as_csv}
FORMATS = ("table", *WRITERS)
PICTURES = ("png", "pdf", "svg")
FIGURE_TIOU = 6  # the paper's figure is at tIoU 0.8


def show(tables: Sequence[Table], form: str, *, aside: bool = False) -> None:
    """Print tables on standard output, or on standard error where that one is for pasting."""
    stream = sys.stderr if aside else sys.stdout
    if form == "table" and stream.isatty() and find_spec("rich") is not None:
        _show_rich(tables, stream)
        return
    write = WRITERS.get(form, as_text)
    print(encodable("\n".join(write(table) for table in tables), stream.encoding), file=stream)


def encodable(text: str, encoding: str | None = "utf-8") -> str:
    """The text with what cannot be written (half a surrogate pair in a name) as an escape."""
    return text.encode(encoding or "utf-8", "backslashreplace").decode(encoding or "utf-8")


def picture_kind(path: Path | str) -> str:
    """The format that the ending of the path names."""
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in PICTURES:
        raise InputError(f"{path}: a picture must end in .png, .pdf or .svg")
    return kind


def plot_proposals(path: Path | str, sides: Mapping[str, ProposalScores]) -> None:
    """Write the paper's figure: recall of proposals over their number (dashed: at tIoU 0.8), and over tIoU."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (over_number, over_tiou) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for side, scores in sides.items():
        label = f"{side} ({100 * scores.area():.2f})"
        (line,) = over_number.plot(scores.average_number_J, 100 * scores.average_recall_J, label=label)
        at_high_tiou = 100 * scores.recall_TJ[FIGURE_TIOU]
        over_number.plot(scores.average_number_J, at_high_tiou, "--", color=line.get_color(), label=f"{side}, tIoU 0.8")
        over_tiou.plot(TIOUS, 100 * scores.recall_TJ[:, -1], marker="o", label=side)
    over_number.set(xlabel="proposals per video, on average", ylabel="recall (%)", xlim=(0, None), ylim=(0, 100))
    over_tiou.set(xlabel="tIoU", ylabel="recall at 100 (%)", ylim=(0, 100))
    over_number.legend(title="mean over tIoU (area)")
    over_tiou.legend()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=picture_kind(path), dpi=150)
    pyplot.close(figure)


def _show_rich(tables: Sequence[Table], stream: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False, file=stream)
    for table in tables:
        title = Text(table.title, style="bold")
        shown = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        numbers = len(table.header) > 2
        for place, name in enumerate(table.header):
            shown.add_column(Text(name), justify="right" if place and numbers else "left", no_wrap=numbers)
        for row in table.rows:
            shown.add_row(*(Text(encodable(cell, stream.encoding)) for cell in row))
        console.print(shown)


def _table(title: str, rows: Mapping[str, Mapping[str, float | None]]) -> Table:
    header = ("", *(SHORT.get(name, name) for name in next(iter(rows.values()))))
    return Table(title, header, [(name, *map(percent, scores.values())) for name, scores in rows.items()])


def _support_table(support: Mapping[str, Any]) -> Table:
    """One row a group of sentences that are shown; brackets: 95% over videos."""
    groups = {name: row for name in ("shown", "full", "shortened", "guesses") if (row := support.get(name))}
    header = ("", "coverage", "support", "words", "at 50%", "at 90%", "at 100%", "area", "calibration error", "top 5")
    rows = []
    for name, row in groups.items():
        at, calibration = row["at_coverage"].values(), row["calibration"] or {"error": None, "interval": None}
        support_cell = _with_interval(row["support"], row["support_interval"])
        at_cells = [_with_interval(each["support"], each["interval"]) for each in at]
        error = _with_interval(calibration["error"], calibration["interval"])
        shares = [percent(row[key]) for key in ("coverage", "word_support", "area")]
        rows.append(
            (name, shares[0], support_cell, shares[1], *at_cells, shares[2], error, percent(row["frequent"]["share"]))
        )
    return Table(f"support, by {support['confidence']} (brackets: 95% over videos)", header, rows)


def _with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    bounds = f" [{', '.join(f'{100 * bound:.1f}' for bound in interval)}]" if interval else ""
    return percent(value) + bounds


def _described(file: Mapping[str, Any]) -> str:
    events = f"{file['events']} events, " if "events" in file else ""
    return f"{file['name']}, {file['videos']} videos, {events}{file['hash'][:19]}"
