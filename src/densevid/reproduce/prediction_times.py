"""How long predictions took: each file of them says it, but those that were made while others learnt were slowed down.

So the step `time` makes those of the first seed once more, with nothing else on the device, and notes that beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from densevid.reproduce.fact_files import NUMBER, known_facts


def time_file(predictions: Path) -> Path:
    """Where the time of predictions by themselves is noted, where it was measured."""
    return predictions.with_suffix(".time.json")


def predicted_seconds(path: Path) -> float | None:
    """Seconds a video, as they were measured when the file was written; None where nothing was computed."""
    noted = known_facts(path, provenance=dict)
    return _seconds_a_video(noted["provenance"] if noted else {})


def times_alone(files: Sequence[Path]) -> dict[Path, float]:
    """Seconds a video of those that were timed alone on the device, by the file that notes them."""
    found = {time_file(file): _seconds_a_video(known_facts(time_file(file)) or {}) for file in files}
    return {file: seconds for file, seconds in found.items() if seconds is not None}


def prediction_times(files: Sequence[Path]) -> dict[Path, float]:
    """Seconds a video, by the file that notes them: alone on the device if that was measured, else as they came."""
    came = {file: predicted_seconds(file) for file in files}
    return times_alone(files) or {file: seconds for file, seconds in came.items() if seconds is not None}


def _seconds_a_video(facts: Mapping[str, Any]) -> float | None:
    known = all(isinstance(facts.get(name), NUMBER) for name in ("seconds", "videos"))
    return facts["seconds"] / facts["videos"] if known and facts["videos"] else None
