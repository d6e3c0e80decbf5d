"""Runs that share a device are processes of their own; the rest of training them is in test_reproduce.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import multiprocessing, os, sys, time
from densevid.reproduce.train_models import end_with

def run(parent, note):
    end_with(parent)
    open(note, "w").write(str(os.getpid()))
    time.sleep(120)

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=run, args=(os.getpid(), sys.argv[1] + ".new"))
    process.start()
    while not os.path.exists(sys.argv[1] + ".new") or not open(sys.argv[1] + ".new").read():
        time.sleep(0.05)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(120)
"""


def test_a_run_ends_with_the_command_that_began_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    note = tmp_path / "pid"
    with subprocess.Popen([sys.executable, str(tmp_path / "script.py"), str(note)]) as command:
        assert _soon(note.exists, 60)
        child = int(note.read_text())
        assert _runs(child)
        command.send_signal(signal.SIGKILL)
    assert _soon(lambda: not _runs(child), 20)


def _runs(process: int) -> bool:
    """Whether it is there and not a zombie that nobody has buried."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def _soon(holds: object, seconds: float) -> bool:
    assert callable(holds)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.1)
    return False
