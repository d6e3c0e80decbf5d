"""Train the models that tables need, several at a time on one device, each resumable and done once.

Needs torch, numpy and safetensors alone. What a run says goes to `train.log` in its folder; a run that fails is told
and the others go on.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from densevid.device import describe_device
from densevid.errors import InputError, one_line
from densevid.io import provenance, write_json
from densevid.progress import duration
from densevid.training.logging import read_metrics
from densevid.training.run import TrainingJob, pick_device, train
from densevid.training.run_folder import RunFolder
from research.paper_tables.caption_gradient import write_gradient
from research.paper_tables.model_runs import TRAINED, ModelRun
from research.paper_tables.prepared_data import Files, PreparedData
from research.paper_tables.run_processes import finished

LOG = "train.log"
Report = Callable[[str], None]


@dataclass(frozen=True)
class Machine:
    """What to compute with: how many runs share the device, and what each has."""

    device: str | None = None
    parallel: int = 1
    workers: int = 0
    threads: int | None = None


@dataclass(frozen=True)
class Training:
    """One run with its files, as it travels to a process."""

    run: ModelRun
    training: Files
    validation: Files | None
    machine: Machine
    limit_steps: int | None = None

    def job(self) -> TrainingJob:
        """What `densevid train` would do."""
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
    """Train what is not trained yet, first those that others start from; what failed, a line each."""
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
    """Train one model to its end and note how long it took; what went wrong, if anything."""
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
    """Where an error came from goes to the log of a run, and what it is to the user, on one line."""
    with contextlib.suppress(OSError), log_of(run).open("a", encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
    text = one_line(error)
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"


def log_of(run: ModelRun) -> Path:
    """Where the last that a run said is."""
    return _early_log(run) if _early_log(run).exists() else run.folder / LOG


def _early_log(run: ModelRun) -> Path:
    """Where a run says it at first: its folder must be empty when it begins."""
    return run.folder.parent / f".seed-{run.seed}.log"


def _keep_log(run: ModelRun) -> None:
    """Put it where it belongs, once the run has begun."""
    early = _early_log(run)
    if early.exists() and RunFolder(run.folder).config.exists():
        with contextlib.suppress(OSError), (run.folder / LOG).open("a", encoding="utf-8") as whole:
            whole.write(early.read_text(encoding="utf-8"))
            early.unlink()


def training_facts(training: Training) -> dict[str, object]:
    """How long the run took, over all its sittings and without start-up, and on what."""
    run = training.run
    rows = [row for row in read_metrics(RunFolder(run.folder).metrics) if row["seconds"]]
    rates = [float(row["samples_per_second"]) for row in rows if row["split"] == "training"]
    return {
        "row": run.row.name,
        "seed": run.seed,
        "seconds": sitting_seconds([float(row["seconds"]) for row in rows]),
        "steps": max((int(row["step"]) for row in rows), default=0),
        "samples_per_second": median(rates) if rates else None,
        "parallel": training.machine.parallel,
        "device": describe_device(pick_device(training.machine.device)),
        "provenance": provenance(config_hash=run.config.hash, model=run.hash),
    }


def sitting_seconds(seconds: Sequence[float]) -> float:
    """The clock of a run starts anew with every sitting: the sum of the last reading of each."""
    ends = [now for now, later in zip(seconds, [*seconds, 0.0][1:], strict=True) if later < now]
    return sum(ends)
