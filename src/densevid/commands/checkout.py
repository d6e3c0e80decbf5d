"""Verbs whose work lies beside the package, in `research/` and `benchmarks/`: found in a checkout, not installed."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import densevid
from densevid.errors import InputError


def add_checkout_arguments(parser: argparse.ArgumentParser, module: str) -> None:
    """Give a verb the arguments and the work of a module of the checkout that this package runs from.

    Where the package is installed alone, the verb takes any arguments and its error names the module.

    Args:
        parser: The parser of the verb.
        module: A module with `__doc__`, `add_arguments` and `run`, such as `research.paper_tables.__main__`.
    """
    root = Path(densevid.__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file() or not (root / module.partition(".")[0]).is_dir():
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
        parser.set_defaults(run_module=lambda _: _refuse(module.removesuffix(".__main__")))
        return
    if str(root) not in sys.path:
        sys.path.append(str(root))
    found = import_module(module)
    parser.description = found.__doc__
    found.add_arguments(parser)
    parser.set_defaults(run_module=found.run)


def run_checkout_module(arguments: argparse.Namespace) -> int:
    """Do the work of the module that `add_checkout_arguments` found."""
    return int(arguments.run_module(arguments) or 0)


def _refuse(module: str) -> int:
    raise InputError(
        f"this verb needs a checkout of the repository and is not part of the installed package; "
        f"clone the repository, `pip install -e .`, and run `python -m {module}` there"
    )
