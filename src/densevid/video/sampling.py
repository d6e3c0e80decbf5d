"""Sampling: which frame belongs to each step, decided from presentation times alone.

Step i uses the frame nearest to i x seconds_per_step and has the time of that frame. If no frame is within half a step,
the frame that is on the screen is used again, and the step has the time i x seconds_per_step. A frame is never used
half a step or more before its time.
"""

from __future__ import annotations

import heapq
import math

LONGEST_HOLD = 3600.0  # seconds; a longer gap between frames is taken for an invalid time stamp


class BrokenClock(Exception):
    """Presentation times jump further than any video holds a frame."""


class StepSelector:
    """Assigns steps to frames, given the frame times in presentation order.

    Args:
        seconds_per_step: Length of a step.
    """

    def __init__(self, seconds_per_step: float) -> None:
        self.seconds_per_step = seconds_per_step
        self._step = 0
        self._frame: float | None = None
        self._shown = False
        self._any_shown = False

    def push(self, time: float) -> list[float]:
        """Add the time of the next frame.

        Returns:
            The times of the steps that use the previous frame.

        Raises:
            BrokenClock: The times jump too far.
        """
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
        """The times of the steps that use the last frame, shown until `end`; every video has at least one step."""
        steps = []
        while self._frame is not None and (self._target < end or not self._any_shown):
            steps.append(self._show())
        return steps

    @property
    def _target(self) -> float:
        return self._step * self.seconds_per_step

    def _first_step_near(self, time: float) -> int:
        """The first step; steps before the first frame are left out."""
        half = self.seconds_per_step / 2
        step = max(0, int((time - half) // self.seconds_per_step))  # may be one too few, by rounding errors
        while time - step * self.seconds_per_step >= half:
            step += 1
        return step

    def _belongs_to(self, coming: float) -> bool:
        """Whether the step uses the next frame rather than the current one."""
        assert self._frame is not None
        return coming - self._target < min(self._target - self._frame, self.seconds_per_step / 2)

    def _show(self) -> float:
        assert self._frame is not None
        time = self._target if self._shown else self._frame
        self._shown = self._any_shown = True
        self._step += 1
        return time


class FramePacer:
    """Turns frames at any times into frames at a constant rate, from the first one on.

    Turn k is k / rate seconds after the first frame, and belongs to the first frame at or after it.

    Args:
        frames_per_second: The rate.
    """

    ROUNDING = 1e-6  # seconds

    def __init__(self, frames_per_second: float) -> None:
        self._rate = frames_per_second
        self._first: float | None = None
        self._turns = 0

    def push(self, time: float) -> int:
        """Add the time of the next frame; returns the number of turns that belong to it."""
        self._first = time if self._first is None else self._first
        due = math.floor((time - self._first + self.ROUNDING) * self._rate) + 1
        new = max(0, due - self._turns)
        self._turns += new
        return new


class SkipPlan:
    """Which frames are needed, known before they are decoded, by running the selector on the times of packets.

    Packets arrive in decoding order, at most `REORDER` positions from presentation order. A frame that no step uses
    need not be decoded unless other frames refer to it; skipping it changes no step.

    Args:
        seconds_per_step: Length of a step.
        frames_per_step: Consecutive frames that a step uses.
        frames_per_second: Rate at which frames are used besides; 0 for none.
    """

    REORDER = 32

    def __init__(self, seconds_per_step: float, frames_per_step: int, frames_per_second: float = 0.0) -> None:
        self._pacer = FramePacer(frames_per_second) if frames_per_second else None
        self._selector = StepSelector(seconds_per_step)
        self._frames_per_step = frames_per_step
        self._waiting: list[float] = []
        self._previous: float | None = None
        self._window_left = 0
        self._needed: set[float] = set()
        self._reliable = True

    def add(self, time: float | None) -> None:
        """Add the presentation time of a packet; after a packet without one, every frame counts as needed."""
        if time is None or (self._previous is not None and time <= self._previous):
            self._reliable = False
        else:
            heapq.heappush(self._waiting, time)
        if self._reliable and len(self._waiting) > self.REORDER:
            self._settle(heapq.heappop(self._waiting))

    def is_settled(self, time: float | None) -> bool:
        """Whether `needs` has a final answer for the frame at this time."""
        return not self._reliable or time is None or (self._previous is not None and time < self._previous)

    def needs(self, time: float | None) -> bool:
        """Whether a step uses the frame at this time; call it once per frame. True if in doubt."""
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
        if self._pacer and time >= 0 and self._pacer.push(time):
            self._needed.add(time)
        self._previous = time
