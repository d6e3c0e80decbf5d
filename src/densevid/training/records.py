"""What a run records while it goes: metrics.csv and curves always, TensorBoard scalars where it is installed."""

from __future__ import annotations

import time
from typing import Any

from densevid.training.curves import draw_curves
from densevid.training.metrics import MetricsFile, Row
from densevid.training.run_folder import RunFolder

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
