"""How long `densevid train` takes to start on all of ActivityNet Captions, and how much memory it needs.

Features are generated in the release's layout (two .npy files a video) as sparse files; annotations are made up, unless
--annotations and --validation name the real ones.

Examples:
  densevid bench startup
  densevid bench startup --annotations train.json --validation val_1.json --workers 4
  densevid bench startup --share 0.01 --out layout
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid bench startup`."""
    parser.add_argument("--annotations", type=Path, metavar="FILE", help="the real training annotations")
    parser.add_argument("--validation", type=Path, metavar="FILE", help="the real validation annotations")
    parser.add_argument("--share", type=float, default=1.0, metavar="S", help="part of all videos to make up (1)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes that load features (2)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the layout here (default: delete it)")


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    from densevid.bench.startup import Scale, print_startup

    files = {"training": args.annotations, "validation": args.validation}
    print_startup(Scale(files, args.share), args.out, args.workers)
    return 0
