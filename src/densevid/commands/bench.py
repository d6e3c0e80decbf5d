"""Time densevid against a plain version of the same work; runs `python -m benchmarks` of a checkout."""

from __future__ import annotations

import argparse

from densevid.commands.checkout import add_checkout_arguments, run_checkout_module

run = run_checkout_module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m benchmarks`."""
    add_checkout_arguments(parser, "benchmarks.__main__")
