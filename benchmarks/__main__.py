"""Time ours against the plain way, in one run, and print the figures.

  densevid bench evaluate --references val_1.json val_2.json --videos 200
  densevid bench extract --videos clips/
  densevid bench inference --videos 64
  densevid bench train --batch 256

`densevid bench SUBJECT --help` explains one subject.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

SUBJECTS = {
    "evaluate": "the official evaluations, against a loop over pycocoevalcap",
    "extract": "from video files to features, against decoding and networks one after the other",
    "inference": "captioning, against one video at a time and every proposal over all steps",
    "segments": "training with several segments a video, against one",
    "startup": "the start of a training run on all of ActivityNet Captions, with sparse features",
    "train": "training steps of the paper's configuration, against plain heads and float32",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a subject, from `benchmarks.SUBJECT`."""
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", required=True)
    for name, summary in SUBJECTS.items():
        module = import_module(f"benchmarks.{name}")
        sub = subjects.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(sub)
        sub.set_defaults(run_subject=module.run)


def run(args: argparse.Namespace) -> int:
    """Run one subject."""
    return int(args.run_subject(args) or 0)


if __name__ == "__main__":
    from densevid.cli import main

    sys.exit(main(["bench", *sys.argv[1:]]))
