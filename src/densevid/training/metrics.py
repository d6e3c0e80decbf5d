"""metrics.csv: one line per logged step and per validation, appended whole, and cut back when a run resumes earlier."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from densevid.artifacts import write_text
from densevid.training.learner import PARTS

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
