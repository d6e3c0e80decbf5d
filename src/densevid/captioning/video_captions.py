"""A video with its events, ready to be written; and the part of it that is kept in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from densevid.captioning.chosen_events import ChosenEvents, Mask
from densevid.events import Event


@dataclass(frozen=True)
class VideoCaptions:
    """A video with its events; `file` is None where features were captioned, `warning` what could not be read.

    `masks` are the event masks over the first `mask_seconds`, one an event, or none. `content` is the hash of the file,
    `model_key` that of the model and of the program.
    """

    name: str
    file: Path | None
    duration: float
    events: tuple[Event, ...]
    masks: tuple[Mask, ...]
    mask_seconds: float
    chosen: str
    model: str
    model_key: str
    warning: str | None = None
    content: str | None = None


@dataclass(frozen=True)
class FoundEvents:
    """What the cache keeps of a captioned file."""

    duration: float
    read_seconds: float
    warning: str | None
    chosen: ChosenEvents

    @classmethod
    def of(cls, plain: dict[str, Any] | None) -> FoundEvents | None:
        """Back from plain values; None if they are not what was kept."""
        try:
            if plain is None:
                return None
            chosen = ChosenEvents.of_plain(plain["events"], plain["masks"])
            return cls(float(plain["duration"]), float(plain["read_seconds"]), plain["warning"], chosen)
        except (KeyError, TypeError, ValueError):
            return None

    def as_plain(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        about = {"duration": self.duration, "read_seconds": self.read_seconds, "warning": self.warning}
        return {**about, **self.chosen.as_plain()}
