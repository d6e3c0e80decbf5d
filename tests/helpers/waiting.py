"""Waiting for what a test needs: a file, a state, the end of a process; never for a time.

`LIMIT_SECONDS` is a net for a test that can no longer succeed. No test measures anything with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

LIMIT_SECONDS = float(os.environ.get("DENSEVID_TEST_LIMIT", "300"))
BETWEEN_LOOKS = 0.01

Value = TypeVar("Value")


def wait_until(condition: Callable[[], Value], process: subprocess.Popen[Any] | None = None) -> Value:
    """Look until the condition holds, and return its value; fail at once if `process` ends before that."""
    net = time.monotonic() + LIMIT_SECONDS
    while not (value := condition()):
        ended = process is not None and process.poll() is not None
        if ended and not (value := condition()):
            raise AssertionError(f"the process ended first, with code {process.returncode}")  # type: ignore[union-attr]
        if ended:
            break
        assert time.monotonic() < net, f"not within {LIMIT_SECONDS:.0f} s"
        time.sleep(BETWEEN_LOOKS)
    return value


async def until(condition: Callable[[], object]) -> None:
    """The same within an event loop, which goes on meanwhile."""
    net = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < net, f"not within {LIMIT_SECONDS:.0f} s"
        await asyncio.sleep(BETWEEN_LOOKS)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        if Path("/proc/self/stat").exists():
            return False
    try:  # a system without /proc
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pause_at_random(seconds: float) -> None:
    """Let a moment pass, for tests that kill a process at a moment that nobody chose. Not a way to wait."""
    time.sleep(seconds)


def kill_with_children(process: subprocess.Popen[Any]) -> None:
    """SIGKILL a process and all that it started, also what lives in a session of its own."""
    doomed = [process.pid]
    for pid in doomed:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            doomed += map(int, task.read_text().split())
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not any(map(alive, doomed)))


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that a test started and no longer needs."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
