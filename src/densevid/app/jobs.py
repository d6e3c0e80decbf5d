"""The queue: all jobs, those that wait, those that run, and the folder in which they survive a restart.

An upload grows in `ID.part`, which is renamed to `ID` when it is whole. So what a killed server leaves behind is either
a job, which the next server takes up, or a `.part`, which it removes.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from densevid.app.job import VIDEO, Job, State, is_id, new_id
from densevid.app.settings import Choices, Settings
from densevid.app.worker import ATTEMPTS, work_on
from densevid.errors import InputError, one_line
from densevid.io import source_commit

PART = ".part"
RETRY_SECONDS = (5, 300)  # the shortest and the longest that a client has to wait


class QueueFull(Exception):
    """No more videos are taken now; `retry_after` is in how many seconds there may be a place."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("too many videos are waiting")
        self.retry_after = retry_after


class Jobs:
    """All jobs of one folder. Enter it to start the workers; leave it to stop them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = settings.folder
        self._jobs: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._uploads: dict[Path, int] = {}  # under way: their folders, and their announced sizes
        self._typical_seconds = 30.0
        self._something_waits = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._lock = -1

    async def __aenter__(self) -> Jobs:
        self._lock = _lock_folder(self.folder)
        await asyncio.to_thread(self._take_up)
        self._wake()
        loops = [self._work() for _ in range(self.settings.limits.workers)] + [self._sweep()]
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for task in (*self._tasks, *self._running.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._running.values(), return_exceptions=True)
        os.close(self._lock)

    def get(self, id: str) -> Job | None:
        """The job of that id, None if there is none."""
        return self._jobs.get(id)

    def position(self, job: Job) -> int:
        """How many come before it, counting itself: 1 is next, 0 does not wait."""
        return self._waiting.index(job) + 1 if job in self._waiting else 0

    @contextmanager
    def place(self, announced: int = 0) -> Iterator[Path]:
        """A place in the queue and a folder for an upload; whatever is not `add`ed by the end is removed."""
        if len(self._waiting) + len(self._uploads) >= self.settings.limits.waiting:
            shortest, longest = RETRY_SECONDS
            raise QueueFull(int(min(max(self._typical_seconds, shortest), longest)))
        part = self.folder / f"{new_id()}{PART}"
        self._uploads[part] = announced
        try:
            part.mkdir(mode=0o700)
            yield part
        finally:
            del self._uploads[part]
            shutil.rmtree(part, ignore_errors=True)

    def free_bytes(self) -> int:
        """Bytes of the disk that are left when all uploads under way are whole."""
        missing = (max(0, announced - _size(part / VIDEO)) for part, announced in self._uploads.items())
        return shutil.disk_usage(self.folder).free - sum(missing)

    def add(self, part: Path, name: str, size: int, choices: Choices | None = None) -> Job:
        """A whole upload becomes a job and waits for its turn."""
        Job(part, name, size, choices=choices or self.settings.choices).save()
        folder = part.with_suffix("")
        part.rename(folder)
        job = self._jobs[folder.name] = Job.load(folder)
        self._queue(job)
        return job

    async def remove(self, job: Job) -> None:
        """Stop a job if it runs, and forget all of it."""
        self._jobs.pop(job.id, None)
        if job in self._waiting:
            self._waiting.remove(job)
        if task := self._running.get(job.id):
            task.cancel()
            await asyncio.wait([task])
        await asyncio.to_thread(shutil.rmtree, job.folder, ignore_errors=True)

    def _take_up(self) -> None:
        """Read the jobs that an earlier server left; what is no whole job is removed."""
        source_commit()  # runs git once; every record has its answer
        for folder in self.folder.iterdir():
            if folder.name.endswith(PART):
                shutil.rmtree(folder, ignore_errors=True)
            elif is_id(folder.name):
                self._load(folder)
        for job in sorted(self._jobs.values(), key=lambda job: job.created):
            if job.state is State.RUNNING and job.attempts >= ATTEMPTS:  # it may be what took the server down
                job.end(State.FAILED, f"the server was stopped {job.attempts} times while it worked on this")
                job.save()
            elif not job.over:
                job.state = State.QUEUED
                self._waiting.append(job)

    def _load(self, folder: Path) -> None:
        """Load one job; remove it if its record cannot be read, as nobody could ask for it or delete it."""
        try:
            self._jobs[folder.name] = Job.load(folder)
        except InputError:
            shutil.rmtree(folder, ignore_errors=True)

    def _queue(self, job: Job) -> None:
        self._waiting.append(job)
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._something_waits.set()

    async def _work(self) -> None:
        """One worker: the first that waits, then the next."""
        while True:
            await self._something_waits.wait()
            if not self._waiting:
                self._something_waits.clear()
                continue
            job = self._waiting.popleft()
            begin = time.monotonic()
            task = self._running[job.id] = asyncio.create_task(work_on(job, self.settings))
            await asyncio.wait([task])
            del self._running[job.id]
            if not task.cancelled() and (error := task.exception()):
                job.end(State.FAILED, f"the server could not work on it ({one_line(error)})")
                with contextlib.suppress(OSError):  # a disk that is full may be what went wrong
                    job.save()
            if job.over:
                self._typical_seconds += (time.monotonic() - begin - self._typical_seconds) / 4
            elif job.id in self._jobs:  # its process was killed from outside, and its owner has not removed it
                self._queue(job)

    async def _sweep(self) -> None:
        """Remove what has been finished for long enough."""
        keep = self.settings.limits.keep_seconds
        while True:
            old = [job for job in self._jobs.values() if job.finished and time.time() - job.finished > keep]
            for job in old:
                await self.remove(job)
            await asyncio.sleep(min(60.0, keep / 4))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _lock_folder(folder: Path) -> int:
    """Make the folder, for its owner alone, and hold it against a second server."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"--work {folder}: cannot be used ({error.strerror})") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise InputError(f"--work {folder}: another `densevid serve` uses it; name another folder") from None
    return lock
