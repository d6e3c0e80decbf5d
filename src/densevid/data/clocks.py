"""Clocks of features that have none: a given step length, the release's formula, or the duration over the rows.

A duration file is the release's `*_duration_frame.csv`: id, duration in seconds, number of frames, one video per line.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from densevid.errors import InputError
from densevid.tracks import Clock

Formula = Literal["activitynet", "youcook2"]
RELEASED_SAMPLING = 0.5  # seconds per step: the release's target, and its value for videos without a duration


@dataclass(frozen=True)
class StepClocks:
    """Gives each video its clock.

    Attributes:
        seconds_per_step: Step length of all videos; overrides everything else.
        formula: The release's rounding, which differs between its two datasets.
        durations: Seconds by video.
        frames: Number of frames by video.
        otherwise: Step length in the release's layout for videos without a frame count.
    """

    seconds_per_step: float | None = None
    formula: Formula = "activitynet"
    durations: Mapping[str, float] = field(default_factory=dict)
    frames: Mapping[str, float] = field(default_factory=dict)
    otherwise: float = RELEASED_SAMPLING

    def __post_init__(self) -> None:
        if self.seconds_per_step is not None:
            Clock.uniform(self.seconds_per_step)

    def released(self, video: str) -> Clock:
        """The clock by the release's formula, or the default step length if the frame count is unknown."""
        if self.seconds_per_step is not None:
            return Clock.uniform(self.seconds_per_step)
        if video not in self.frames:
            return Clock.uniform(self.otherwise)
        duration, frames = self.durations[video], self.frames[video]
        try:
            return Clock.uniform(released_seconds_per_step(duration, frames, self.formula))
        except (InputError, ArithmeticError):
            reason = f"no step length from a duration of {duration:g} s and {frames:g} frames"
            raise InputError(f"{video}: {reason}; correct the duration file or give the seconds per step") from None

    def over_duration(self, video: str, rows: int) -> Clock:
        """A clock that spreads the rows evenly over the duration."""
        if self.seconds_per_step is not None:
            return Clock.uniform(self.seconds_per_step)
        if video not in self.durations:
            raise InputError(f"{video}: its duration is not known; give a duration file or the seconds per step")
        return Clock.uniform(self.durations[video] / rows)


def released_seconds_per_step(duration: float, frames: float, formula: Formula) -> float:
    """Seconds per step in the release: every n-th frame, n the frames in half a second, rounded per dataset."""
    if formula == "activitynet":
        return duration * int(frames / int(duration) * RELEASED_SAMPLING) / frames
    return duration * math.ceil(frames / duration * RELEASED_SAMPLING) / frames


def read_duration_file(path: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Read a duration file.

    Args:
        path: A CSV file: id, duration, and optionally the number of frames; a header line is allowed.

    Returns:
        Seconds by video, and frame counts by video.

    Raises:
        InputError: The file cannot be read; the message names the line.
    """
    durations: dict[str, float] = {}
    frames: dict[str, float] = {}
    for line, row in _rows(path):
        try:
            numbers = [float(text) for text in row[1:3]]
        except ValueError:
            numbers = []
        if not numbers and line == 1:
            continue
        if not numbers or not all(math.isfinite(number) and number > 0 for number in numbers):
            raise InputError(f"{path}: line {line}: expected id, duration, frames, got {','.join(row)[:80]!r}")
        durations[row[0]] = numbers[0]
        if len(numbers) == 2:
            frames[row[0]] = numbers[1]
    return durations, frames


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and stripped cells of the lines that are not empty."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for line, row in enumerate(csv.reader(file), start=1):
                if any(row):
                    yield line, [cell.strip() for cell in row]
    except FileNotFoundError:
        raise InputError(f"{path}: no such duration file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a readable duration file ({error})") from error
