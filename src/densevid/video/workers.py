"""Worker processes that extract many videos at once; a file that crashes a decoder fails alone.

Each worker extracts one video at a time and saves it itself; only a short `Outcome` is sent back. `save` is an
argument, so that this layer does not depend on the feature store.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from densevid.device import share_memory
from densevid.errors import InputError, one_line
from densevid.tracks import FeatureTrack
from densevid.video.extract import Extractor

Save = Callable[[str, FeatureTrack], None]


@dataclass(frozen=True)
class Job:
    """A video to extract: its id in the store and its file."""

    video: str
    path: Path


@dataclass(frozen=True)
class Outcome:
    """The outcome of one video.

    Attributes:
        job: The video.
        seconds: Its duration.
        steps: Its length in steps.
        warning: Why it was only read in part, None if all of it was.
        error: Why it failed, None if it did not.
        is_fatal: Nothing more can be saved, so that going on is pointless.
    """

    job: Job
    seconds: float = 0.0
    steps: int = 0
    warning: str | None = None
    error: str | None = None
    is_fatal: bool = False


def extract_all(jobs: Sequence[Job], extractor: Extractor, save: Save, workers: int) -> Iterator[Outcome]:
    """Extract and save videos, several at a time.

    A worker that dies fails its video and is replaced. Ending the iteration ends the workers.

    Args:
        jobs: The videos.
        extractor: Extracts one of them; it is pickled for each worker.
        save: Called in the worker with the id and the track of each video; pickled too.
        workers: Number of processes.

    Yields:
        One outcome per job, as they are ready.
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
    """One worker process, seen from the parent."""

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
        theirs.close()  # so that the pipe closes when the worker ends

    def start(self, job: Job) -> None:
        """Send it a video; a worker that died in between is replaced once."""
        self.job = job
        if not self._process.is_alive():
            self._launch()
        try:
            self.connection.send(job)
        except OSError:
            self.connection.close()
            self._process.join()
            self._launch()
            with suppress(OSError):  # `outcome` finds the pipe closed and reports it
                self.connection.send(job)

    def outcome(self) -> Outcome:
        """Receive the outcome; a closed pipe means that the worker died."""
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
        """End the process."""
        self.connection.close()
        if self.job:
            self._process.terminate()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _work(connection: Connection, extractor: Extractor, save: Save) -> None:
    """The worker process: send one outcome per job until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    share_memory()
    _share_cores(extractor.threads)
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


def _share_cores(threads: int) -> None:
    """Keep torch to its share of the cores; the user's own OMP_NUM_THREADS is left alone."""
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # for torch if it is loaded later
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(threads)


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
