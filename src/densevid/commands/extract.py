"""Turn videos into feature tracks: frames at exact times through a backbone, into a feature store.

Each input is a video file, a folder (searched for videos, its folders too) or a list (a .txt file, one path a line).
A video's id in the store is its file's name without suffix. A file that cannot be read is reported and never stops
the rest; one that can be read in part is used, and the report says how many seconds were lost. The whole report is
written to extract-report.json in the store.

Examples:
  densevid extract video.mp4 --out features
  densevid extract clips/ more/ --out features --backbone appearance --workers 4
  densevid extract list.txt --out features --resume          (after an interrupt, or to add videos)
  densevid extract clips/ --out features --resume --reduce 512 --fit-on clips.json:train
                                                             (also writes features-512, each stream 512 wide)
  densevid extract new.mp4 --out new --reduction features-512
  densevid extract video.mp4 --out mine --backbone my_module:my_function

Exit code: 0 every video is in the store; 1 some failed (they are listed); 2 none could be used; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from densevid.artifacts import provenance, read_json, write_json
from densevid.commands.progress import Progress
from densevid.data.feature_store import FeatureStore
from densevid.errors import InputError
from densevid.video.backbones import DEFAULT, backbone_names, find_backbone
from densevid.video.engines import Device, chosen_device
from densevid.video.extract import Extractor, usable_cores
from densevid.video.inputs import find_jobs
from densevid.video.reduction import FILE, Reduction, reduced
from densevid.video.workers import Job, Outcome, extract_all

REPORT = "extract-report.json"
FAILURES_SHOWN = 20
WORKERS_ON_A_GPU = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid extract`."""
    known = ", ".join(backbone_names())
    parser.add_argument("inputs", nargs="+", metavar="VIDEO|FOLDER|LIST", help="what to extract")
    parser.add_argument("--out", required=True, metavar="STORE", help="the feature store to write")
    parser.add_argument("--backbone", default=DEFAULT, metavar="NAME", help=f"{known} or module:function ({DEFAULT})")
    parser.add_argument("--every", type=float, default=0.5, metavar="SECONDS", help="seconds per step (.5)")
    parser.add_argument("--workers", type=int, metavar="N", help="videos at a time (one per core, 4 on a GPU)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where networks run (auto)")
    parser.add_argument("--dtype", choices=("float16", "float32"), default="float16", help="precision kept (float16)")
    parser.add_argument("--resume", action="store_true", help="add to an existing store what it does not have yet")
    parser.add_argument("--reduce", type=int, metavar="N", help="also write STORE-N, each stream reduced to N by PCA")
    parser.add_argument("--fit-on", metavar="IDS", help="ids to fit the PCA on: a list, or clips.json:SPLIT (all)")
    parser.add_argument("--reduction", metavar="PATH", help="reduce as an earlier --reduce did: its store or file")


def run(args: argparse.Namespace) -> int:
    """Extract everything that is named and not there yet."""
    if args.workers is not None and args.workers < 1:
        raise InputError(f"--workers must be at least 1, got {args.workers}")
    if args.reduce is not None and args.reduction:
        raise InputError("--reduce fits a new reduction, --reduction uses an old one; give one of them")
    jobs, fit_on = find_jobs(args.inputs), _ids_to_fit_on(args.fit_on)
    workers = min(args.workers or _usual_workers(args.device), len(jobs))
    extractor = _extractor(args, workers)
    store = FeatureStore.create(
        args.out,
        extractor.backbone.streams,
        dtype=args.dtype,
        recipe=extractor.recipe,
        provenance=provenance(command="extract"),
        resume=args.resume,
    )
    missing = [job for job in jobs if job.video not in store]
    outcomes = _extract(missing, extractor, store, workers)
    code = _report(store, jobs, outcomes)
    if args.reduce is not None and code != 2:
        _write_reduced(store, args.reduce, fit_on, args.resume)
    return code


def _usual_workers(device: Device) -> int:
    """One per core; a GPU is kept busy by few, and each holds some of its memory."""
    return min(usable_cores(), WORKERS_ON_A_GPU) if chosen_device(device) == "cuda" else usable_cores()


