"""Time ours against the plain way, in one run, and print the figures.

  densevid bench evaluate --references val_1.json val_2.json --videos 200
  densevid bench extract --videos clips/
  densevid bench train --batch 256

`densevid bench SUBJECT --help` explains one subject.
"""

from __future__ import annotations

import argparse
from importlib import import_module

SUBJECTS = {
    "evaluate": ("densevid.commands.bench_evaluate", "the official evaluations, against a loop over pycocoevalcap"),
    "extract": ("densevid.bench.extract", "from video files to features, against a bare loop"),
    "train": ("densevid.bench.train", "training steps of the paper's configuration, against plain heads and float32"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subject; what follows is parsed by the subject's own module, the only one that is imported."""
    listing = "; ".join(f"{name}: {summary}" for name, (_, summary) in SUBJECTS.items())
    parser.add_argument("subject", choices=list(SUBJECTS), metavar="SUBJECT", help=listing)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the subject's own flags")


def run(arguments: argparse.Namespace) -> int:
    """Run one subject."""
    module = import_module(SUBJECTS[arguments.subject][0])
    parser = argparse.ArgumentParser(
        prog=f"densevid bench {arguments.subject}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(arguments.arguments)) or 0)
