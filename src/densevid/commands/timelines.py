"""Compose untrimmed videos with dense captions from a collection of trimmed, captioned clips.

FOLDER holds clips.json, {clip: {"split", "seconds", "captions", "source"}}, and either features.npy (the rows of a clip
are first_row .. first_row + rows) or clips/CLIP.mp4. Clips without captions are background. Events lie as in real
videos of ActivityNet Captions; each event consists of one to five shots that a human sentence describes (overlapping
events share shots, so a span may have more), with other footage between events. The same seed gives the same set.
Written are DIR/features (a store) or DIR/videos/*.mp4, and DIR/references_1.json, references_2.json, ... in
ActivityNet's form, one per annotator. SPLIT-dev is a tenth of a split by source, SPLIT-fit the rest. docs/timelines.md
explains the method.

Examples:
  densevid timelines clips/ --split val --seed 0 --videos 100 --out val-timelines
  densevid timelines clips/ --split train-dev --videos 200 --out dev-timelines
  densevid timelines clips/ --split val --videos 20 --pixels --out val-videos    (real .mp4 files)
  densevid timelines clips/ --split val --single --out val-clips                 (single clips, uncomposed)
  densevid timelines clips/ --features store --split val --out val-timelines     (features from `densevid extract`)
  densevid timelines clips/ --split val --layouts my_annotations.json --out mine (layouts of that file)

Exit code: 0 the set is complete; 2 wrong usage, or the collection cannot be used; 130 interrupted (the same command
resumes).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from densevid.errors import InputError
from densevid.io import read_json
from densevid.progress import Progress
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.export import ABOUT, write_clips, write_timelines
from densevid.timelines.layouts import LayoutTable

DEFAULT_ANNOTATORS = 5
DEFAULT_VIDEOS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid timelines`."""
    parser.add_argument("folder", metavar="FOLDER", help="the clip collection")
    parser.add_argument("--split", required=True, metavar="NAME", help="which clips: a split of clips.json, or a part")
    parser.add_argument("--out", required=True, metavar="DIR", help="where the set is written")
    parser.add_argument("--videos", type=int, metavar="N", help="how many timelines (100)")
    parser.add_argument("--seed", type=int, metavar="N", help="another seed gives another set (0)")
    parser.add_argument("--annotators", type=int, metavar="N", help="reference files at most (5; with --single all)")
    parser.add_argument("--features", type=Path, metavar="STORE", help="features that were extracted from the clips")
    parser.add_argument("--pixels", action="store_true", help="write .mp4 files even if there are features")
    parser.add_argument("--single", action="store_true", help="do not compose: each clip is a video with one event")
    parser.add_argument("--layouts", metavar="FILE", help="take the layouts of events from this annotation file")


def run(args: argparse.Namespace) -> int:
    """Write the set and print its size."""
    for flag in ("videos", "annotators"):
        if getattr(args, flag) is not None and getattr(args, flag) < 1:
            raise InputError(f"--{flag} must be at least 1, got {getattr(args, flag)}")
    unused = [flag for flag in ("videos", "seed", "layouts") if args.single and getattr(args, flag) is not None]
    if unused:
        raise InputError(f"--{unused[0]} is for composed timelines, not for --single")
    collection = ClipCollection.read(args.folder, pixels=args.pixels, features=args.features)
    out = Path(args.out)
    if args.single:
        if collection.features is None:
            raise InputError(f"{args.folder}: has no features.npy; its clips are in {args.folder}/clips")
        total = len(collection.split(args.split))
        with Progress(total) as progress:
            write_clips(collection, args.split, out, args.annotators, _counted(progress, total))
    else:
        layouts = LayoutTable.from_annotations(args.layouts) if args.layouts else None
        generator = TimelineGenerator(collection, args.split, args.seed or 0, layouts=layouts)
        videos, annotators = args.videos or DEFAULT_VIDEOS, args.annotators or DEFAULT_ANNOTATORS
        with Progress(videos) as progress:
            write_timelines(generator, videos, out, annotators, _counted(progress, videos))
    _report(out)
    return 0


def _counted(progress: Progress, total: int) -> Callable[[str], None]:
    count = iter(range(1, total + 1))
    return lambda video: progress.advance(1, f"{next(count):,} of {total:,} videos")


def _report(out: Path) -> None:
    about = read_json(out / ABOUT)
    contents, duplicates = about["contents"], about.get("near_duplicates")
    print(
        f"{out}: {contents['videos']:,} videos, {contents['events']:,} events, {contents['hours']} hours,"
        f" {contents['reference_files']} reference files"
    )
    if duplicates:
        pairs = ", ".join(f"{pair['clip']} ~ {pair['other']} ({pair['similarity']})" for pair in duplicates[:3])
        print(f"{len(duplicates)} of the split's clips look like clips of another split: {pairs}")
    elif duplicates is not None:
        print("no clip of the split looks like one of another split")
