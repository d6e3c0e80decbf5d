"""Time ours against the plain way, in one run.

  densevid bench extract --videos clips/

`densevid bench SUBJECT --help` explains one subject.
"""

from __future__ import annotations

import argparse
from importlib import import_module

SUBJECTS = {
    "extract": "from video files to features, against decoding and networks one after the other",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a subject, from `densevid.commands.bench_SUBJECT`; those modules import nothing heavy."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True)
    for name, summary in SUBJECTS.items():
        module = import_module(f"densevid.commands.bench_{name}")
        sub = subjects.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(sub)
        sub.set_defaults(run_subject=module.run)


def run(args: argparse.Namespace) -> int:
    """Run one subject."""
    return int(args.run_subject(args) or 0)
