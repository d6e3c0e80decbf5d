"""What a person sees of a run: a live bar where rich is installed and a terminal shows it, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from densevid.progress import duration, open_bar

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
