"""Verbs whose work stands beside the package, in `research/` and `benchmarks/`: found in a checkout, not installed."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import densevid
from densevid.errors import InputError


def checkout_module(name: str) -> ModuleType | None:
    """The module `name` of the checkout that this package runs from; None where the package is installed alone."""
    root = Path(densevid.__file__).resolve().parents[2]
    if not (root / name.partition(".")[0]).is_dir() or not (root / "pyproject.toml").is_file():
        return None
    if str(root) not in sys.path:
        sys.path.append(str(root))
    return import_module(name)


def explain_absence(parser: argparse.ArgumentParser, module: str) -> None:
    """Take any arguments, and say where the work can be found when the verb runs."""
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=f"the arguments of `python -m {module}`")

    def refuse(_: argparse.Namespace) -> int:
        raise InputError(
            f"this runs from a checkout of the repository, which is not here: clone it, `pip install -e .`, "
            f"and run `python -m {module}` there"
        )

    parser.set_defaults(run_subject=refuse)
