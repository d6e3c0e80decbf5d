"""metrics.csv, curves and progress of a run."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from densevid.training.logging import MetricsFile, RunLog, draw_curves, loss_text, read_metrics
from densevid.training.run_folder import RunFolder


def test_metrics_survive_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    table = MetricsFile(path)
    for step in (10, 20, 30):
        table.add({"step": step, "epoch": 1, "split": "training", "total": step / 7})
    with path.open("a") as file:
        file.write("40,1,trai")
    assert [row["step"] for row in read_metrics(path)] == ["10", "20", "30"]
    MetricsFile(path, up_to_step=20).add({"step": 30, "epoch": 2, "split": "validation", "cider": 1.0})
    assert [(row["step"], row["epoch"], row["total"]) for row in read_metrics(path)] == [
        ("10", "1", "1.42857"),
        ("20", "1", "2.85714"),
        ("30", "2", ""),
    ]


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    table = MetricsFile(tmp_path / "metrics.csv")
    for step in range(1, 6):
        table.add({"step": step, "epoch": 1, "split": "training", "total": 1 / step, "learning_rate": 0.1})
    table.add({"step": 5, "epoch": 1, "split": "validation", "total": 0.5})
    return tmp_path / "metrics.csv"


def test_curves_are_a_picture(metrics: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = draw_curves(metrics, tmp_path)
    assert written.name == "curves.png" and written.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_curves_without_matplotlib(metrics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    written = draw_curves(metrics, tmp_path)
    lines = ElementTree.parse(written).getroot().findall(".//{http://www.w3.org/2000/svg}polyline")
    assert written.name == "curves.svg" and len(lines) == 3
    points = [tuple(map(float, point.split(","))) for point in lines[0].attrib["points"].split()]
    assert len(points) == 5 and points == sorted(points), "steps go right, a falling loss goes down"


def test_progress_is_a_line_at_the_first_row_and_at_the_last(tmp_path: Path) -> None:
    lines: list[str] = []
    log = RunLog(RunFolder(tmp_path), 100, lines.append)
    with log.opened(0):
        log.count_samples(40)
        log.add_training_row(10, 0, {"total": 1.25, "learning_rate": 0.1})
        log.add_training_row(20, 0, {"total": 1.0})
        log.add_training_row(100, 0, {"total": 0.5})
    assert len(lines) == 2, "the second came too soon"
    assert lines[0].startswith("step 10/100  total 1.25  rate 0.1  samples/s ") and lines[0].endswith(" left")
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == ["10", "20", "100"]
    assert loss_text({"total": 2}) == "total 2"


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = RunLog()
    with log.opened(0):
        log.add_training_row(10, 0, {"total": 1.25})
        log.draw_curves(now=True)
    assert not list(tmp_path.iterdir())
