"""Verbs whose work lies beside the package, in `research/` and `benchmarks/`: found in a checkout, not installed."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import densevid
from densevid.errors import InputError


def add_checkout_arguments(parser: argparse.ArgumentParser, module: str) -> None:
    """Give a verb the arguments and the work of a module of a checkout.

    It is the checkout that this package runs from, or else the current folder. Where neither is one, the verb takes any
    arguments and its error names the module.

    Args:
        parser: The parser of the verb.
        module: A module with `__doc__`, `add_arguments` and `run`, such as `research.paper_tables.__main__`.
    """
    root = _checkout(module.partition(".")[0])
    if root is None:
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
        parser.set_defaults(run_module=lambda _: _refuse(module.removesuffix(".__main__")))
        return
    if str(root) not in sys.path:
        sys.path.append(str(root))
    found = import_module(module)
    parser.description = found.__doc__
    found.add_arguments(parser)
    parser.set_defaults(run_module=found.run)


def _checkout(package: str) -> Path | None:
    """The root of a checkout that holds `package`, or None."""
    for root in (Path(densevid.__file__).resolve().parents[2], Path.cwd()):
        if (root / "src" / "densevid").is_dir() and (root / package / "__init__.py").is_file():
            return root
    return None


def run_checkout_module(arguments: argparse.Namespace) -> int:
    """Do the work of the module that `add_checkout_arguments` found."""
    return int(arguments.run_module(arguments) or 0)


def _refuse(module: str) -> int:
    raise InputError(
        f"this verb needs a checkout of the repository and is not part of the installed package; "
        f"clone the repository and give the command there, or run `python -m {module}`"
    )
