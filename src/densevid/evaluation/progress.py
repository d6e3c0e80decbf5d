"""A bar for anything that takes more than two seconds: rich on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from threading import Lock, Timer
from typing import Any

from densevid.progress import open_bar

PATIENCE_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0


class Progress:
    """Counts what is done of what was asked so far; silent for its first two seconds. Threads may advance it.

    Parts ask one after the other, so the total grows on the way; a timer speaks even while nothing is finished.
    """

    def __init__(self, what: str) -> None:
        self.what, self.total, self.done = what, 0, 0
        self._lock = Lock()
        self._closed = False
        self._timer: Timer | None = None
        self._next_line = 0.0
        self._bar = open_bar(what, "{task.completed:,.0f} of {task.total:,.0f} asked so far", transient=True)
        self._task: Any = None

    def expect(self, count: int) -> None:
        """So many more are to be done."""
        with self._lock:
            self.total += count
            if self._timer is None and count:
                self._next_line = time.monotonic() + PATIENCE_SECONDS
                self._wake_after(PATIENCE_SECONDS)

    def advance(self, count: int) -> None:
        """So many more are done."""
        with self._lock:
            self.done += count
            if self.done < self.total and time.monotonic() >= self._next_line:
                self._show()

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
        if self._bar is not None:
            self._bar.stop()

    def _wake_after(self, seconds: float) -> None:
        self._timer = Timer(seconds, self._wake)
        self._timer.daemon = True
        self._timer.start()

    def _wake(self) -> None:
        self.advance(0)
        with self._lock:
            if not self._closed:
                self._wake_after(LINE_EVERY_SECONDS)

    def _show(self) -> None:
        if self._bar is None:
            self._next_line = time.monotonic() + LINE_EVERY_SECONDS
            print(f"{self.what}: {self.done:,} of {self.total:,} asked so far", file=sys.stderr)
            return
        if self._task is None:
            self._task = self._bar.add_task("")
            self._bar.start()
        self._bar.update(self._task, completed=self.done, total=self.total)
