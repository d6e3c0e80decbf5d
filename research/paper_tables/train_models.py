"""Train the models that tables need, several at a time on one device, each resumable and done once.

Needs torch, numpy and safetensors alone. Each of several runs has a process of its own, so that one that is killed
takes no other with it. The messages of a run go to `train.log` in its folder; a run that fails is reported and the
others continue.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from threading import Thread
from typing import TypeVar

from densevid.device import describe_device
from densevid.errors import InputError, one_line
from densevid.io import provenance, write_json
from densevid.progress import duration
from densevid.training.logging import read_metrics
from densevid.training.run import TrainingJob, pick_device, train
from densevid.training.run_folder import RunFolder
from research.paper_tables.measure_models import write_gradient
from research.paper_tables.model_runs import TRAINED, ModelRun
from research.paper_tables.prepared_data import Files, PreparedData

LOG = "train.log"
LONGEST = 2000  # characters of an answer: it must fit in a pipe that nobody reads until the process has ended
Report = Callable[[str], None]
Item = TypeVar("Item")
Work = Callable[[Item], str | None]
Running = tuple[BaseProcess, Connection, Item]


@dataclass(frozen=True)
class Machine:
    """What to compute with: how many runs share the device, and what each has."""

    device: str | None = None
    parallel: int = 1
    workers: int = 0
    threads: int | None = None


@dataclass(frozen=True)
class Training:
    """One run with its files; picklable."""

    run: ModelRun
    training: Files
    validation: Files | None
    machine: Machine
    limit_steps: int | None = None

    def job(self) -> TrainingJob:
        """The job of `densevid train`."""
        return TrainingJob(
            config=self.run.config,
            training=self.training,
            validation=self.validation,
            out=self.run.folder,
            start_from=self.run.start_from.model if self.run.start_from else None,
            resume=True,
            device=self.machine.device,
            workers=self.machine.workers,
            limit_steps=self.limit_steps,
        )


def train_all(
    runs: Sequence[ModelRun], data: PreparedData, machine: Machine, limit: int | None, report: Report
) -> list[str]:
    """Train what is not trained yet, first the models that others start from; return a line for each failure."""
    failed: list[str] = []
    for wave in (False, True):
        todo = [run for run in runs if (run.start_from is not None) == wave and not _done(run)]
        trainings = [Training(run, data.training(run.row), data.validation(run.row), machine, limit) for run in todo]
        failed += _train_together(trainings, machine.parallel, report)
    return failed


def _done(run: ModelRun) -> bool:
    return run.trained is not None and (run.measured_gradient is not None or not run.row.gradient)


def _train_together(trainings: Sequence[Training], parallel: int, report: Report) -> list[str]:
    if not trainings:
        return []
    begun, failed = time.monotonic(), []
    for number, (training, error) in enumerate(finished(train_one, trainings, parallel), start=1):
        left = duration((time.monotonic() - begun) / number * (len(trainings) - number))
        state = f"failed ({error}; see {log_of(training.run)})" if error else "trained"
        report(f"{number} of {len(trainings)}: {training.run.name}: {state}, {left} left")
        failed += [f"{training.run.name}: {error}"] if error else []
    return failed


def train_one(training: Training) -> str | None:
    """Train one model to its end and record how long it took; return the error, if any."""
    import torch

    run, machine = training.run, training.machine
    if machine.threads is not None:
        torch.set_num_threads(machine.threads)
    try:
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        with _early_log(run).open("a", encoding="utf-8") as file, contextlib.redirect_stderr(file):
            if run.trained is None:
                train(training.job(), report=lambda line: print(line, file=sys.stderr, flush=True))
                write_json(run.folder / TRAINED, training_facts(training))
            if run.row.gradient and run.measured_gradient is None:
                write_gradient(run, training.training, machine.device)
    except Exception as error:  # of the device, of memory, of the disk: the others are tried all the same
        return note_failure(run, error)
    finally:
        _keep_log(run)
    return None


def note_failure(run: ModelRun, error: Exception) -> str:
    """Append the traceback of an error to the log of a run; return the error on one line."""
    with contextlib.suppress(OSError), log_of(run).open("a", encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
    text = one_line(error)
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"


def log_of(run: ModelRun) -> Path:
    """The file of a run's last messages."""
    return _early_log(run) if _early_log(run).exists() else run.folder / LOG


