"""The time of predictions: alone on the device where that is known, else as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from densevid.events import Event, write_events
from densevid.io import write_json
from research.paper_tables.predict_models import prediction_times, time_file, times_alone


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Predictions of three seeds; the last has no time."""
    found = [tmp_path / f"seed-{seed}" / "learned.json" for seed in range(3)]
    for seed, file in enumerate(found):
        noted = {"seconds": 30.0 + seed, "videos": 10} if seed < 2 else {}
        write_events(file, {"v": [Event(0.0, 1.0, "a man sings.")]}, provenance=noted)
    return found


def test_times_as_they_were_written(files: list[Path]) -> None:
    assert list(prediction_times(files).values()) == pytest.approx([3.0, 3.1]) and times_alone(files) == {}


def test_times_alone_replace_them(files: list[Path]) -> None:
    """Even where there are those of one seed only: the others may have been slowed down."""
    write_json(time_file(files[0]), {"seconds": 0.5, "videos": 10})
    assert prediction_times(files) == times_alone(files) == {time_file(files[0]): 0.05}


@pytest.mark.parametrize("content", [{}, {"seconds": "fast", "videos": 10}, {"seconds": 1.0, "videos": 0}, [1]])
def test_a_malformed_time_file_is_ignored(files: list[Path], content: object) -> None:
    write_json(time_file(files[0]), content)
    assert times_alone(files) == {} and len(prediction_times(files)) == 2
