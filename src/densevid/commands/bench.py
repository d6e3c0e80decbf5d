"""Time parts of densevid against plain versions of the same, in one run, and print the figures.

Examples:
  densevid bench extract
  densevid bench extract --help
"""

from __future__ import annotations

import argparse
from importlib import import_module

SUBJECTS = {
    "extract": "from video files to features, against a bare loop",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command for each subject."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True)
    for name, summary in SUBJECTS.items():
        module = import_module(f"densevid.bench.{name.replace('-', '_')}")
        sub = subjects.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(sub)
        sub.set_defaults(run_subject=module.run)


def run(args: argparse.Namespace) -> int:
    """Run the subject that was chosen."""
    return int(args.run_subject(args))