def _early_log(run: ModelRun) -> Path:
    """The log while a run starts: its folder must be empty then."""
    return run.folder.parent / f".seed-{run.seed}.log"


def _keep_log(run: ModelRun) -> None:
    """Move the log into the run's folder, once the run has started."""
    early = _early_log(run)
    if early.exists() and RunFolder(run.folder).config.exists():
        with contextlib.suppress(OSError), (run.folder / LOG).open("a", encoding="utf-8") as whole:
            whole.write(early.read_text(encoding="utf-8"))
            early.unlink()


def training_facts(training: Training) -> dict[str, object]:
    """How long the run took, over all its resumptions and without start-up, and on what device."""
    run = training.run
    rows = [row for row in read_metrics(RunFolder(run.folder).metrics) if row["seconds"]]
    rates = [float(row["samples_per_second"]) for row in rows if row["split"] == "training"]
    return {
        "row": run.row.name,
        "seed": run.seed,
        "seconds": total_seconds([float(row["seconds"]) for row in rows]),
        "steps": max((int(row["step"]) for row in rows), default=0),
        "samples_per_second": median(rates) if rates else None,
        "parallel": training.machine.parallel,
        "device": describe_device(pick_device(training.machine.device)),
        "provenance": provenance(config_hash=run.config.hash, model=run.hash),
    }


def total_seconds(seconds: Sequence[float]) -> float:
    """The sum over resumptions: the clock starts anew with each, so the last reading of every one counts."""
    ends = [now for now, later in zip(seconds, [*seconds, 0.0][1:], strict=True) if later < now]
    return sum(ends)


def finished(work: Work[Item], items: Sequence[Item], at_once: int) -> Iterator[tuple[Item, str | None]]:
    """Do the work for each item, one at a time in this process, or several at a time in processes of their own.

    Args:
        work: Returns what went wrong, or None.
        items: What to do it for.
        at_once: How many processes run at a time.

    Yields:
        Each item with its error, as they finish.
    """
    if at_once == 1:
        for item in items:
            yield item, work(item)
        return
    waiting, running = list(reversed(items)), dict[int, Running[Item]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                process, answer, item = _started(work, waiting.pop())
                running[process.sentinel] = process, answer, item
            ended = set(wait(list(running)))
            for sentinel in [one for one in running if one in ended]:
                process, answer, item = running.pop(sentinel)
                yield item, _outcome(process, answer)
    finally:
        for process, _, _ in running.values():  # only where this was left early: interrupted, or by an error
            process.terminate()


def _started(work: Work[Item], item: Item) -> Running[Item]:
    spawn = multiprocessing.get_context("spawn")
    answer, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_run, args=(work, item, sender, os.getpid()))  # no daemon: it may have workers
    process.start()
    sender.close()
    return process, answer, item


def _run(work: Work[Item], item: Item, sender: Connection, parent: int) -> None:
    end_with(parent)
    with suppress(KeyboardInterrupt):  # which the parent reports
        try:
            error = work(item)
        except Exception as failure:
            error = f"{type(failure).__name__}: {one_line(failure)}"
        sender.send(None if error is None else error[:LONGEST])


def _outcome(process: BaseProcess, answer: Connection) -> str | None:
    """The error that a process sent, or how it died before it could."""
    process.join()
    with answer, suppress(EOFError):
        error: str | None = answer.recv()
        return error
    code = process.exitcode or 0
    if code < 0:
        hint = ", as when memory runs out" if -code == signal.SIGKILL else ""
        return f"its process was killed by {signal.Signals(-code).name}{hint}"
    return f"its process ended with code {code}"


def end_with(parent: int) -> None:
    """Let this process end soon after its parent; otherwise a run whose command was killed would continue."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
