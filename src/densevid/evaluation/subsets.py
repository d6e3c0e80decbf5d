"""Long or short events alone (the paper's tables of events of at least 50 s and of at most 15 s).

An event is kept by its own length, on both sides: a prediction of another length is not an attempt at these events. A
reference video without such an event leaves the set; a predicted video stays, with an empty list if need be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.rows import Booleans, Rows


@dataclass(frozen=True)
class LengthRange:
    """Lengths in seconds, both ends included; None is no limit."""

    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        for flag, seconds in (("--min-seconds", self.at_least), ("--max-seconds", self.at_most)):
            if seconds is not None and not math.isfinite(seconds):
                raise InputError(f"{flag} must be a finite number of seconds, got {seconds:g}")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise InputError(
                f"--min-seconds {self.at_least:g} is above --max-seconds {self.at_most:g}: no event is left"
            )

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.at_least is None and self.at_most is None

    def holds(self, rows: Rows) -> Booleans:
        """Which events have such a length."""
        with np.errstate(over="ignore"):  # times near the largest number: longer than any limit
            seconds_E = rows.intervals_E2[:, 1] - rows.intervals_E2[:, 0]
        longer = seconds_E >= (-np.inf if self.at_least is None else self.at_least)
        return np.asarray(longer & (seconds_E <= (np.inf if self.at_most is None else self.at_most)))


def restrict(predictions: Rows, references: Sequence[Rows], lengths: LengthRange) -> tuple[Rows, list[Rows]]:
    """The events of these lengths on both sides."""
    if lengths.everything:
        return predictions, list(references)
    kept = [rows.keep(lengths.holds(rows)).without_empty_videos() for rows in references]
    if not any(len(rows) for rows in kept):
        raise InputError("no reference event has such a length; widen --min-seconds / --max-seconds")
    return predictions.keep(lengths.holds(predictions)), kept
