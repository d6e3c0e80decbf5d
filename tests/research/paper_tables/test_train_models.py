"""Training many models: failed rows are reported and logged, and a killed process takes no other with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from densevid.cli import main
from densevid.inference.predict import OpenedJob, PredictionJob, open_job
from helpers.clip_collections import write_collection
from helpers.waiting import LIMIT_SECONDS, alive, wait_until
from research.paper_tables.model_runs import TRAINED
from research.paper_tables.train_models import total_seconds

ROWS = "captions-1,captions-2"


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("clips"), clips=200, splits=("train", "train", "val"))


def command_of(clips: Path, out: Path, *more: str) -> list[str]:
    data = ["--data", "msvd-timelines", "--clips", str(clips), "--quick", "--rows", ROWS, "--threads", "1"]
    return ["reproduce", "5", *data, "--out", str(out), *more]


def test_a_missing_device_is_reported_once(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing can be computed on `meta`."""
    assert main(command_of(clips, tmp_path, "--only", "train", "--device", "meta", "--parallel", "2")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--device meta: not a device" in line


def test_an_error_of_the_device_is_reported_for_every_row(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*words: object, **named: object) -> Path:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr("research.paper_tables.train_models.train", broken)
    assert main(command_of(clips, tmp_path, "--only", "train", "--device", "cpu", "--parallel", "1")) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and err.count("failed (RuntimeError: the device is gone") == 2


def broken_for(run: Path) -> Callable[[PredictionJob], OpenedJob]:
    """Opening the model of this run fails as a device may."""

    def opened(job: PredictionJob) -> OpenedJob:
        if run in job.model.parents:
            raise RuntimeError("the device is gone")
        return open_job(job)

    return opened


def test_a_row_that_cannot_be_written_leaves_the_others(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(command_of(clips, tmp_path, "--plan")) == 0
    folder = tmp_path / "msvd-timelines-quick"
    runs = [folder / line.rpartition("(")[2].rstrip(")") for line in capsys.readouterr().out.splitlines()]
    blocked, free = sorted(runs)
    blocked.parent.parent.mkdir(parents=True)
    blocked.parent.write_text("not a folder")
    assert main(command_of(clips, tmp_path, "--only", "train", "--device", "cpu")) == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err and "1 failed: captions-1, seed 0: " in err
    assert (free / TRAINED).exists()
    blocked.parent.unlink()
    assert main(command_of(clips, tmp_path, "--only", "train", "--device", "cpu")) == 0
    (blocked / "vocabulary.txt").write_text("broken")
    capsys.readouterr()
    assert main(command_of(clips, tmp_path, "--only", "time", "--device", "cpu")) == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err and "captions-1, seed 0: " in err and "not timed" in err
    assert (free / "speed.json").exists() and not (blocked / "speed.json").exists()
    assert "Traceback" in (blocked / "train.log").read_text()
    monkeypatch.setattr("research.paper_tables.predict_models.open_job", broken_for(blocked))
    capsys.readouterr()
    assert main(command_of(clips, tmp_path, "--only", "predict", "--device", "cpu")) == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err and "RuntimeError: the device is gone" in err
    predicted = {path.parent.parent.name.rpartition("-")[0] for path in folder.glob("predictions/*/seed-0/*.json")}
    assert "captions-1" not in predicted and predicted


def test_seconds_of_resumed_runs_add_up() -> None:
    assert total_seconds([]) == 0
    assert total_seconds([1.0, 2.0, 3.0]) == 3.0
    assert total_seconds([1.0, 5.0, 2.0, 4.0, 1.5]) == pytest.approx(5 + 4 + 1.5)


FROM_THE_ROOT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}

SCRIPT = """
import multiprocessing, os, signal, sys, time
from research.paper_tables.train_models import end_with

def run(parent, note):
    end_with(parent)
    open(note, "w").write(str(os.getpid()))
    signal.pause()

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=run, args=(os.getpid(), sys.argv[1] + ".new"))
    process.start()
    while not os.path.exists(sys.argv[1] + ".new") or not open(sys.argv[1] + ".new").read():
        time.sleep(0.05)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    signal.pause()
"""

SEVERAL = """
import json, os, signal, sys
from research.paper_tables.train_models import finished

def work(item):
    with open(os.path.join(sys.argv[1], f"{item}-{os.getpid()}"), "w"):
        pass
    if item == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "raising":
        raise RuntimeError("CUDA error:\\nno device")
    if item == "leaving":
        os._exit(3)
    if item == "long":
        return "x" * 1_000_000
    if item in ("forever", "interrupted"):
        if item == "interrupted":
            os.kill(os.getppid(), signal.SIGINT)
        signal.pause()
    return "an error" if item == "failing" else None

if __name__ == "__main__":
    try:
        for item, error in finished(work, sys.argv[3:], int(sys.argv[2])):
            print(json.dumps([item, error]), flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def several(folder: Path, at_once: int, *items: str) -> tuple[int, dict[str, str | None]]:
    """The exit code, and what became of each."""
    (folder / "script.py").write_text(SEVERAL)
    (folder / "ran").mkdir()
    command = [sys.executable, str(folder / "script.py"), str(folder / "ran"), str(at_once), *items]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=FROM_THE_ROOT)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, dict(json.loads(line) for line in done.stdout.splitlines())


def test_a_killed_run_takes_no_other_with_it(tmp_path: Path) -> None:
    items = ["before", "killed", "raising", "leaving", "failing", "long", "after"]
    code, found = several(tmp_path, 2, *items)
    assert code == 0 and set(found) == set(items)
    assert found["before"] is found["after"] is None and found["failing"] == "an error"
    assert found["killed"] == "its process was killed by SIGKILL, as when memory runs out"
    assert found["raising"] == "RuntimeError: CUDA error: no device" and set(found["long"] or "") == {"x"}
    assert found["leaving"] == "its process ended with code 3"
    processes = [path.name.rpartition("-") for path in (tmp_path / "ran").iterdir()]
    assert len({number for _, _, number in processes}) == len(items), "each in a process of its own, once"


def test_an_interrupted_command_leaves_nothing_running(tmp_path: Path) -> None:
    code, found = several(tmp_path, 2, "forever", "interrupted", "never begun")
    assert code == 130 and not found
    processes = [int(path.name.rpartition("-")[2]) for path in (tmp_path / "ran").iterdir()]
    assert processes
    wait_until(lambda: not any(map(alive, processes)))
    assert not list((tmp_path / "ran").glob("never*"))


def test_a_run_ends_with_the_command_that_began_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    note = tmp_path / "pid"
    with subprocess.Popen([sys.executable, str(tmp_path / "script.py"), str(note)], env=FROM_THE_ROOT) as command:
        wait_until(note.exists, command)
        child = int(note.read_text())
        assert alive(child)
        command.send_signal(signal.SIGKILL)
    wait_until(lambda: not alive(child))
