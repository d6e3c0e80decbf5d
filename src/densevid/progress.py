"""How far a long job is: a bar on a terminal where rich is installed, a line on stderr now and then elsewhere.

Commands, the evaluation and training show their progress by `Progress`; the stages of captioning a video are reported
to a `ProgressCallback`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import RLock, Timer
from types import TracebackType
from typing import Any, Literal, Self

Stage = Literal["files", "decode", "features", "events", "sentences"]
ProgressCallback = Callable[[Stage, float], None]  # a stage of captioning, and the share of it that is done, 0 to 1

SECONDS_BETWEEN_LINES = 10.0


def no_progress(stage: Stage, done: float) -> None:
    """A `ProgressCallback` that does nothing."""


def duration(seconds: float) -> str:
    """Seconds as `1 h 02 min`, `3 min 20 s` or `8 s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def print_line(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)


class Stages:
    """Marks stages of captioning without measuring them; `benchmarks/stage_times.py` measures."""

    def __call__(self, name: str) -> AbstractContextManager[None]:
        """A context: everything inside belongs to the stage of that name."""
        return nullcontext()


class Progress:
    """Counts towards a total and shows how far it is. A context manager; several threads may advance it.

    Args:
        total: Units of work, of any kind: bytes predict the time left better than files. `expect` adds to it.
        done: Units that were done before.
        report: Prints a line where there is no bar.
        lines: Whether to print lines at all where there is no bar.
        time_left: Whether to add the time left to the text.
        transient: Whether the bar disappears at the end.
    """

    def __init__(
        self,
        total: float = 0,
        *,
        done: float = 0,
        report: Callable[[str], None] = print_line,
        lines: bool = True,
        time_left: bool = True,
        transient: bool = False,
    ) -> None:
        self.total, self.done = total, done
        self._first_done, self._report, self._lines, self._shows_time = done, report, lines, time_left
        self._text, self._begun = "", time.monotonic()
        self._last_line = self._begun
        self._lock = RLock()
        self._bar = _rich_bar(transient)
        self._task: Any = None

    def __enter__(self) -> Self:
        """Show the bar."""
        if self._bar and self._task is None:
            self._task = self._bar.add_task("starting", total=self.total, completed=self.done)
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the bar away."""
        self.close()

    def expect(self, count: float) -> None:
        """Add to the total."""
        with self._lock:
            self.total += count

    def advance(self, amount: float, text: str = "") -> None:
        """Note that `amount` more is done, and show `text`."""
        self.update(self.done + amount, text)

    def update(self, done: float, text: str = "", *, now: bool = False) -> None:
        """Note how much is done; without a bar a line is printed every ten seconds, or `now`."""
        with self._lock:
            self.done, self._text = done, text
            if self._bar:
                self._show_bar()
            elif self._lines and (now or time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES):
                self._show_line()

    def line(self, text: str) -> None:
        """A line that stays, above the bar where there is one."""
        if self._bar and self._task is not None:
            self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            self._report(text)

    @property
    def has_bar(self) -> bool:
        """Whether a bar is shown."""
        return self._bar is not None

    def time_left(self) -> str:
        """How long the rest takes at the pace so far."""
        passed, here = time.monotonic() - self._begun, self.done - self._first_done
        return duration(passed * max(self.total - self.done, 0) / max(here, 1))

    def close(self) -> None:
        """Take the bar away."""
        if self._bar:
            self._bar.stop()

    def _shown_text(self) -> str:
        return f"{self._text}, {self.time_left()} left" if self._shows_time else self._text

    def _show_bar(self) -> None:
        self.__enter__()
        self._bar.update(self._task, completed=self.done, total=self.total, description=self._shown_text())  # type: ignore[union-attr]

    def _show_line(self) -> None:
        self._last_line = time.monotonic()
        self._report(self._shown_text())


class PatientProgress(Progress):
    """Progress of work that is often over at once: nothing is shown for two seconds.

    After that a timer shows how far it is even while nothing is finished.

    Args:
        what: The name of the work, which begins every line.
    """

    PATIENCE_SECONDS = 2.0
    SECONDS_BETWEEN_LINES = SECONDS_BETWEEN_LINES

    def __init__(self, what: str) -> None:
        super().__init__(time_left=False, transient=True)
        self.what = what
        self._closed = False
        self._timer: Timer | None = None
        self._next_shown = 0.0

    def expect(self, count: float) -> None:
        """Add to the total, and start the timer."""
        with self._lock:
            super().expect(count)
            if self._timer is None and count:
                self._next_shown = time.monotonic() + self.PATIENCE_SECONDS
                self._wake_after(self.PATIENCE_SECONDS)

    def update(self, done: float, text: str = "", *, now: bool = False) -> None:
        """Note how much is done, and show it if it is time."""
        with self._lock:
            self.done, self._text = done, text or f"{self.what}: {done:,.0f} of {self.total:,.0f}"
            if self.done < self.total and not self._closed and time.monotonic() >= self._next_shown:
                if self._bar:
                    self._show_bar()
                else:
                    self._next_shown = time.monotonic() + self.SECONDS_BETWEEN_LINES
                    self._show_line()

    def close(self) -> None:
        """Stop the timer and take the bar away."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
        super().close()

    def _wake_after(self, seconds: float) -> None:
        self._timer = Timer(seconds, self._wake)
        self._timer.daemon = True
        self._timer.start()

    def _wake(self) -> None:
        self.advance(0)
        with self._lock:
            if not self._closed:
                self._wake_after(self.SECONDS_BETWEEN_LINES)


def _rich_bar(transient: bool) -> Any | None:
    """A bar of rich on stderr; None where nobody watches or rich is not installed."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
    except ModuleNotFoundError:
        return None
    text = TextColumn("{task.description}", markup=False)
    return Progress(BarColumn(24), text, console=Console(stderr=True), transient=transient)
