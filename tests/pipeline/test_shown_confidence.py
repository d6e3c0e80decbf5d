"""What a person reads as confidence, and where there is none: in the terminal, on the page and in every file."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import shutil
import sys
from pathlib import Path

import pytest

import densevid
from densevid.cli import main
from densevid.events import read_events
from densevid.inference.confidence import Calibration
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.io import toml_text

CALIBRATION = Calibration(
    LogisticCurve(("logit", "log_steps", "share", "neighbor_support"), (1.0, 0.3, -0.5, 0.2), 0.5),
    LogisticCurve(("confidence", "log_probability"), (1.0, 0.2), 0.1),
)


@pytest.fixture
def calibrated(models: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(models / "tiny", tmp_path / "calibrated"))
    (folder / "calibration.toml").write_text(toml_text(CALIBRATION.as_table()))
    return folder


def on_a_screen(words: list[str], **variables: str) -> str:
    """What the command shows where stdin, stdout and stderr are one terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [sys.executable, "-m", "densevid", *words], {**os.environ, "TERM": "xterm", **variables}
        )
    shown = b""
    try:
        while some := os.read(terminal, 4096):
            shown += some
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0, shown
    return shown.decode()


@pytest.mark.parametrize("progress", ["bar", "none"])
def test_on_a_screen_bars_are_drawn_whether_or_not_progress_is(progress: str, video: Path) -> None:
    words = ["caption", str(video), "--format", "json", "--progress", progress]
    shown = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", on_a_screen(words, LANG="C.UTF-8", LC_ALL="C.UTF-8", PYTHONUTF8="1"))
    rows = [line for line in shown.splitlines() if re.match(r"\s*\d+:\d\d\.\d–\d", line)]
    assert rows and all(re.search(r"│[ ·▒█]{24}│ ", row) for row in rows), shown
    plain = on_a_screen(words, LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert re.search(r"\|\S*[ .#-]{24}", re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", plain)) and plain.isascii()


def test_the_same_event_is_as_sure_in_every_list_and_every_file(video: Path, calibrated: Path, tmp_path: Path) -> None:
    events_by_name = {}
    for name, flags in {"default": [], "dense": ["--dense"]}.items():
        words = ["--model", str(calibrated), "--out", str(tmp_path / name), "--format", "html,json,csv"]
        assert main(["caption", str(video), *words, *flags]) == 0
        events_by_name[name] = read_events(tmp_path / name / "clip.densevid.json")["clip"]
    sure = {(event.start, event.end): event.score for event in events_by_name["dense"]}
    assert events_by_name["default"] and all(
        sure[event.start, event.end] == pytest.approx(event.score, abs=1e-5) for event in events_by_name["default"]
    )
    raw = {(event.start, event.end): event.score for event in densevid.caption(video, dense=True)}
    assert all(abs(raw[span] - score) > 1e-4 for span, score in sure.items()), "the tiny model has no calibration"
    with (tmp_path / "dense" / "clip.densevid.csv").open(encoding="utf-8", newline="") as file:
        assert [float(row["confidence"]) for row in csv.DictReader(file)] == pytest.approx(
            list(sure.values()), abs=1e-4
        )
    page = (tmp_path / "dense" / "clip.densevid.html").read_text()
    assert sorted(re.findall(r'data-confidence="([\d.]+)"', page)) == sorted(f"{score:.3f}" for score in sure.values())


def test_given_spans_have_no_confidence_anywhere(video: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "spans.txt").write_text("1 2.5\n3 9\n")
    words = ["--segments", str(tmp_path / "spans.txt"), "--format", "html,json,csv"]
    assert main(["caption", str(video), *words]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert len(rows) == 2 and not any("%" in row for row in rows)
    page = (tmp_path / "clip.densevid.html").read_text()
    assert "data-confidence" not in page and "data-reference" not in page and "<meter" not in page
    results = json.loads((tmp_path / "clip.densevid.json").read_text())["results"]["clip"]
    assert [row["proposal_score"] for row in results] == [1, 1], "the form has one, and all are equal"
    with (tmp_path / "clip.densevid.csv").open(encoding="utf-8", newline="") as file:
        assert [row["confidence"] for row in csv.DictReader(file)] == ["", ""]


def test_spans_beyond_the_end_are_left_out_or_cut_and_named(video: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "spans.txt").write_text("1 2\n20 30\n5 9\n1:00 1:05\n")
    for _ in range(2):  # the second time from the cache
        assert main(["caption", str(video), "--segments", str(tmp_path / "spans.txt"), "--format", "json"]) == 1
        cut, left_out = capsys.readouterr().err.splitlines()
        assert "before these given segments: 20-30, 60-65 s; left out" in left_out
        assert cut == f"densevid: {video}: 1 of the given segments is cut at its end, 6.0 s"
        ends = [event.end for event in read_events(tmp_path / "clip.densevid.json")["clip"]]
        assert ends == [2.0, pytest.approx(6.0, abs=0.05)]
    (tmp_path / "clip.densevid.json").unlink()
    (tmp_path / "spans.txt").write_text("20 30\n")
    assert main(["caption", str(video), "--segments", str(tmp_path / "spans.txt"), "--format", "json"]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "clip.densevid.json").exists()
