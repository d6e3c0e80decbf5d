"""What `training.segments_per_video` saves: segments learnt from a second, with one and with several a video.

Examples:
  densevid bench segments
  densevid bench segments --together 2 4 --device cuda
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid bench segments`."""
    parser.add_argument("--together", type=int, nargs="+", default=[2, 4], metavar="N", help="segments a video (2 4)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is timed (3)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ... (cpu)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads (1)")


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    import torch

    from densevid.bench.segments import print_gain
    from densevid.training.run import pick_device

    torch.set_num_threads(max(1, args.threads))
    print_gain(tuple(args.together), args.rounds, pick_device(args.device))
    return 0
