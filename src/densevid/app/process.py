"""One child process of a job: what it says line by line, how long it may take, and its end with all its children."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

LAUNCH = Path(__file__).with_name("launch.py")
LONGEST_LINE = 1 << 16
LINES_KEPT = 20
SECONDS_TO_READ_THE_REST = 2.0


@dataclass(frozen=True)
class Outcome:
    """How a process ended: its exit code (negative: the signal that killed it) and its last lines."""

    code: int
    lines: tuple[str, ...]

    @property
    def killed(self) -> bool:
        """Whether a signal ended it, and not itself."""
        return self.code < 0

    @property
    def last_line(self) -> str:
        """What it said last, empty if nothing."""
        return next((line for line in reversed(self.lines) if line.strip()), "")


OnLine = Callable[[str], bool]


async def run_process(command: list[str], on_line: OnLine, seconds: float, variables: Mapping[str, str]) -> Outcome:
    """Run a command to its end; it and its children are gone whichever way this ends.

    `on_line` gets each line that it writes to stderr and says whether it was understood; the others are kept for the
    report. `variables` are added to its environment. Raises TimeoutError after `seconds`.
    """
    others: deque[str] = deque(maxlen=LINES_KEPT)
    async with _output_pipe() as (write_end, output):
        launcher = [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid())]
        process = await asyncio.create_subprocess_exec(
            *launcher,
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=write_end,
            env={**os.environ, **variables},
            start_new_session=True,  # its own group, so that its children can be ended with it
        )
        os.close(write_end)
        reading = asyncio.create_task(_read_lines(output, on_line, others))
        try:
            async with asyncio.timeout(seconds):
                code = await process.wait()
        finally:
            await asyncio.shield(_end(process, reading))
    return Outcome(code, tuple(others))


async def _end(process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
    """No process of the group is left; what they had said is read."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    await asyncio.wait([reading], timeout=SECONDS_TO_READ_THE_REST)
    reading.cancel()


@asynccontextmanager
async def _output_pipe() -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """A pipe of our own: with asyncio's, waiting for a process means waiting for every grandchild that holds it."""
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        yield write_end, reader
    finally:
        transport.close()


async def _read_lines(stream: asyncio.StreamReader, on_line: OnLine, others: deque[str]) -> None:
    """Hand on every line; one that is too long to be one is skipped, however long it is."""
    while True:
        try:
            line = await stream.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            line = end.partial
            if not line:
                return
        except asyncio.LimitOverrunError as too_long:
            await stream.readexactly(too_long.consumed)
            continue
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not on_line(text):
            others.append(text)
