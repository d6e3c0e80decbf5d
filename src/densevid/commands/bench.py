"""Time ours against the plain way, in one run; runs `python -m benchmarks` from a checkout of the repository."""

from __future__ import annotations

import argparse

from densevid.commands.checkout import checkout_module, explain_absence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare one sub-command a subject."""
    module = checkout_module("benchmarks.__main__")
    if module is None:
        return explain_absence(parser, "benchmarks.SUBJECT")
    parser.description = module.__doc__
    module.add_arguments(parser)
    return None


def run(arguments: argparse.Namespace) -> int:
    """Run one subject."""
    return int(arguments.run_subject(arguments) or 0)