def _extractor(args: argparse.Namespace, workers: int) -> Extractor:
    backbone = find_backbone(args.backbone)
    if args.reduction:
        backbone = reduced(backbone, Reduction.load(args.reduction))
    threads = max(1, usable_cores() // workers)
    return Extractor(backbone, args.every, device=args.device, threads=threads, dtype=args.dtype)


def _extract(jobs: Sequence[Job], extractor: Extractor, store: FeatureStore, workers: int) -> list[Outcome]:
    """Run the workers and show how far they are."""
    sizes = {job.video: _size(job.path) for job in jobs}
    outcomes: list[Outcome] = []
    begin = time.monotonic()
    with Progress(sum(sizes.values())) as progress:
        for outcome in extract_all(jobs, extractor, store.add, workers):
            if outcome.is_fatal:
                raise InputError(f"{store}: {outcome.error}; make room and run it again with --resume")
            outcomes.append(outcome)
            failed = sum(one.error is not None for one in outcomes)
            speed = sum(one.seconds for one in outcomes) / (time.monotonic() - begin)
            text = f"{len(outcomes)} of {len(jobs)} videos, {failed} failed, {speed:.0f}x realtime"
            progress.advance(sizes[outcome.job.video], text)
    return outcomes


def _report(store: FeatureStore, jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> int:
    """Say what was done and what failed, write it down, and give the exit code."""
    store.refresh()
    failed = [outcome.error for outcome in outcomes if outcome.error]
    partial = [f"{outcome.job.path}: {outcome.warning}" for outcome in outcomes if outcome.warning]
    content = {
        "extracted": len(outcomes) - len(failed),
        "already_there": len(jobs) - len(outcomes),
        "seconds": sum(outcome.seconds for outcome in outcomes),
        "failed": failed,
        "read_in_part": partial,
        "provenance": provenance(recipe=store.recipe.id if store.recipe else None),
    }
    write_json(store.path / REPORT, content)
    for title, lines in (("read in part", partial), ("failed", failed)):
        for line in lines[:FAILURES_SHOWN]:
            print(f"densevid: {title}: {line}", file=sys.stderr)
        if len(lines) > FAILURES_SHOWN:
            print(f"densevid: {title}: {len(lines) - FAILURES_SHOWN} more, see {REPORT}", file=sys.stderr)
    counts = f"extracted {content['extracted']}, already there {content['already_there']}, failed {len(failed)}"
    print(f"{counts}: {store} holds {len(store)} videos")
    if failed and len(failed) == len(jobs):
        return 2
    return 1 if failed else 0


def _write_reduced(store: FeatureStore, kept: int, fit_on: set[str] | None, resume: bool) -> None:
    """The same videos, each stream reduced to `kept`, in a store beside the full one."""
    folder = store.path.with_name(f"{store.path.name}-{kept}")
    shares: dict[str, float] = {}
    if resume and (folder / FILE).is_file():
        reduction = Reduction.load(folder)
    else:
        fitted = [video for video in store.videos() if fit_on is None or video in fit_on]
        reduction, shares = Reduction.fit((store.track(video) for video in fitted), kept)
    assert store.recipe is not None
    recipe = reduction.recipe(store.recipe)
    small = FeatureStore.create(
        folder, reduction.streams, dtype=store.manifest.dtype, recipe=recipe, provenance=provenance(), resume=resume
    )
    reduction.save(folder / FILE)
    with small.writer(commit_every=64) as writer:
        for video in (video for video in store.videos() if video not in small):
            writer.add(video, reduction.apply_to_track(store.track(video), recipe))
    small.refresh()
    variance = "".join(f", {share:.1%} of the variance of {name}" for name, share in shares.items())
    print(f"{len(small)} videos reduced to {' + '.join(map(str, reduction.widths))}{variance}: {small}")


def _ids_to_fit_on(source: str | None) -> set[str] | None:
    """The ids in a text file (one a line) or a JSON file (its keys or items); `clips.json:train` takes one split."""
    if source is None:
        return None
    file, _, split = (source, "", "") if Path(source).exists() else source.rpartition(":")
    if Path(file).suffix != ".json":
        return set(Path(file).read_text(encoding="utf-8").splitlines())
    content = read_json(file)
    if isinstance(content, dict) and split:
        return {video for video, row in content.items() if isinstance(row, dict) and row.get("split") == split}
    return {video for video in content if isinstance(video, str)}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
