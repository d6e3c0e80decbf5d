"""A bar for anything that takes more than two seconds: rich on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

PATIENCE_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0


class _Bar:
    """Silent for two seconds, then a rich bar or plain lines on stderr."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._started = time.monotonic()
        self._shown = self._started + PATIENCE_SECONDS - LINE_EVERY_SECONDS
        self._rich = sys.stderr.isatty() and find_spec("rich") is not None
        self._close: Callable[[], None] = lambda: None
        self._update: Callable[[int], None] | None = None

    def advance(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if self._update is not None:
            self._update(self.done)
        elif now - self._started > PATIENCE_SECONDS and self._rich:
            self._open_rich()
        elif now - self._started > PATIENCE_SECONDS and now - self._shown > LINE_EVERY_SECONDS:
            self._shown = now
            print(f"{self.what}: {self.done:,} of {self.total:,}", file=sys.stderr)

    def close(self) -> None:
        self._close()

    def _open_rich(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        task = bar.add_task(self.what, total=self.total, completed=self.done)
        bar.start()
        self._close = bar.stop
        self._update = lambda done: bar.update(task, completed=done)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give a function to call with how many more are done."""
    bar = _Bar(what, total)
    try:
        yield bar.advance
    finally:
        bar.close()
