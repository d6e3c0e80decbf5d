"""The paper's qualitative figures for any video, as PNG: event masks, attention of words, and its entropy.

They show events of the timeline under the names of the page, beside proposals of low score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from densevid.export.document import Figure
from densevid.export.page_parts import clock_text
from densevid.export.plots import COLOURS, GREY, PLAIN, blank_drawing, empty_drawing, finished, short

if TYPE_CHECKING:
    from densevid.inference.explain import ExplainedProposal, Explanation

LAYERS_IN_A_ROW = 2
NONE_TO_MUCH = ("#ffffff", "#bfd5f1", "#3f7fd0", "#14335f")  # of attention
EMPTY = "The timeline shows no event: these are the best proposals."


def explanation_figures(explanation: Explanation) -> tuple[Figure, ...]:
    """All that can be drawn of one explanation; nothing where there is no proposal."""
    figures = [masks_figure(explanation)] if explanation.proposals else []
    if any(proposal.words for proposal in explanation.confident):
        figures += [attention_figure(explanation), entropy_figure(explanation)]
    return tuple(figures)


def masks_figure(explanation: Explanation) -> Figure:
    """Window, differentiable mask and final mask of sure and unsure proposals, one below the other."""
    proposals = explanation.proposals
    together = all(np.array_equal(proposal.edges, proposals[0].edges) for proposal in proposals)
    height = 1.25 if together else 1.45  # each with times of its own
    drawing, axes = empty_drawing(6.6, height * len(proposals) + 0.5, rows=len(proposals), sharex=together)
    for axis, proposal in zip(axes[:, 0], proposals, strict=True):
        _draw_mask(axis, proposal)
    named = {name: line for axis in axes[:, 0] for line, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    axes[0, 0].legend(named.values(), named.keys(), loc="upper right", ncols=3, frameon=False, fontsize=8)
    axes[-1, 0].set_xlabel("seconds")
    sure = "The surest events of the timeline that differ" if explanation.of_timeline else "The best proposals"
    sure_labels, unsure_labels = _labels(explanation.confident), _labels(explanation.unconfident)
    description = f"{sure} ({sure_labels}), and unsure proposals ({unsure_labels})."
    if any(proposal.gate is not None for proposal in proposals):
        description += " The nearer the gate is to 1, the more the final mask is the window; "
        description += "the nearer to 0, the more it is the learned mask."
    description += "" if together else " Each over the stretch of the video that the model read at once to find it."
    return finished(*_titled(drawing, explanation, "masks", "Event masks."), description)


def attention_figure(explanation: Explanation) -> Figure:
    """Where each word of the sure events looked, an event below the other, the surest first."""
    shown = [proposal for proposal in explanation.confident if proposal.words]
    layers, heads = shown[0].attention_LHWT.shape[:2]
    rows, columns = -(-layers // LAYERS_IN_A_ROW), min(layers, LAYERS_IN_A_ROW)
    heights = [(0.24 * len(proposal.words) + 0.75) * rows + 0.3 for proposal in shown]
    drawing = blank_drawing(2.9 * columns + 0.8, sum(heights) + (0 if explanation.of_timeline else 0.3))
    parts = drawing.subfigures(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, proposal in zip(parts, shown, strict=True):
        title = f"{_label(proposal)}   {short(_words(proposal), 22 * columns + 20)}"
        part.suptitle(title, x=0.01, ha="left", fontsize=9, **PLAIN)
        _draw_layers(part.subplots(rows, columns, squeeze=False), proposal)
    described = "; ".join(map(_described, shown))
    description = (
        f"Cross-attention of the words of {described} over time, mean of {heads} heads in each of {layers} layers: "
        "the stronger the colour, the more. Dashed: the borders of the event."
    )
    return finished(*_titled(drawing, explanation, "words", "Where each word looked."), description)


def entropy_figure(explanation: Explanation) -> Figure:
    """Entropy of the cross-attention per layer, beside the most it could be: attention to all steps alike."""
    entropy_L = explanation.entropy_L
    most = float(np.log(len(explanation.proposals[0].edges) - 1))
    drawing, axes = empty_drawing(4.6, 2.6)
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
    count = sum(bool(proposal.words) for proposal in explanation.proposals)
    description = f"Entropy of the attention per layer: {listed} nats, the mean of {count} proposals, unsure ones of "
    description += "them included. The paper finds higher layers flatter; "
    description += f"here the highest is {flatter} than the lowest." if len(entropy_L) > 1 else "here is one layer."
    return finished(drawing, "entropy", "How spread the attention is.", description)


def _titled(drawing: Any, explanation: Explanation, name: str, title: str) -> tuple[Any, str, str]:
    """Where the timeline is empty, both the picture and its title mention it."""
    if explanation.of_timeline:
        return drawing, name, title
    drawing.suptitle(EMPTY, fontsize=9, color=GREY)
    return drawing, name, f"{title} {EMPTY}"


def _label(proposal: ExplainedProposal) -> str:
    """The number that the page has, as the page writes it, and the score by which the proposal was chosen."""
    sure = [] if proposal.confidence is None else [f"{100 * min(1.0, max(0.0, proposal.confidence)):.0f}% sure"]
    score = [] if proposal.score is None else [f"score {_two_digits(proposal.score)}"]
    return ", ".join(sure + score) or "given span"


def _two_digits(score: float) -> str:
    """0.78, and 0.0031 where two places behind the point would be nothing."""
    return f"{score:.2f}" if score >= 0.1 or score == 0 else f"{score:.2g}"


def _labels(proposals: Sequence[ExplainedProposal]) -> str:
    return "; ".join(map(_label, proposals)) or "none"


def _described(proposal: ExplainedProposal) -> str:
    start, end = clock_text(proposal.event.start, 1), clock_text(proposal.event.end, 1)
    return f"“{_words(proposal)}” ({start}–{end}, {_label(proposal)})"


def _words(proposal: ExplainedProposal) -> str:
    """All words of the model, be they shown on the timeline or not: the figures are about what it thinks."""
    return proposal.event.full_sentence or proposal.event.sentence


def _draw_mask(axis: Any, proposal: ExplainedProposal) -> None:
    edges = proposal.edges
    axis.stairs(proposal.window_T, edges, fill=True, color=COLOURS[0], alpha=0.16, label="window of the proposal")
    if proposal.learned_T is not None:
        axis.stairs(proposal.learned_T, edges, color=COLOURS[2], linewidth=1.1, label="learned mask")
    axis.stairs(proposal.mask_T, edges, color=COLOURS[0], linewidth=1.6, label="final mask")
    axis.set(ylim=(min(-0.03, float(proposal.mask_T.min())), max(1.35, float(proposal.mask_T.max()))), yticks=[0, 1])
    axis.set_xlim(edges[0], edges[-1])
    axis.set_title(f"{_label(proposal)}   {short(_words(proposal))}", loc="left", fontsize=9, **PLAIN)
    if proposal.gate is not None:
        place = {"xycoords": "axes fraction", "va": "top", "fontsize": 8, "color": GREY}
        axis.annotate(f"gate {proposal.gate:.2f}", (0.012, 0.93), **place)


def _draw_layers(axes: Any, proposal: ExplainedProposal) -> None:
    """A picture per layer, averaged over heads; the words stand at the left of each row."""
    layers, columns = len(proposal.attention_LHWT), axes.shape[1]
    for layer, axis in enumerate(axes.flat[:layers]):
        _draw_attention(axis, proposal, layer)
        words = proposal.words if layer % columns == 0 else []
        axis.set_yticks(np.arange(len(proposal.words)) + 0.5, words, fontsize=9, **PLAIN)
    for axis in axes.flat[layers:]:
        axis.set_visible(False)


def _draw_attention(axis: Any, proposal: ExplainedProposal, layer: int) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    mean_WT = proposal.attention_LHWT[layer].mean(axis=0)
    colours = LinearSegmentedColormap.from_list("attention", NONE_TO_MUCH)
    axis.pcolormesh(proposal.edges, np.arange(len(mean_WT) + 1), mean_WT, cmap=colours, vmin=0, rasterized=True)
    axis.invert_yaxis()
    for border in (proposal.event.start, proposal.event.end):
        axis.axvline(border, color=COLOURS[2], linestyle="--", linewidth=1.1)
    axis.set_title(f"layer {layer + 1}, entropy {proposal.entropy_L[layer]:.2f} nats", fontsize=9)
    axis.set_xlim(proposal.edges[0], proposal.edges[-1])  # a given span may reach beyond
    axis.set_xlabel("seconds", fontsize=9)
    axis.tick_params(axis="x", labelsize=8)
