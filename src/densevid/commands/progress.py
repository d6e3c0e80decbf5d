"""How far a long command is: a bar where a person watches, a line now and then where a file does."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from densevid.progress import duration, open_bar

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
