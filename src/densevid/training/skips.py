"""Steps that were skipped: every loss was finite, the gradient was not, so nothing was learnt. A few are borne.

In bfloat16 a backward kernel gives a NaN now and then; a run that has diverged gives nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_IN_A_ROW = 5
ONE_IN = 50  # steps so far, where there are enough of them to tell
ENOUGH_STEPS = 200


@dataclass
class Skips:
    """How many steps of a run were skipped, and how many of them are the latest; a checkpoint keeps both."""

    count: int = 0
    in_a_row: int = 0

    def add(self, *, skipped: bool) -> None:
        """Take in one step."""
        self.count += skipped
        self.in_a_row = self.in_a_row + 1 if skipped else 0

    def too_many(self, steps: int) -> bool:
        """Whether a run of so many steps should end."""
        return self.in_a_row > MOST_IN_A_ROW or (steps >= ENOUGH_STEPS and self.count * ONE_IN > steps)

    def told(self, steps: int) -> str:
        """In words."""
        were = "step was" if self.count == 1 else "steps were"
        return f"{self.count:,} of {steps:,} {were} skipped: a gradient was not finite, though every loss was"
