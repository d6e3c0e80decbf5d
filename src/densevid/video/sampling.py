"""Which frame each step shows, decided from presentation times alone.

Step i shows the frame whose time is nearest to i x seconds_per_step, and its time is that frame's own. A picture that
stays on the screen longer than a step is shown by several steps; the repeats have the time i x seconds_per_step.
A frame that comes half a step or more after its turn is never shown early.
"""

from __future__ import annotations

import heapq

LONGEST_HOLD = 3600.0  # seconds; a picture that stays longer is taken for a broken clock


class BrokenClock(Exception):
    """The presentation times jump further than any video holds a picture."""


class StepSelector:
    """Fed with frame times in presentation order, it tells which steps each frame shows."""

    def __init__(self, seconds_per_step: float) -> None:
        self.seconds_per_step = seconds_per_step
        self._step = 0
        self._frame: float | None = None
        self._shown = False
        self._any_shown = False

    def push(self, time: float) -> list[float]:
        """The times of the steps that show the previous frame, now that the next one's time is known."""
        if self._frame is None:
            self._step = self._first_step_near(time)
            self._frame = time
            return []
        if time - self._frame > LONGEST_HOLD:
            raise BrokenClock(f"the time jumps from {self._frame:.1f} s to {time:.1f} s")
        steps = []
        while self._target < time and not self._belongs_to(time):
            steps.append(self._show())
        self._frame, self._shown = time, False
        return steps

    def finish(self, end: float) -> list[float]:
        """The times of the steps that show the last frame, which leaves the screen at `end`; any video has a step."""
        steps = []
        while self._frame is not None and (self._target < end or not self._any_shown):
            steps.append(self._show())
        return steps

    @property
    def _target(self) -> float:
        return self._step * self.seconds_per_step

    def _first_step_near(self, time: float) -> int:
        """Steps before the first picture have nothing to show and are left out."""
        half = self.seconds_per_step / 2
        step = max(0, int((time - half) // self.seconds_per_step))  # rounded down, and one too few for rounding errors
        while time - step * self.seconds_per_step >= half:
            step += 1
        return step

    def _belongs_to(self, coming: float) -> bool:
        """Whether the step shows the coming frame rather than the one on the screen."""
        assert self._frame is not None
        return coming - self._target < min(self._target - self._frame, self.seconds_per_step / 2)

    def _show(self) -> float:
        assert self._frame is not None
        time = self._target if self._shown else self._frame
        self._shown = self._any_shown = True
        self._step += 1
        return time


class SkipPlan:
    """Which frames will be needed, known before they are decoded: the selector run ahead on the packets' times.

    Packets come in decoding order, at most `REORDER` places away from presentation order. A frame that no step shows
    and no step's window covers need not be decoded unless others are built upon it; leaving it out changes no step.
    """

    REORDER = 32

    def __init__(self, seconds_per_step: float, frames_per_step: int) -> None:
        self._selector = StepSelector(seconds_per_step)
        self._frames_per_step = frames_per_step
        self._waiting: list[float] = []
        self._previous: float | None = None
        self._window_left = 0
        self._needed: set[float] = set()
        self._reliable = True

    def add(self, time: float | None) -> None:
        """Take note of a packet's presentation time; a packet without one ends all planning."""
        if time is None or (self._previous is not None and time <= self._previous):
            self._reliable = False
        else:
            heapq.heappush(self._waiting, time)
        if self._reliable and len(self._waiting) > self.REORDER:
            self._settle(heapq.heappop(self._waiting))

    def is_settled(self, time: float | None) -> bool:
        """Whether `needs` knows about this time yet."""
        return not self._reliable or time is None or (self._previous is not None and time < self._previous)

    def needs(self, time: float | None) -> bool:
        """Whether a step will use this frame; asked once for each. When in doubt, it does."""
        if not self._reliable or time is None or not self.is_settled(time):
            return True
        needed = time in self._needed
        self._needed.discard(time)
        return needed

    def _settle(self, time: float) -> None:
        try:
            shown = self._selector.push(time)
        except BrokenClock:
            self._reliable = False
            return
        if shown and self._previous is not None:
            self._needed.add(self._previous)
            self._window_left = self._frames_per_step - 1
        if self._window_left:
            self._needed.add(time)
            self._window_left -= 1
        self._previous = time
