"""What every long job shares to say how far it is: a bar of rich's where a person watches, stages, time in words.

How far a long command is: a bar where a person watches, a line now and then where a file does.

A bar for anything that takes more than two seconds: rich on a terminal, a line now and then elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Lock, Timer
from types import TracebackType
from typing import Any, Literal, Self

Stage = Literal["files", "decode", "features", "events", "sentences"]
ProgressCallback = Callable[
    [Stage, float], None
]  # told of a stage of a video's way and the share of it that is done, 0 to 1


def no_progress(stage: Stage, done: float) -> None:
    """A watch for when nobody does."""


def open_bar(*columns: str, transient: bool = False) -> Any | None:
    """A bar on stderr with text columns after it; None where nobody watches or rich is not installed."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
    except ModuleNotFoundError:
        return None
    texts = (TextColumn(column, markup=False) for column in columns)
    return Progress(BarColumn(24), *texts, console=Console(stderr=True), transient=transient)


def duration(seconds: float) -> str:
    """Seconds as `1 h 02 min`, `3 min 20 s` or `8 s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


SECONDS_BETWEEN_LINES = 10.0


class WithBar:
    """What shows a bar while it is entered; `_bar` is None where nobody watches."""

    _bar: Any

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()


class Progress(WithBar):
    """Counts towards a total of any unit (bytes say more about the time left than files do); writes to stderr."""

    def __init__(self, total: int) -> None:
        self._total, self._done = max(total, 1), 0
        self._begin = self._last_line = time.monotonic()
        self._bar = open_bar("{task.description}")
        self._task = self._bar.add_task("starting", total=self._total) if self._bar else None

    def advance(self, amount: int, text: str) -> None:
        """Note that `amount` more is done, and say `text` beside it."""
        self._done += amount
        if self._bar:
            self._bar.update(self._task, completed=self._done, description=f"{text}, {self.time_left()} left")
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            print(f"{text}, {self.time_left()} left", file=sys.stderr, flush=True)

    def time_left(self) -> str:
        """How much longer it takes if it goes on as it went."""
        passed = time.monotonic() - self._begin
        return duration(passed * max(self._total - self._done, 0) / max(self._done, 1))


PATIENCE_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0


class CountedProgress:
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
