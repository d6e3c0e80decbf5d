"""Fill the paper's tables: train every row, predict, score, and write Markdown, LaTeX, JSON and pictures.

TABLE is a number from 1 to 8, several with commas, or all. Models are shared between tables. Every finished step stays:
the same command resumes where it was stopped. --only does one step, so that models can be trained on a machine with a
GPU (torch, numpy and safetensors are enough) and scored elsewhere with a copy of OUT. The trivial baselines stand under
every table. --quick does everything with tiny models: a check of the machinery, not a result.

Examples:
  densevid reproduce all --data msvd-timelines --clips msvd/ --quick --out tried
  densevid reproduce 1,4,7 --data msvd-timelines --clips msvd/ --only train --parallel 4 --workers 3 --out results
  densevid reproduce 1,4,7 --data msvd-timelines --clips msvd/ --only predict --out results
  densevid reproduce 1,4,7 --data msvd-timelines --clips msvd/ --only score --out results
  densevid reproduce 8 --data msrvtt-timelines --clips msrvtt/ --features msrvtt-store --out results
  densevid reproduce 1 --data activitynet --annotations captions/ --features features/ --workers 8 --out results
  densevid reproduce all --data msvd-timelines --clips msvd/ --plan --out results       (what there is to train)

Written to OUT/DATA: tables/ (table-N.md, .tex, .json, .png, report.md), pages/ (ten videos, reference above
prediction), models/, predictions/ and their scores. docs/research/reproduction.md describes the protocol.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.errors import exit_code

if TYPE_CHECKING:
    from research.paper_tables.engine import Reproduction

STEPS = ("train", "predict", "time", "score")
DATA = ("msvd-timelines", "msrvtt-timelines", "activitynet", "youcook2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("table", metavar="TABLE", help="a number, several with commas, or all")
    add("--data", required=True, choices=DATA, help="what to train and evaluate on")
    add("--out", type=Path, required=True, metavar="DIR", help="where everything goes; models are shared there")
    add("--clips", type=Path, metavar="FOLDER", help="the clip collection, for timelines")
    add("--annotations", type=Path, metavar="FOLDER", help="the published annotation files")
    add("--features", type=Path, metavar="FOLDER", help="features; for timelines: those extracted from the clips")
    add("--seeds", type=int, metavar="N", help="seeds of every row (default: 3 in tables 1, 4 and 7, else 1)")
    add("--quick", action="store_true", help="tiny models, few steps: to see that all of it works")
    add("--only", choices=STEPS, help="one step alone")
    add("--rows", metavar="ROW,...", help="train and predict these rows alone")
    add("--plan", action="store_true", help="list the models and whether they are trained, and stop")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of every row")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda where there is one)")
    machine.add_argument("--parallel", type=int, default=1, metavar="N", help="runs that share the device (1)")
    machine.add_argument("--workers", type=int, default=0, metavar="N", help="loading processes of each run (0)")
    machine.add_argument("--threads", type=int, metavar="N", help="CPU threads of each run (default: torch's choice)")


def run(arguments: argparse.Namespace) -> int:
    """Do the steps, and report what is missing."""
    reproduction = _reproduction(arguments)
    if arguments.plan:
        print("\n".join(reproduction.plan()))
        return 0
    steps = [arguments.only] if arguments.only else STEPS
    done = [getattr(reproduction, step)() for step in ("train", "predict", "time") if step in steps]
    for path in reproduction.score() if "score" in steps else []:
        print(path)
    failed = [line for attempts in done for line in attempts.failed]
    if failed:
        _report(f"{len(failed)} failed: {failed[0]}")
    return exit_code(len(failed), sum(attempts.count for attempts in done))


def _reproduction(arguments: argparse.Namespace) -> Reproduction:
    from research.paper_tables.definitions import chosen_tables, datasets, require_differences
    from research.paper_tables.engine import Reproduction, Request
    from research.paper_tables.prepared_data import Inputs
    from research.paper_tables.train_models import Machine

    _check(arguments)
    dataset = datasets()[arguments.data]
    _check_inputs(arguments, dataset.family)
    tables = chosen_tables(arguments.table, dataset)
    only_rows = _names(arguments.rows)
    require_differences(tables, dataset, arguments.set, only_rows)
    request = Request(
        dataset=dataset,
        tables=tables,
        inputs=Inputs(arguments.clips, arguments.annotations, arguments.features),
        out=arguments.out,
        seeds=arguments.seeds,
        quick=arguments.quick,
        only_rows=only_rows,
        flags=tuple(arguments.set),
        machine=Machine(arguments.device, arguments.parallel, arguments.workers, arguments.threads),
    )
    return Reproduction(request, _report)


def _check(arguments: argparse.Namespace) -> None:
    from densevid.errors import InputError
    from research.paper_tables.definitions import rows

    for name, least in (("seeds", 1), ("parallel", 1), ("workers", 0), ("threads", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise InputError(f"--{name} must be at least {least}, got {value}")
    if arguments.rows is not None and not _names(arguments.rows):
        raise InputError("--rows: name at least one row")
    for row in _names(arguments.rows):
        if row not in rows():
            raise InputError(f"--rows: there is no row {row!r}; there are {', '.join(rows())}")


def _check_inputs(arguments: argparse.Namespace, family: str) -> None:
    """Refuse flags that would be ignored, and a device that does not exist, once for all models."""
    from densevid.errors import InputError
    from densevid.training.run import pick_device

    useless = "annotations" if family == "timelines" else "clips"
    if getattr(arguments, useless) is not None:
        needed = "--clips" if family == "timelines" else "--annotations and --features"
        raise InputError(f"--{useless}: --data {arguments.data} does not use it; it needs {needed}")
    if arguments.only != "score" and not arguments.plan:
        pick_device(arguments.device)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _report(line: str) -> None:
    print(f"densevid: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    from densevid.cli import run_program

    sys.exit(run_program("python -m research.paper_tables", __doc__, add_arguments, run))
