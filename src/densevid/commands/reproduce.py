"""Fill the tables of the paper; runs `python -m research.paper_tables` from a checkout of the repository."""

from __future__ import annotations

import argparse

from densevid.commands.checkout import checkout_module, explain_absence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `research.paper_tables`."""
    module = checkout_module("research.paper_tables.__main__")
    if module is None:
        return explain_absence(parser, "research.paper_tables")
    parser.description = module.__doc__
    module.add_arguments(parser)
    parser.set_defaults(run_subject=module.run)
    return None


def run(arguments: argparse.Namespace) -> int:
    """Run it."""
    return int(arguments.run_subject(arguments) or 0)
