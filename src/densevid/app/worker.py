"""One job from start to end: look at the file, caption it, and say in one line what went wrong if it did.

Both steps are processes of their own, so that nothing in a video can take the server down with it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

from densevid.app.job import FORMATS, STAGES, Job, State
from densevid.app.process import Outcome, run_process
from densevid.app.settings import Settings
from densevid.progress import duration

PROBE_SECONDS = 120.0
ATTEMPTS = 2  # a job whose process was killed from outside is tried once more
BAD_INPUT = 2  # the exit code of every densevid command for it


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
    command = settings.command(job.upload, job.folder, job.name)
    variables = {
        "DENSEVID_CACHE": str(job.cache),  # what is known of a video goes when its job goes
        "DENSEVID_MAX_PIXELS": str(settings.limits.pixels),  # a size can change behind what the probe has seen
    }
    outcome = await run_process(command, _progress_of(job), settings.limits.job_seconds, variables)
    if outcome.code == 0 and all(job.result(format).is_file() for format in FORMATS):
        job.end(State.DONE)
    else:
        _fail_or_repeat(job, outcome)


async def _probe(job: Job, settings: Settings) -> bool:
    """Learn what the file is; False if the job ends here because it is not a video, or too much of one."""
    found: list[dict[str, object]] = []

    def on_line(line: str) -> bool:
        told = _object_of(line)
        found.extend([told] if told else [])
        return told is not None

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
    """Bad input is told in the command's own line; a killed process is tried again, once."""
    if outcome.killed and job.attempts < ATTEMPTS:
        job.state = State.QUEUED
    elif outcome.killed:
        job.end(
            State.FAILED, f"the work on it was killed {job.attempts} times (signal {-outcome.code}): out of memory?"
        )
    elif outcome.code == BAD_INPUT and outcome.last_line:
        job.end(State.FAILED, _without_paths(job, outcome.last_line))
    else:
        job.end(State.FAILED, f"the work on it ended with exit code {outcome.code} and without a result")


def _progress_of(job: Job) -> Callable[[str], bool]:
    """Reads `{"stage": "decode", "done": 0.3}` lines into the job."""

    def on_line(line: str) -> bool:
        told = _object_of(line)
        stage, done = (told or {}).get("stage"), (told or {}).get("done")
        if isinstance(stage, str) and stage in STAGES and isinstance(done, (int, float)):
            job.advance(stage, float(done))
        return told is not None

    return on_line


def _object_of(line: str) -> dict[str, object] | None:
    if not line.startswith("{"):
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _without_paths(job: Job, line: str) -> str:
    """The line as the owner of the video may see it: with the name it came with, not with where it lies here."""
    told = line.removeprefix("densevid: ").replace(str(job.upload), job.name)
    return told.replace(str(job.folder.parent), "").removeprefix(f"{job.name}: ")
