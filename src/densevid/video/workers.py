"""Many videos at once: one process per worker, so that a file that brings a decoder down takes only itself along.

Each worker takes one video at a time, extracts it and saves it itself; only a short outcome comes back. `save` is given
from outside, so this room need not know what a store is.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from densevid.errors import InputError, one_line
from densevid.tracks import FeatureTrack
from densevid.video.extract import Extractor

Save = Callable[[str, FeatureTrack], None]


@dataclass(frozen=True)
class Job:
    """A video that waits: its id in the store and its file."""

    video: str
    path: Path


@dataclass(frozen=True)
class Outcome:
    """What became of one video. `error`: it failed, and why; `warning`: it was read in part; `seconds`: its length."""

    job: Job
    seconds: float = 0.0
    steps: int = 0
    warning: str | None = None
    error: str | None = None
    is_fatal: bool = False  # nothing can be saved any more, so going on is pointless


def extract_all(jobs: Sequence[Job], extractor: Extractor, save: Save, workers: int) -> Iterator[Outcome]:
    """Extract and save every video, several at once; outcomes come as they are ready, one for every job.

    A worker that dies fails its video and is replaced. Ending the iteration ends the workers.
    """
    waiting = deque(jobs)
    crew = [_Worker(extractor, save) for _ in range(min(workers, len(jobs)))]
    try:
        for worker in crew:
            worker.start(waiting.popleft())
        while busy := {worker.connection: worker for worker in crew if worker.job}:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                yield worker.outcome()
                if waiting:
                    worker.start(waiting.popleft())
    finally:
        for worker in crew:
            worker.stop()


class _Worker:
    """The parent's side of one worker process."""

    def __init__(self, extractor: Extractor, save: Save) -> None:
        self._extractor, self._save = extractor, save
        self.job: Job | None = None
        self._launch()

    def _launch(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        arguments = (theirs, self._extractor, self._save)
        self._process = context.Process(target=_work, args=arguments, daemon=True, name="densevid-worker")
        self._process.start()
        theirs.close()  # so that the end of the worker is the end of the pipe

    def start(self, job: Job) -> None:
        """Give it a video; a worker that died in between is replaced once, after that the video fails as its own."""
        self.job = job
        if not self._process.is_alive():
            self._launch()
        try:
            self.connection.send(job)
        except OSError:
            self.connection.close()
            self._process.join()
            self._launch()
            with suppress(OSError):  # `outcome` finds the pipe at its end and says so
                self.connection.send(job)

    def outcome(self) -> Outcome:
        """What came back; a pipe that ends instead means that the worker died."""
        job, self.job = self.job, None
        assert job is not None
        try:
            outcome: Outcome = self.connection.recv()
        except (EOFError, OSError):
            self.connection.close()
            self._process.join()
            return Outcome(job, error=f"{job.path}: its worker died (exit code {self._process.exitcode})")
        return outcome

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.connection.close()
        if self.job:
            self._process.terminate()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _work(connection: Connection, extractor: Extractor, save: Save) -> None:
    """The worker's side: one outcome for every job, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    while True:
        try:
            job: Job = connection.recv()
        except (EOFError, OSError):
            return
        outcome = _attempt(job, extractor, save)
        try:
            connection.send(outcome)
        except OSError:  # the parent is gone
            return


def _attempt(job: Job, extractor: Extractor, save: Save) -> Outcome:
    try:
        track, warning = extractor.extract(job.path)
    except InputError as error:
        return Outcome(job, error=one_line(error))
    except Exception as error:
        return Outcome(job, error=f"{job.path}: {type(error).__name__}: {one_line(error)}")
    try:
        save(job.video, track)
    except InputError as error:
        return Outcome(job, error=f"{job.path}: {one_line(error)}")
    except OSError as error:
        return Outcome(job, error=f"cannot save: {error.strerror or one_line(error)}", is_fatal=True)
    return Outcome(job, track.duration or 0.0, len(track), warning)
