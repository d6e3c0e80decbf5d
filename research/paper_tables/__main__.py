"""Fill the paper's tables: train every row, predict, score, and write Markdown, LaTeX, JSON and pictures.

TABLE is a number from 1 to 8, several with commas, or all. Models are shared between tables. Every finished step stays:
the same command goes on where it was stopped, and --only does a part of it, so that models can be trained on a machine
with a GPU (torch, numpy and safetensors are enough), OUT carried back, and scored elsewhere. The trivial baselines
stand under every table. --quick is the same with tiny models: a check of the machinery, not a result.

Examples:
  densevid reproduce all --data msvd-timelines --clips msvd/ --quick --out tried
  densevid reproduce 1,4,7 --data msvd-timelines --clips msvd/ --only train --parallel 4 --workers 3 --out results
  densevid reproduce 1,4,7 --data msvd-timelines --clips msvd/ --only predict --out results
  densevid reproduce 1,4,7 --data msvd-timelines --clips msvd/ --only score --out results
  densevid reproduce 8 --data msrvtt-timelines --clips msrvtt/ --features msrvtt-store --out results
  densevid reproduce 1 --data activitynet --annotations captions/ --features features/ --workers 8 --out results
  densevid reproduce all --data msvd-timelines --clips msvd/ --plan --out results       (what there is to train)

Written to OUT/DATA: tables/ (table-N.md, .tex, .json, .png, report.md), pages/ (ten videos, reference above
prediction), models/, predictions/ and their scores. docs/research/reproduction.md tells the protocol.
Exit code: 0 done; 2 something cannot be used, or a row failed (the others are done).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from research.paper_tables.engine import Reproduction

STEPS = ("train", "predict", "time", "score")
DATA = ("msvd-timelines", "msrvtt-timelines", "activitynet", "youcook2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
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
    add("--plan", action="store_true", help="say which models there are and which are trained, and stop")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of every row")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda where there is one)")
    machine.add_argument("--parallel", type=int, default=1, metavar="N", help="runs that share the device (1)")
    machine.add_argument("--workers", type=int, default=0, metavar="N", help="loading processes of each run (0)")
    machine.add_argument("--threads", type=int, metavar="N", help="CPU threads of each run (default: torch's choice)")


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked for, and say what is missing."""
    reproduction = _reproduction(arguments)
    if arguments.plan:
        print("\n".join(reproduction.plan()))
        return 0
    steps = [arguments.only] if arguments.only else STEPS
    failed = reproduction.train() if "train" in steps else []
    failed += reproduction.predict() if "predict" in steps else []
    failed += reproduction.time() if "time" in steps else []
    for path in reproduction.score() if "score" in steps else []:
        print(path)
    if failed:
        from densevid.errors import InputError

        raise InputError(f"{len(failed)} failed: {failed[0]}")
    return 0


def _reproduction(arguments: argparse.Namespace) -> Reproduction:
    from research.paper_tables.changed_settings import require_differences
    from research.paper_tables.definitions import chosen_tables, datasets
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
    return Reproduction(request, _say)


def _check(arguments: argparse.Namespace) -> None:
    from densevid.errors import InputError
    from research.paper_tables.definitions import rows

    for name, least in (("seeds", 1), ("parallel", 1), ("workers", 0), ("threads", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise InputError(f"--{name} must be at least {least}, got {value}")
    if arguments.rows is not None and not _names(arguments.rows):
        raise InputError("--rows: names no row")
    for row in _names(arguments.rows):
        if row not in rows():
            raise InputError(f"--rows: there is no row {row!r}; there are {', '.join(rows())}")


def _check_inputs(arguments: argparse.Namespace, family: str) -> None:
    """What would be ignored is refused, and a device that is not there, once for all models."""
    from densevid.errors import InputError
    from densevid.training.run import pick_device

    useless = "annotations" if family == "timelines" else "clips"
    if getattr(arguments, useless) is not None:
        needed = "--clips" if family == "timelines" else "--annotations and --features"
        raise InputError(f"--{useless}: --data {arguments.data} has no use for it; it is made of {needed}")
    if arguments.only != "score" and not arguments.plan:
        pick_device(arguments.device)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _say(line: str) -> None:
    print(f"densevid: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    from densevid.cli import run_program

    sys.exit(run_program("python -m research.paper_tables", __doc__, add_arguments, run))
