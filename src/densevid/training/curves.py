"""Loss curves of a run, drawn from its metrics: a PNG where matplotlib is installed, a plain SVG elsewhere."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from densevid.artifacts import atomic_path, write_text
from densevid.training.learner import PARTS
from densevid.training.metrics import SCORES, read_metrics

Line = list[tuple[float, float]]
SHOWN = (*PARTS, "learning_rate", *SCORES)
COLOURS = {"training": "#4878a8", "validation": "#c8553d"}
PANEL = (300, 190)
COLUMNS = 3


def draw_curves(metrics: Path, folder: Path) -> Path:
    """Draw every column that has numbers; gives the file that was written."""
    panels = _panels(metrics)
    try:
        return _draw_png(panels, folder / "curves.png")
    except ImportError:
        write_text(folder / "curves.svg", _svg(panels))
        return folder / "curves.svg"


def _panels(metrics: Path) -> dict[str, dict[str, Line]]:
    """The lines of each panel: column -> split -> (step, value)."""
    panels: dict[str, dict[str, Line]] = {}
    for row in read_metrics(metrics):
        for column in SHOWN:
            if row[column]:
                line = panels.setdefault(column, {}).setdefault(row["split"], [])
                line.append((float(row["step"]), float(row[column])))
    return {column: panels[column] for column in SHOWN if column in panels}


def _draw_png(panels: dict[str, dict[str, Line]], path: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = max(1, -(-len(panels) // COLUMNS))
    figure = Figure(figsize=(4 * COLUMNS, 2.6 * rows))
    FigureCanvasAgg(figure)
    figure.subplots_adjust(left=0.05, right=0.99, bottom=0.3 / (2.6 * rows), top=1 - 0.3 / (2.6 * rows), hspace=0.3)
    for number, (column, lines) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(rows, COLUMNS, number)
        for split, line in lines.items():
            axes.plot(*zip(*line, strict=True), label=split, color=COLOURS[split], linewidth=1.2)
        axes.set_title(column.replace("_", " "), fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25)
        axes.legend(fontsize=7, frameon=False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
    return path


def _svg(panels: dict[str, dict[str, Line]]) -> str:
    width, height = PANEL
    rows = max(1, -(-len(panels) // COLUMNS))
    parts = []
    for number, (column, lines) in enumerate(panels.items()):
        place = f"translate({number % COLUMNS * width},{number // COLUMNS * height})"
        parts.append(f'<g transform="{place}">{_svg_panel(column, lines)}</g>')
    size = f'width="{COLUMNS * width}" height="{rows * height}"'
    style = 'font-family="sans-serif" font-size="10" fill="#333"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(parts) + "\n</svg>\n"


def _svg_panel(column: str, lines: dict[str, Line]) -> str:
    """A frame, the range of both axes in numbers, and one polyline per split."""
    steps = [step for line in lines.values() for step, _ in line]
    values = [value for line in lines.values() for _, value in line]
    left, right, low, high = min(steps), max(steps), min(values), max(values)
    x0, x1, y0, y1 = 46, PANEL[0] - 10, PANEL[1] - 24, 24

    def place(step: float, value: float) -> str:
        x = x0 + (x1 - x0) * (step - left) / ((right - left) or 1)
        y = y0 - (y0 - y1) * (value - low) / ((high - low) or 1)
        return f"{x:.1f},{y:.1f}"

    drawn = [f'<rect x="{x0}" y="{y1}" width="{x1 - x0}" height="{y0 - y1}" fill="none" stroke="#ccc"/>']
    drawn += [
        f'<polyline points="{" ".join(place(*point) for point in line)}" fill="none" stroke="{COLOURS[split]}"/>'
        for split, line in lines.items()
    ]
    labels = [(x0, 16, "start", column.replace("_", " ")), (x0 - 4, y1 + 8, "end", f"{high:.3g}")]
    labels += [(x0 - 4, y0, "end", f"{low:.3g}"), (x1, y0 + 14, "end", f"step {right:.0f}")]
    drawn += [f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>' for x, y, anchor, text in labels]
    return "".join(drawn)
