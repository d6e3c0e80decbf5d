"""One job from start to end: probe the file, caption it, and keep the error in one line if it fails.

Both steps are child processes, so that nothing in a video can take the server down. Their lines are read as they come;
their time is limited, and they are ended with all their children.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from densevid.app.job import FORMATS, STAGES, Job, State
from densevid.app.settings import Settings
from densevid.errors import ExitCode
from densevid.progress import duration

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
        """The last line of the output; empty if there is none."""
        return next((line for line in reversed(self.lines) if line.strip()), "")


OnLine = Callable[[str], bool]


async def run_process(command: list[str], on_line: OnLine, seconds: float, variables: Mapping[str, str]) -> Outcome:
    """Run a command to its end; it and its children are gone whichever way this ends.

    `on_line` gets each line that it writes to stderr and returns whether it understood it; the others are kept for the
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
    """End every process of the group, and read what they wrote."""
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


PROBE_SECONDS = 120.0
ATTEMPTS = 2  # a job whose process was killed from outside is tried once more


async def work_on(job: Job, settings: Settings) -> None:
    """Do the job; afterwards it is done, failed, or queued again because its process was killed."""
    job.begin()
    job.save()
    try:
        await _attempt(job, settings)
    except TimeoutError:
        job.end(State.FAILED, f"stopped: it took longer than {duration(settings.limits.job_seconds)}")
    except OSError as error:
        job.end(State.FAILED, f"the work on it could not be started ({error.strerror})")
    except asyncio.CancelledError:  # the server stops, or the owner has had enough: no fault of the video's
        job.state, job.attempts = State.QUEUED, job.attempts - 1
        raise
    finally:
        job.save()


async def _attempt(job: Job, settings: Settings) -> None:
    if not await _probe(job, settings):
        return
    job.save()
    command = settings.command(job.upload, job.folder, job.name) + job.choices.flags
    variables = {
        "DENSEVID_CACHE": str(job.cache),  # what is known of a video goes when its job goes
        "DENSEVID_MAX_PIXELS": str(settings.limits.pixels),  # a size can change behind what the probe has seen
    }
    outcome = await run_process(command, _progress_of(job), settings.limits.job_seconds, variables)
    if outcome.code in (ExitCode.DONE, ExitCode.PARTIAL) and all(job.result(format).is_file() for format in FORMATS):
        job.end(State.DONE)
    else:
        _fail_or_repeat(job, outcome)


async def _probe(job: Job, settings: Settings) -> bool:
    """Learn what the file is; False if the job ends here because it is not a video, or too much of one."""
    found: list[dict[str, object]] = []

    def on_line(line: str) -> bool:
        row = _object_of(line)
        found.extend([row] if row else [])
        return row is not None

    limits = settings.limits
    command = [sys.executable, "-m", "densevid.app.probe", str(job.upload), str(limits.pixels), str(limits.seconds)]
    outcome = await run_process(command, on_line, min(PROBE_SECONDS, limits.job_seconds), {})
    if outcome.code == 0 and found:
        job.learn(found[-1])
        job.advance(STAGES[0], 1.0)
        job.advance(STAGES[1], 0.0)
        return True
    _fail_or_repeat(job, outcome)
    return False


def _fail_or_repeat(job: Job, outcome: Outcome) -> None:
    """Fail with the command's own line for bad input; try a killed process once more."""
    if outcome.killed and job.attempts < ATTEMPTS:
        job.state = State.QUEUED
    elif outcome.killed:
        job.end(
            State.FAILED, f"the work on it was killed {job.attempts} times (signal {-outcome.code}): out of memory?"
        )
    elif outcome.code == ExitCode.INVALID and outcome.last_line:
        job.end(State.FAILED, _without_paths(job, outcome.last_line))
    else:
        job.end(State.FAILED, f"the work on it ended with exit code {outcome.code} and without a result")


def _progress_of(job: Job) -> Callable[[str], bool]:
    """Reads `{"stage": "decode", "done": 0.3}` lines into the job."""

    def on_line(line: str) -> bool:
        row = _object_of(line)
        stage, done = (row or {}).get("stage"), (row or {}).get("done")
        if isinstance(stage, str) and stage in STAGES and isinstance(done, (int, float)):
            job.advance(stage, float(done))
        return row is not None

    return on_line


def _object_of(line: str) -> dict[str, object] | None:
    if not line.startswith("{"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _without_paths(job: Job, line: str) -> str:
    """The line as the owner of the video may see it: with the name it came with, not with where it lies here."""
    row = line.removeprefix("densevid: ").replace(str(job.upload), job.name)
    return row.replace(str(job.folder.parent), "").removeprefix(f"{job.name}: ")
