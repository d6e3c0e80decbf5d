"""Figures of a video as PNG: events beside references, and recall; `explanation_plots.py` has masks and attention.

Each function returns a `Figure`, which a timeline page can hold. They need matplotlib, the extra `plot`.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.events import Event
from densevid.export.document import PIXELS_OF_A_FIGURE, Figure, ShownEvent, TimelineDocument
from densevid.export.page_entries import NO_HUE, lay_out, temporal_iou
from densevid.export.page_parts import clock_text, count_text
from densevid.io import atomic_path

COLOURS = ("#3f7fd0", "#2a9d6c", "#d07a2d", "#b565b8", "#1e94b0", "#8f8a1c", "#cf5a55", "#7d6fd6")  # as on the page
GREY = "#8a8d94"
TIOUS = (0.3, 0.5, 0.7, 0.9)
DOTS_PER_INCH = 96 * PIXELS_OF_A_FIGURE  # a page has 96 pixels an inch
LONGEST_LABEL = 70
PLAIN: dict[str, Any] = {"parse_math": False}  # a sentence with dollars is no formula


def recall_figure(predictions: Sequence[Event], references: Sequence[Event]) -> Figure:
    """Share of the references that are found as more predictions are allowed, the best first."""
    recall_TP = recall_curves(predictions, references, TIOUS)
    drawing, axes = empty_drawing(4.6, 2.6)
    axis = axes[0, 0]
    for colour, tiou, recall_P in zip(COLOURS, TIOUS, recall_TP, strict=False):
        width = 1 + 4 * (1 - tiou)  # curves that coincide are seen through one another
        counts = np.arange(len(recall_P))
        axis.step(counts, 100 * recall_P, where="post", color=colour, linewidth=width, label=f"tIoU {tiou:g}")
    axis.set(xlabel="proposals allowed, the surest first", ylabel="references found (%)")
    axis.set(ylim=(-2, 103), xlim=(0, None))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(frameon=False, fontsize=8)
    found = ", ".join(f"{100 * row[-1]:.0f}% at tIoU {tiou:g}" for tiou, row in zip(TIOUS, recall_TP, strict=True))
    of, by = count_text(len(references), "reference"), count_text(len(predictions), "proposal")
    return finished(drawing, "recall", "Recall.", f"Of {of}, found with {by}: {found}.")


def recall_curves(
    predictions: Sequence[Event], references: Sequence[Event], tious: Sequence[float]
) -> npt.NDArray[np.float64]:
    """Recall per tIoU with the 0, 1, 2, ... best predictions, tIoUs x (P + 1)."""
    ranked = sorted(predictions, key=lambda event: -event.score)
    if not ranked or not references:
        return np.zeros((len(tious), len(ranked) + 1))
    spans = [np.array([(event.start, event.end) for event in events]) for events in (ranked, references)]
    best_PG = np.maximum.accumulate(temporal_iou(*spans), axis=0)
    recall_TP = (best_PG >= np.asarray(tious)[:, None, None]).mean(axis=2)
    return np.pad(recall_TP, ((0, 0), (1, 0)))


def timeline_figure(document: TimelineDocument) -> Figure:
    """The lanes of the page as a picture: references above predicted events, in the colours of the page."""
    layout = lay_out(document.events)
    heights = [1 + max(_of_group(layout.lane, layout.group, group)) for group in range(len(layout.groups))]
    drawing, axes = empty_drawing(8.0, 0.34 * sum(heights) + 0.45 * len(heights) + 0.8)
    axis = axes[0, 0]
    top = np.concatenate(([0.0], np.cumsum(np.asarray(heights) + 0.9)))
    rows = zip(document.events, document.sentences, layout.group, layout.lane, layout.hue, strict=True)
    for shown, sentence, group, lane, hue in rows:
        colour = GREY if hue == NO_HUE else COLOURS[hue]
        _draw_bar(axis, shown.event, sentence, (float(top[group]) + lane, document.seconds), colour)
    for name, height in zip(layout.groups, top, strict=False):
        axis.text(0, height - 0.18, name, fontsize=8, color=GREY, weight="bold", **PLAIN)
    axis.set(xlim=(0, document.seconds), ylim=(float(top[-1]) - 0.6, -0.75), yticks=[], xlabel="seconds")
    axis.spines[["left", "top", "right"]].set_visible(False)
    return finished(
        drawing, "timeline", "Timeline.", "; ".join(map(_spoken, document.events, document.sentences)) or "No event."
    )


def write_figures(figures: Iterable[tuple[str, Figure]], folder: Path | str) -> list[Path]:
    """Write figures as NAME.png into a folder."""
    written = []
    for name, figure in figures:
        written.append(Path(folder) / f"{name}.png")
        with atomic_path(written[-1]) as temporary:
            temporary.write_bytes(figure.png)
    return written


def _draw_bar(axis: Any, event: Event, sentence: str, place: tuple[float, float], colour: str) -> None:
    """A bar at a height, on a timeline of so many seconds."""
    y, seconds = place
    axis.barh(y + 0.4, event.seconds, left=event.start, height=0.78, color=colour, alpha=0.28, edgecolor="none")
    axis.barh(y + 0.4, seconds / 400, left=event.start, height=0.78, color=colour)
    letters = int(120 * event.seconds / seconds)  # letters that fit into the bar
    axis.text(event.start + seconds / 160, y + 0.42, short(sentence, letters), fontsize=7.5, va="center", **PLAIN)


def _of_group(values: Sequence[int], groups: Sequence[int], wanted: int) -> list[int]:
    return [value for value, group in zip(values, groups, strict=True) if group == wanted]


def _spoken(shown: ShownEvent, sentence: str) -> str:
    return f"{shown.heading}, {clock_text(shown.event.start)} to {clock_text(shown.event.end)}: {sentence}"


def short(text: str, most: int = LONGEST_LABEL) -> str:
    """A text cut to a number of letters."""
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…" if most > 3 else ""


def empty_drawing(
    width: float, height: float, *, rows: int = 1, columns: int = 1, sharex: bool = False
) -> tuple[Any, Any]:
    """A drawing with its axes, rows x columns."""
    drawing = blank_drawing(width, height)
    return drawing, drawing.subplots(rows, columns, squeeze=False, sharex=sharex)


def blank_drawing(width: float, height: float) -> Any:
    """A drawing without axes; no global state, so that a server may draw in threads."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing


def finished(drawing: Any, name: str, title: str, description: str) -> Figure:
    """The drawing as a picture."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a letter that the font lacks becomes a box
        drawing.savefig(content, format="png", dpi=DOTS_PER_INCH)
    return Figure(title, description, content.getvalue(), name)
