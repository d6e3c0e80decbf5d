"""What a run writes while it goes: metrics.csv, loss curves, TensorBoard scalars where installed, and progress."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from densevid.io import atomic_path, write_text
from densevid.progress import Progress
from densevid.training.loss_monitor import PARTS
from densevid.training.run_folder import RunFolder

SCORES = ("cider", "meteor", "dense_meteor", "average_recall")
COLUMNS = ("step", "epoch", "split", *PARTS, "learning_rate", "samples_per_second", "seconds", *SCORES)
Row = Mapping[str, float | int | str]
Line = list[tuple[float, float]]
SHOWN = (*PARTS, "learning_rate", *SCORES)
COLOURS = {"training": "#4878a8", "validation": "#c8553d"}
PANEL = (300, 190)
PANELS_A_ROW = 3
CURVES_SECONDS = 30.0  # between two drawings


class MetricsFile:
    """metrics.csv: a row for each logged step and each validation, appended whole.

    A row that was cut short by a kill is dropped when the file is opened again, as are rows of later steps.

    Args:
        path: The file; it is made if it is not there.
        up_to_step: Rows after this step are dropped.
    """

    def __init__(self, path: Path, *, up_to_step: int = 0) -> None:
        self.path = path
        kept = [row for row in read_metrics(path) if int(row["step"]) <= up_to_step] if path.exists() else []
        write_text(path, _line(dict(zip(COLUMNS, COLUMNS, strict=True))) + "".join(map(_line, kept)))

    def add(self, row: Row) -> None:
        """Append a row."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(_line(row))


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv, by column; one that was cut short is left out."""
    with path.open(encoding="utf-8", newline="") as file:
        whole = [line for line in file if line.endswith("\n")]
    return [row for row in csv.DictReader(whole) if None not in row.values()]


def _line(row: Row) -> str:
    text = io.StringIO()
    values = (row.get(column, "") for column in COLUMNS)
    cells = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def draw_curves(metrics: Path, folder: Path) -> Path:
    """Draw every column that has numbers.

    Args:
        metrics: The file metrics.csv.
        folder: Where curves.png is written, or curves.svg where matplotlib is not installed.

    Returns:
        The file that was written.
    """
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


class RunLog:
    """Logs one run: rows of metrics.csv and TensorBoard, curves, and a bar or lines of progress.

    Args:
        folder: The run folder; without one (training in memory, or a rank that does not lead) nothing is written.
        total_steps: Steps of the whole run.
        report: Prints a line.
    """

    def __init__(
        self, folder: RunFolder | None = None, total_steps: int = 0, report: Callable[[str], None] = lambda line: None
    ) -> None:
        self.folder, self.total_steps, self.report = folder, total_steps, report
        self.begun = self._drawn = self._since = time.perf_counter()
        self._samples = 0
        self._metrics: MetricsFile | None = None
        self._tensorboard: Any = None
        self._progress: Progress | None = None
        self._shown = False

    @contextmanager
    def opened(self, step: int, pending: int = 0) -> Iterator[None]:
        """Log from a step on; rows of later steps, as of a run that was killed, are dropped.

        Args:
            step: The steps done so far.
            pending: Steps since the last row, which will be in the next one.
        """
        if self.folder is None:
            yield
            return
        self._metrics = MetricsFile(self.folder.metrics, up_to_step=step - pending)
        self._tensorboard = _tensorboard(self.folder, step - pending)
        try:
            with Progress(self.total_steps, done=step, report=self.report) as self._progress:
                yield
        finally:
            self._progress = None
            if self._tensorboard is not None:
                self._tensorboard.close()

    def count_samples(self, samples: int) -> None:
        """Count the samples of a step, for the pace."""
        self._samples += samples

    def restart_clock(self) -> None:
        """Leave the time since the last row, and its samples, out of the pace."""
        self._samples, self._since = 0, time.perf_counter()

    def add_training_row(self, step: int, epoch: int, values: dict[str, float], *, now: bool = False) -> None:
        """A row of mean training losses, with the pace; progress shows it at the next occasion, or `now`."""
        values["samples_per_second"] = self._samples / (time.perf_counter() - self._since)
        self.add_row("training", step, epoch, values)
        if self._progress is not None:
            now = now or not self._shown or step == self.total_steps
            self._progress.update(step, f"step {step:,}/{self.total_steps:,}  {loss_text(values)}", now=now)
            self._shown = True
        self.restart_clock()

    def add_row(self, split: str, step: int, epoch: int, values: Mapping[str, float]) -> None:
        """A row of metrics.csv, and a scalar for each number in it."""
        if self._metrics is None:
            return
        seconds = time.perf_counter() - self.begun
        row: Row = {"step": step, "epoch": epoch + 1, "split": split, **values, "seconds": seconds}
        self._metrics.add(row)
        for name, value in row.items():
            if self._tensorboard is not None and isinstance(value, float):
                self._tensorboard.add_scalar(f"{split}/{name}", value, step)

    def line(self, text: str) -> None:
        """A line that stays, above the bar where there is one."""
        if self._progress is None:
            self.report(text)
        else:
            self._progress.line(text)

    def draw_curves(self, *, now: bool = False) -> None:
        """Draw the curves again, unless that was just done."""
        if self.folder is not None and (now or time.perf_counter() - self._drawn > CURVES_SECONDS):
            draw_curves(self.folder.metrics, self.folder.path)
            self._drawn = time.perf_counter()


def loss_text(values: Mapping[str, float]) -> str:
    """Values as people read them: `total 2.14  score 0.31  rate 0.1`."""
    short = {"learning_rate": "rate", "samples_per_second": "samples/s"}
    return "  ".join(f"{short.get(name, name)} {value:.4g}" for name, value in values.items())


def _tensorboard(folder: RunFolder, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder.path / "tensorboard"), purge_step=step + 1)
