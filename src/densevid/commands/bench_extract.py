"""Time extraction against a bare loop: PyAV decodes every frame of a file, then the same network in batches of 16.

Both sides take turns in the same run and the best round of each counts, so that the ratio means something on a busy
machine. The videos are made on the spot unless --videos names some; the 720p ones are made from them. With --probe,
instead: how much the motion stream adds, by linear probes for the category of each clip and for the actions that its
captions name, cross-validated by source video.

Examples:
  densevid bench extract
  densevid bench extract --videos clips/ --count 8 --rounds 3
  densevid bench extract --probe features --clips clips.json
"""

from __future__ import annotations

import argparse

from densevid.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid bench extract`."""
    parser.add_argument("--videos", metavar="VIDEO|FOLDER|LIST", nargs="+", help="time these (made on the spot)")
    parser.add_argument("--count", type=int, default=6, metavar="N", help="how many of them (6)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each side is timed (3)")
    parser.add_argument("--probe", metavar="STORE", help="probe the streams of this two-stream store instead")
    parser.add_argument("--clips", metavar="FILE", help="with --probe: JSON with the category and source of each clip")


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    if args.probe and not args.clips:
        raise InputError("--probe needs --clips FILE, which says the category of each clip")
    if args.probe:
        from densevid.bench.probe import print_probe

        print_probe(args.probe, args.clips)
    else:
        from densevid.bench.extract import print_figures

        print_figures(args.videos, args.count, args.rounds)
    return 0
