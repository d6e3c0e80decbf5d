"""Fill the tables of the paper; runs `python -m research.paper_tables` of a checkout."""

from __future__ import annotations

import argparse

from densevid.commands.checkout import add_checkout_arguments, run_checkout_module

run = run_checkout_module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m research.paper_tables`."""
    add_checkout_arguments(parser, "research.paper_tables.__main__")
