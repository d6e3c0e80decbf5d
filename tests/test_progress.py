"""Progress: a line now and then, never too often; short work shows nothing."""

from __future__ import annotations

from threading import Event

import pytest

from densevid import progress
from densevid.progress import PatientProgress, Progress, duration
from helpers.waiting import LIMIT_SECONDS


def test_durations_are_short_words() -> None:
    assert [duration(seconds) for seconds in (8, 200, 3725)] == ["8 s", "3 min 20 s", "1 h 02 min"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still until a test changes its one element."""
    seconds = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    return seconds


def test_lines_are_not_too_frequent(clock: list[float]) -> None:
    lines: list[str] = []
    with Progress(100, report=lines.append) as shown:
        clock[0] += 9
        shown.advance(10, "ten")
        shown.update(11, "eleven", now=True)
        clock[0] += 9
        shown.update(12, "twelve")
        clock[0] += 1
        shown.update(13, "thirteen")
    assert lines == ["eleven, 1 min 13 s left", "thirteen, 2 min 07 s left"]


def test_the_time_left_is_that_of_the_pace_since_the_start(clock: list[float]) -> None:
    lines: list[str] = []
    shown = Progress(100, done=40, report=lines.append)
    clock[0] += 12
    shown.update(60, "more than half")
    assert lines == ["more than half, 24 s left"], "20 of the 60 took 12 s"


def test_quick_work_is_silent(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    bar = PatientProgress("METEOR")
    bar.expect(3)
    bar.advance(2)
    bar.close()
    assert capsys.readouterr().err == ""


def test_slow_work_is_shown_though_nothing_is_finished_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProgress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(PatientProgress, "SECONDS_BETWEEN_LINES", 0.0)
    lines, twice = list[str](), Event()
    bar = PatientProgress("METEOR")

    def report(line: str) -> None:
        lines.append(line)
        if len(lines) > 1:
            twice.set()

    bar._report = report
    bar.total = 1_000
    bar.expect(2_000)
    assert twice.wait(LIMIT_SECONDS)
    bar.close()
    count = len(lines)
    assert set(lines) == {"METEOR: 0 of 3,000"}
    bar.advance(3_000)
    assert len(lines) == count
