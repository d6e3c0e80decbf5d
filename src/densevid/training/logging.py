"""metrics.csv: one line per logged step and per validation, appended whole, and cut back when a run resumes earlier.

Loss curves of a run, drawn from its metrics: a PNG where matplotlib is installed, a plain SVG elsewhere.

What a run records while it goes: metrics.csv and curves always, TensorBoard scalars where it is installed.

What a person sees of a run: a live bar where rich is installed and a terminal shows it, plain lines elsewhere.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from densevid.io import atomic_path, write_text
from densevid.progress import duration, open_bar
from densevid.training.loss_monitor import PARTS
from densevid.training.run_folder import RunFolder

SCORES = ("cider", "meteor", "dense_meteor", "average_recall")
COLUMNS = ("step", "epoch", "split", *PARTS, "learning_rate", "samples_per_second", "seconds", *SCORES)
Row = Mapping[str, float | int | str]


class MetricsFile:
    """A table that survives a kill at any moment: a line that was cut short is dropped when it is opened again."""

    def __init__(self, path: Path, *, up_to_step: int = 0) -> None:
        self.path = path
        kept = [row for row in read_metrics(path) if int(row["step"]) <= up_to_step] if path.exists() else []
        write_text(path, _line(dict(zip(COLUMNS, COLUMNS, strict=True))) + "".join(map(_line, kept)))

    def add(self, row: Row) -> None:
        """Append one line."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(_line(row))


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The whole lines of the table, by column."""
    with path.open(encoding="utf-8", newline="") as file:
        whole = [line for line in file if line.endswith("\n")]
    return [row for row in csv.DictReader(whole) if None not in row.values()]


def _line(row: Row) -> str:
    text = io.StringIO()
    values = (row.get(column, "") for column in COLUMNS)
    cells = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


Line = list[tuple[float, float]]
SHOWN = (*PARTS, "learning_rate", *SCORES)
COLOURS = {"training": "#4878a8", "validation": "#c8553d"}
PANEL = (300, 190)
PANELS_A_ROW = 3


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

    rows = max(1, -(-len(panels) // PANELS_A_ROW))
    figure = Figure(figsize=(4 * PANELS_A_ROW, 2.6 * rows))
    FigureCanvasAgg(figure)
    figure.subplots_adjust(left=0.05, right=0.99, bottom=0.3 / (2.6 * rows), top=1 - 0.3 / (2.6 * rows), hspace=0.3)
    for number, (column, lines) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(rows, PANELS_A_ROW, number)
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
    rows = max(1, -(-len(panels) // PANELS_A_ROW))
    parts = []
    for number, (column, lines) in enumerate(panels.items()):
        place = f"translate({number % PANELS_A_ROW * width},{number // PANELS_A_ROW * height})"
        parts.append(f'<g transform="{place}">{_svg_panel(column, lines)}</g>')
    size = f'width="{PANELS_A_ROW * width}" height="{rows * height}"'
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


CURVES_SECONDS = 30.0


class Records:
    """The written records of one run, from a step on: what was written of later steps is forgotten."""

    def __init__(self, folder: RunFolder, step: int) -> None:
        self.folder, self._drawn = folder, time.perf_counter()
        self._metrics = MetricsFile(folder.metrics, up_to_step=step)
        self._board = _tensorboard(folder, step)

    def add(self, row: Row) -> None:
        """One line, and one scalar per number in it."""
        self._metrics.add(row)
        for name, value in row.items():
            if self._board is not None and isinstance(value, float):
                self._board.add_scalar(f"{row['split']}/{name}", value, int(row["step"]))

    def draw(self, *, now: bool = False) -> None:
        """Draw the curves again, unless that was just done."""
        if now or time.perf_counter() - self._drawn > CURVES_SECONDS:
            draw_curves(self.folder.metrics, self.folder.path)
            self._drawn = time.perf_counter()

    def close(self) -> None:
        """Write what is left."""
        if self._board is not None:
            self._board.close()


def _tensorboard(folder: RunFolder, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder.path / "tensorboard"), purge_step=step + 1)


PLAIN_SECONDS = 10.0


@dataclass
class Progress:
    """Plain lines, one every few seconds; `say` prints lines that stay."""

    total_steps: int
    say: Callable[[str], None]
    first_step: int = 0
    _begun: float = field(default_factory=time.perf_counter)
    _shown: float = 0.0

    def update(self, step: int, values: dict[str, float], *, now: bool = False) -> None:
        """The run is at `step`, and these are its latest values, to be shown soon or `now`."""
        clock = time.perf_counter()
        if now or clock - self._shown >= PLAIN_SECONDS or step == self.total_steps:
            self._shown = clock
            self.say(f"step {step:,}/{self.total_steps:,}  {described(values)}  {self.left(step)}")

    def left(self, step: int) -> str:
        """How long the rest will take at the pace so far."""
        done = step - self.first_step
        seconds = (time.perf_counter() - self._begun) / max(1, done) * (self.total_steps - step)
        return f"{duration(seconds)} left"

    def line(self, text: str) -> None:
        """A line that stays."""
        self.say(text)

    def close(self) -> None:
        """The run is over."""


class RichProgress(Progress):
    """A bar of rich's."""

    def __init__(self, total_steps: int, say: Callable[[str], None], first_step: int, rich_progress: Any) -> None:
        super().__init__(total_steps, say, first_step)
        self._bar = rich_progress
        self._task = self._bar.add_task("", total=total_steps, completed=first_step)
        self._bar.start()

    def update(self, step: int, values: dict[str, float], *, now: bool = False) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=step, description=f"{described(values)}  {self.left(step)}")

    def line(self, text: str) -> None:
        """A line above the bar."""
        self._bar.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Take the bar away."""
        self._bar.stop()


def open_progress(total_steps: int, say: Callable[[str], None], first_step: int = 0) -> Progress:
    """The best that is possible here."""
    bar = open_bar("{task.completed:,.0f}/{task.total:,.0f}", "{task.description}")
    if bar is None:
        return Progress(total_steps, say, first_step)
    return RichProgress(total_steps, say, first_step, bar)


def described(values: dict[str, float]) -> str:
    """Values as people read them."""
    short = {"learning_rate": "rate", "samples_per_second": "samples/s"}
    return "  ".join(f"{short.get(name, name)} {value:.4g}" for name, value in values.items())
