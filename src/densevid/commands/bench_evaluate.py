"""Time `densevid evaluate` against a plain loop that calls pycocoevalcap for every video at every tIoU.

  densevid bench evaluate --references val_1.json val_2.json --videos 200
  densevid bench evaluate --references val_1.json val_2.json --predictions predictions.json

Without --predictions, sentences and times of the references are disturbed (the same way every time). Both run on the
same machine in the same run and nothing is cached, but for METEOR's paraphrase table, which is made once in the life of
an installation. On a machine that does other things too, the CPU seconds say more than the clock. The last column is
the largest difference between the numbers of the two.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from densevid.artifacts import provenance, require_writable, write_json
from densevid.errors import InputError

if TYPE_CHECKING:
    from densevid.bench.evaluate import Timing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subject."""
    add = parser.add_argument
    add("--references", nargs="+", required=True, metavar="FILE", help="one file an annotator")
    add("--predictions", metavar="FILE", help="event file; by default the references, disturbed")
    add("--videos", type=int, metavar="N", help="only the first N videos of the first reference file")
    add("--parts", default="captioning,soda,paragraph,proposals", metavar="PART,...", help="what to time")
    add("--json", metavar="OUT", help="write the times")


def run(args: argparse.Namespace) -> int:
    """Time, print, write."""
    from dataclasses import asdict

    from densevid.bench.evaluate import time_parts
    from densevid.evaluation.native.paraphrases import paraphrase_table
    from densevid.evaluation.report import Table, as_text

    parts = _parts(args)
    if args.json:
        require_writable(args.json)
    predictions, references = _files(args, parts)
    paraphrase_table()
    timings = time_parts(predictions, references, parts)
    header = ("part", "plain", "densevid", "times faster", "plain CPU", "densevid CPU", "less CPU", "difference")
    title = f"{len(references[0])} videos, seconds"
    print(as_text(Table(title, header, [_row(timing) for timing in timings])), end="")
    if args.json:
        inputs = [*args.references, *([args.predictions] if args.predictions else [])]
        write_json(args.json, {"timings": [asdict(t) for t in timings], "provenance": provenance(inputs=inputs)})
    return 0


def _parts(args: argparse.Namespace) -> list[str]:
    from densevid.bench.evaluate import PARTS

    parts = [part.strip() for part in args.parts.split(",") if part.strip()]
    wrong = [part for part in parts if part not in PARTS]
    if wrong or not parts:
        raise InputError(f"--parts {args.parts}: choose from {', '.join(PARTS)}")
    return list(dict.fromkeys(parts))


def _files(args: argparse.Namespace, parts: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Predictions and references of the first videos."""
    from densevid.bench.predictions import disturbed, plain_references, plain_results
    from densevid.evaluation.rows import read_predictions, read_references

    if args.videos is not None and args.videos < 1:
        raise InputError(f"--videos must be at least 1, got {args.videos}")
    references = [plain_references(read_references(path)) for path in args.references]
    videos = list(references[0])[: args.videos]
    references = [{video: file[video] for video in videos if video in file} for file in references]
    if args.predictions:
        results = plain_results(read_predictions(args.predictions), scored="proposals" in parts)
    else:
        results = disturbed(references)["results"]
    chosen = {video: results[video] for video in videos if video in results}
    if not any(chosen.values()) or not any(entry["sentences"] for entry in references[0].values()):
        raise InputError("nothing to time: the first reference file and the predictions share no video with events")
    return {"version": "", "external_data": {}, "results": chosen}, references


def _row(timing: Timing) -> tuple[str, ...]:
    plain, ours = timing.plain, timing.ours
    wall = (f"{plain.wall:.1f}", f"{ours.wall:.1f}", f"{plain.wall / ours.wall:.1f}x")
    cpu = (f"{plain.cpu:.1f}", f"{ours.cpu:.1f}", f"{plain.cpu / max(ours.cpu, 0.01):.1f}x")
    return timing.part, *wall, *cpu, f"{timing.largest_difference:.0e}"
