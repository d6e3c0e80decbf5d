"""Time densevid against a plain version of the same work, in one run, and print the figures.

Subjects:
  caption    captioning one video, against another checkout of densevid
  evaluate   the official evaluations, against a loop over pycocoevalcap
  extract    from video files to features, against decoding and networks one after the other
  inference  captioning, against one video at a time and every proposal over all steps
  segments   training with several segments a video, against one
  startup    the start of a training run on all of ActivityNet Captions, with sparse features
  train      training steps of the paper's configuration, against plain heads and float32

Examples:
  densevid bench evaluate --references val_1.json val_2.json --videos 200
  densevid bench extract --videos clips/
  densevid bench inference --videos 64
  densevid bench train --batch 256

`python -m benchmarks.SUBJECT` is the same as `densevid bench SUBJECT`; `--help` after a subject explains it.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from densevid.cli import run_program

SUBJECTS = ("caption", "evaluate", "extract", "inference", "segments", "startup", "train")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subject; its own flags are read by its module."""
    parser.add_argument("subject", nargs="?", choices=SUBJECTS, metavar="SUBJECT", help=f"one of {', '.join(SUBJECTS)}")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the flags of the subject")
    parser.set_defaults(program=parser.prog)


def run(args: argparse.Namespace) -> int:
    """Run one subject, or list them."""
    if args.subject is None:
        print(__doc__)
        return 0
    module = import_module(f"benchmarks.{args.subject}")
    program = f"{args.program} {args.subject}"
    return run_program(program, module.__doc__, module.add_arguments, module.run, args.arguments)


if __name__ == "__main__":
    sys.exit(run_program("python -m benchmarks", __doc__, add_arguments, run))
