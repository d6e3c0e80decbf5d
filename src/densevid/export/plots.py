"""The paper's figures for any video, as PNG: masks, attention of words, its entropy, recall, events beside references.

Each function gives a `Figure` that a timeline page can carry; `write_figures` puts them beside it as files.
Needs matplotlib, the extra `plot`.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from densevid.artifacts import atomic_path
from densevid.events import Event
from densevid.export.document import PIXELS_OF_A_FIGURE, Figure, ShownEvent, TimelineDocument
from densevid.export.layout import NO_HUE, lay_out, temporal_iou
from densevid.export.markup import clock_text

if TYPE_CHECKING:
    from densevid.inference.explain import ExplainedProposal, Explanation

COLOURS = ("#3f7fd0", "#2a9d6c", "#d07a2d", "#b565b8", "#1e94b0", "#8f8a1c", "#cf5a55", "#7d6fd6")  # as on the page
GREY = "#8a8d94"
TIOUS = (0.3, 0.5, 0.7, 0.9)
DOTS_PER_INCH = 96 * PIXELS_OF_A_FIGURE  # a page has 96 pixels an inch
LAYERS_IN_A_ROW = 2
NONE_TO_MUCH = ("#ffffff", "#bfd5f1", "#3f7fd0", "#14335f")  # of attention
LONGEST_LABEL = 70
PLAIN: dict[str, Any] = {"parse_math": False}  # a sentence with dollars is no formula


def explanation_figures(explanation: Explanation) -> tuple[Figure, ...]:
    """All that can be drawn of one explanation; nothing where there is no proposal."""
    told = [proposal for proposal in explanation.confident if proposal.words]
    figures = [masks_figure(explanation)] if explanation.proposals else []
    figures += [attention_figure(told[0]), entropy_figure(explanation)] if told else []
    return tuple(figures)


def masks_figure(explanation: Explanation) -> Figure:
    """Window, differentiable mask and final mask of sure and unsure proposals, one below the other."""
    proposals = explanation.proposals
    together = all(np.array_equal(proposal.edges, proposals[0].edges) for proposal in proposals)
    height = 1.25 if together else 1.45  # each with times of its own
    drawing, axes = _drawing(6.6, height * len(proposals) + 0.5, rows=len(proposals), sharex=together)
    for axis, proposal in zip(axes[:, 0], proposals, strict=True):
        _draw_mask(axis, proposal)
    axes[0, 0].legend(loc="upper right", ncols=3, frameon=False, fontsize=8)
    axes[-1, 0].set_xlabel("seconds")
    surest, least = proposals[0].event.score, proposals[-1].event.score
    description = (
        f"Event masks of {len(explanation.confident)} sure and {len(explanation.unconfident)} unsure proposals "
        f"(scores {surest:.2f} to {least:.2f}): the surer the proposal, the more the final mask is its window; "
        "the less sure, the more it is the learned mask."
    )
    description += "" if together else " Each over the stretch of the video that the model read at once to find it."
    return _finished(drawing, "masks", "Event masks.", description)


def attention_figure(proposal: ExplainedProposal) -> Figure:
    """Where each word looked, a picture per layer, averaged over heads; dashed: the borders of the event."""
    layers = len(proposal.attention_LHWT)
    rows, columns = -(-layers // LAYERS_IN_A_ROW), min(layers, LAYERS_IN_A_ROW)
    height = 0.24 * len(proposal.words) + 0.75
    drawing, axes = _drawing(2.9 * columns + 0.8, height * rows, rows=rows, columns=columns)
    for layer, axis in enumerate(axes.flat[:layers]):
        _draw_attention(axis, proposal, layer)
        axis.set_yticks(
            np.arange(len(proposal.words)) + 0.5, proposal.words if layer % columns == 0 else [], fontsize=9, **PLAIN
        )
    for axis in axes.flat[layers:]:
        axis.set_visible(False)
    start, end = clock_text(proposal.event.start, 1), clock_text(proposal.event.end, 1)
    description = (
        f"Cross-attention of the words of “{proposal.event.sentence}” ({start}–{end}) over time, mean of "
        f"{proposal.attention_LHWT.shape[1]} heads in each of {layers} layers: the stronger the colour, the more."
    )
    return _finished(drawing, "words", "Where each word looked.", description)


def entropy_figure(explanation: Explanation) -> Figure:
    """Entropy of the cross-attention per layer, beside the most it could be: attention to all steps alike."""
    entropy_L = explanation.entropy_L
    most = float(np.log(len(explanation.proposals[0].edges) - 1))
    drawing, axes = _drawing(4.6, 2.6)
    axis = axes[0, 0]
    layers = np.arange(1, len(entropy_L) + 1)
    axis.bar(layers, entropy_L, width=0.55, color=COLOURS[0])
    axis.axhline(most, color=GREY, linestyle="--", linewidth=1, label=f"all steps alike ({most:.2f})")
    for layer, value in zip(layers, entropy_L, strict=True):
        axis.annotate(
            f"{value:.2f}", (layer, value), (0, -4), textcoords="offset points", ha="center", va="top", color="white"
        )
    axis.set(xlabel="layer", ylabel="entropy (nats)", xticks=layers, ylim=(0, 1.18 * most))
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    flatter = "flatter" if entropy_L[-1] > entropy_L[0] else "not flatter"
    listed = ", ".join(f"{value:.2f}" for value in entropy_L)
    description = f"Entropy of the attention per layer: {listed} nats. The paper finds higher layers flatter; "
    description += f"here the highest is {flatter} than the lowest." if len(entropy_L) > 1 else "here is one layer."
    return _finished(drawing, "entropy", "How spread the attention is.", description)


def recall_figure(predictions: Sequence[Event], references: Sequence[Event]) -> Figure:
    """Share of the references that are found as more predictions are allowed, the best first."""
    recall_TP = recall_curves(predictions, references, TIOUS)
    drawing, axes = _drawing(4.6, 2.6)
    axis = axes[0, 0]
    for colour, tiou, recall_P in zip(COLOURS, TIOUS, recall_TP, strict=False):
        width = 1 + 4 * (1 - tiou)  # curves that coincide are seen through one another
        counts = np.arange(len(recall_P))
        axis.step(counts, 100 * recall_P, where="post", color=colour, linewidth=width, label=f"tIoU {tiou:g}")
    axis.set(xlabel="events allowed, the surest first", ylabel="references found (%)", ylim=(-2, 103), xlim=(0, None))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(frameon=False, fontsize=8)
    found = ", ".join(f"{100 * row[-1]:.0f}% at tIoU {tiou:g}" for tiou, row in zip(TIOUS, recall_TP, strict=True))
    return _finished(
        drawing, "recall", "Recall.", f"Of {len(references)} references, {len(predictions)} events find {found}."
    )


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
    """The lanes of the page as a picture: references above what the model says, in the colours of the page."""
    layout = lay_out(document.events)
    heights = [1 + max(_of_group(layout.lane, layout.group, group)) for group in range(len(layout.groups))]
    drawing, axes = _drawing(8.0, 0.34 * sum(heights) + 0.45 * len(heights) + 0.8)
    axis = axes[0, 0]
    top = np.concatenate(([0.0], np.cumsum(np.asarray(heights) + 0.9)))
    for shown, group, lane, hue in zip(document.events, layout.group, layout.lane, layout.hue, strict=True):
        _draw_bar(axis, shown, float(top[group]) + lane, GREY if hue == NO_HUE else COLOURS[hue], document.seconds)
    for name, height in zip(layout.groups, top, strict=False):
        axis.text(0, height - 0.18, name, fontsize=8, color=GREY, weight="bold", **PLAIN)
    axis.set(xlim=(0, document.seconds), ylim=(float(top[-1]) - 0.6, -0.75), yticks=[], xlabel="seconds")
    axis.spines[["left", "top", "right"]].set_visible(False)
    return _finished(drawing, "timeline", "Timeline.", "; ".join(map(_spoken, document.events)) or "No event.")


def write_figures(figures: Iterable[tuple[str, Figure]], folder: Path | str) -> list[Path]:
    """Write figures as NAME.png into a folder."""
    written = []
    for name, figure in figures:
        written.append(Path(folder) / f"{name}.png")
        with atomic_path(written[-1]) as temporary:
            temporary.write_bytes(figure.png)
    return written


def _draw_mask(axis: Any, proposal: ExplainedProposal) -> None:
    edges = proposal.edges
    axis.stairs(proposal.window_T, edges, fill=True, color=COLOURS[0], alpha=0.16, label="window of the proposal")
    if proposal.learned_T is not None:
        axis.stairs(proposal.learned_T, edges, color=COLOURS[2], linewidth=1.1, label="learned mask")
    axis.stairs(proposal.mask_T, edges, color=COLOURS[0], linewidth=1.6, label="final mask")
    axis.set(ylim=(min(-0.03, float(proposal.mask_T.min())), max(1.35, float(proposal.mask_T.max()))), yticks=[0, 1])
    axis.set_xlim(edges[0], edges[-1])
    axis.set_title(
        f"score {proposal.event.score:.2f}   {_short(proposal.event.sentence)}", loc="left", fontsize=9, **PLAIN
    )


def _draw_attention(axis: Any, proposal: ExplainedProposal, layer: int) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    mean_WT = proposal.attention_LHWT[layer].mean(axis=0)
    colours = LinearSegmentedColormap.from_list("attention", NONE_TO_MUCH)
    axis.pcolormesh(proposal.edges, np.arange(len(mean_WT) + 1), mean_WT, cmap=colours, vmin=0, rasterized=True)
    axis.invert_yaxis()
    for border in (proposal.event.start, proposal.event.end):
        axis.axvline(border, color=COLOURS[2], linestyle="--", linewidth=1.1)
    axis.set_title(f"layer {layer + 1}, entropy {proposal.entropy_L[layer]:.2f} nats", fontsize=9)
    axis.set_xlabel("seconds", fontsize=9)
    axis.tick_params(axis="x", labelsize=8)


def _draw_bar(axis: Any, shown: ShownEvent, y: float, colour: str, seconds: float) -> None:
    event = shown.event
    axis.barh(y + 0.4, event.seconds, left=event.start, height=0.78, color=colour, alpha=0.28, edgecolor="none")
    axis.barh(y + 0.4, seconds / 400, left=event.start, height=0.78, color=colour)
    room = int(120 * event.seconds / seconds)  # letters that fit into the bar
    axis.text(event.start + seconds / 160, y + 0.42, _short(event.sentence, room), fontsize=7.5, va="center", **PLAIN)


def _of_group(values: Sequence[int], groups: Sequence[int], wanted: int) -> list[int]:
    return [value for value, group in zip(values, groups, strict=True) if group == wanted]


def _spoken(shown: ShownEvent) -> str:
    return f"{shown.heading}, {clock_text(shown.event.start)} to {clock_text(shown.event.end)}: {shown.event.sentence}"


def _short(text: str, most: int = LONGEST_LABEL) -> str:
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…" if most > 3 else ""


def _drawing(width: float, height: float, *, rows: int = 1, columns: int = 1, sharex: bool = False) -> tuple[Any, Any]:
    """An empty drawing with its axes, rows x columns; no global state, so that a server may draw in threads."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing, drawing.subplots(rows, columns, squeeze=False, sharex=sharex)


def _finished(drawing: Any, name: str, title: str, description: str) -> Figure:
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a letter that the font lacks becomes a box
        drawing.savefig(content, format="png", dpi=DOTS_PER_INCH)
    return Figure(title, description, content.getvalue(), name)
