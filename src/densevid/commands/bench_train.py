"""Time whole training steps of the paper's configuration beside an eager float32 version, in one run on one GPU.

A step is forward, backward, clipping and SGD over distinct videos already on the device, one segment of 20 words each,
dropout on. The model is the paper's: width 1024, hidden 2048, 2 layers, 480 steps, 3072 features, 18 kernels, gated
mask. Then the learner of `densevid train` is fed in three ways: from batches that are on the device, from features
that live there, and from a feature store that other processes read (a few GB in the folder for temporary files).

Examples:
  densevid bench train
  densevid bench train --batch 64 --steps 5 --json figures.json
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid bench train`."""
    parser.add_argument("--batch", type=int, default=256, help="videos a step (default 256)")
    parser.add_argument("--steps", type=int, default=10, help="timed steps (default 10)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only variants whose name contains this")
    parser.add_argument("--workers", type=int, default=8, help="processes that read the store (default 8)")
    parser.add_argument("--profile", action="store_true", help="list the kernels that take the most time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")


def run(args: argparse.Namespace) -> int:
    """Time every variant and print a table."""
    from densevid.bench.train import print_figures
    from densevid.errors import InputError

    for name, least in (("batch", 2), ("steps", 1), ("workers", 0)):
        if getattr(args, name) < least:
            raise InputError(f"--{name} must be at least {least}, got {getattr(args, name)}")

    print_figures(args.batch, args.steps, only=args.only, workers=args.workers, profile=args.profile, json=args.json)
    return 0
