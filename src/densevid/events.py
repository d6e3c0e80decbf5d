"""Event, for annotations and predictions alike, and event files.

An event file has ActivityNet's submission form:
`{"version", "results": {video: [{"sentence", "timestamp": [start, end], "proposal_score"}]}, "external_data"}`. An
event may also have `sentence_score`, `full_sentence`, `shortened` and `sentence_model`; they are written where known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from densevid.errors import InputError
from densevid.io import read_json, write_json

SENTENCE_FIELDS = ("sentence_score", "full_sentence", "shortened", "sentence_model")


@dataclass(frozen=True, slots=True)
class Event:
    """A span of a video with a sentence that describes it.

        >>> from densevid import Event
        >>> event = Event(12.0, 19.5, "a dog catches a frisbee", score=0.8)
        >>> event.seconds
        7.5

    Attributes:
        start: Start in seconds.
        end: End in seconds, after the start.
        sentence: The description that is shown; empty where a captioner abstains.
        score: Confidence of a prediction; 1 for an annotation.
        sentence_score: Confidence in the sentence; None if it is not known.
        full_sentence: The description before it was shortened or left out; None if `sentence` is all there is.
        shortened: Whether `sentence` was shortened.
        sentence_model: The name of the model that wrote the sentence, if it is known.

    Raises:
        InputError: The times are negative, reversed or not finite, or the score is not finite.
    """

    start: float
    end: float
    sentence: str
    score: float = 1.0
    sentence_score: float | None = field(default=None, repr=False)
    full_sentence: str | None = field(default=None, repr=False)
    shortened: bool = field(default=False, repr=False)
    sentence_model: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not (0 <= self.start < self.end < math.inf):
            raise InputError(f"an event must satisfy 0 <= start < end, got {self.start}, {self.end}")
        if not math.isfinite(self.score):
            raise InputError(f"the score of an event must be a finite number, got {self.score}")
        if self.sentence_score is not None and not math.isfinite(self.sentence_score):
            raise InputError(f"the sentence_score of an event must be a finite number, got {self.sentence_score}")

    @property
    def seconds(self) -> float:
        """Duration of the event."""
        return self.end - self.start

    @property
    def place(self) -> tuple[float, float]:
        """Sort key of every list of events: by start, and of events that start together the longer first."""
        return self.start, -self.end

    def as_row(self) -> dict[str, Any]:
        """The event as one entry of an event file."""
        row = {"sentence": self.sentence, "timestamp": [self.start, self.end], "proposal_score": self.score}
        more = {name: getattr(self, name) for name in SENTENCE_FIELDS}
        return row | {name: value for name, value in more.items() if value is not None and value is not False}


def write_events(
    path: Path | str, events: Mapping[str, Sequence[Event]], *, provenance: Mapping[str, Any] | None = None
) -> None:
    """Write an event file.

    Args:
        path: The file to write; it is replaced in one step.
        events: The events of each video, kept in this order.
        provenance: How the events were made, for the file's "provenance" block.

    Raises:
        InputError: The file cannot be written.
    """
    content = {
        "version": "VERSION 1.0",
        "results": {video: [event.as_row() for event in rows] for video, rows in events.items()},
        "external_data": {"used": False, "details": ""},
        "provenance": dict(provenance or {}),
    }
    write_json(path, content)


def read_events(path: Path | str) -> dict[str, list[Event]]:
    """Read an event file.

    Args:
        path: A file in ActivityNet's submission form.

    Returns:
        The events of each video, in the order of the file.

    Raises:
        InputError: The file is not an event file; the message names the video and the event.
    """
    content = read_json(path)
    results = content.get("results") if isinstance(content, dict) else None
    if not isinstance(results, dict):
        raise InputError(f'{path}: an event file needs "results": {{video: [event, ...]}}')
    return {video: list(_events_of(f"{path}: {video}", rows)) for video, rows in results.items()}


def _events_of(where: str, rows: Any) -> Iterable[Event]:
    if not isinstance(rows, list):
        raise InputError(f"{where}: expected a list of events, got {type(rows).__name__}")
    for index, row in enumerate(rows):
        try:
            start, end = row["timestamp"]
            score = float(row.get("proposal_score", 1.0))
            yield Event(float(start), float(end), str(row["sentence"]), score, *_sentence_fields(row))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{where}: event {index}: {_reason(error)} in {row!r:.80}") from error


def _sentence_fields(row: Mapping[str, Any]) -> tuple[float | None, str | None, bool, str | None]:
    """The values of `SENTENCE_FIELDS`."""
    score, full, shortened, model = (row.get(name) for name in SENTENCE_FIELDS)
    own_score = None if score is None else float(score)
    return own_score, None if full is None else str(full), shortened is True, None if model is None else str(model)


def _reason(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)
