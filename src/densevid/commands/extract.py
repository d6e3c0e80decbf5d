"""Extract the features of videos into a feature store: frames at exact times through a backbone.

Each input is a video file, a folder (searched for videos, subfolders too) or a list (a .txt file, one path per line).
The id of a video in the store is its file name without suffix; if several videos of a folder share it, their paths
inside that folder. A file that cannot be read is reported and does not stop the others; of a damaged file the readable
part is extracted, and the report gives the seconds that were lost. The full report is written to extract-report.json
in the store.

Examples:
  densevid extract video.mp4 --out features
  densevid extract clips/ more/ --out features --backbone appearance --workers 4
  densevid extract list.txt --out features --resume          (after an interrupt, or to add videos)
  densevid extract clips/ --out features --resume --reduce 512 --fit-on clips.json:train
                                                             (also writes features-512, each stream 512 wide)
  densevid extract new.mp4 --out new --reduction features-512
  densevid extract clips/ --out features --backbone scenes-and-actions     (--fast leaves out the actions)
  densevid extract video.mp4 --out mine --backbone my_module:my_function

Exit code: 0 every video is in the store; 1 some failed or were damaged (they are listed), the rest is done; 2 wrong
usage, or no video could be extracted; 130 interrupted.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from densevid.data.extraction import REPORT, Extraction, ExtractionReport
from densevid.data.store.reader import FeatureStore
from densevid.device import share_memory
from densevid.errors import ExitCode, InputError, report
from densevid.io import provenance, read_json
from densevid.progress import Progress
from densevid.video.backbones import DEFAULT, Backbone, backbone_names, find_backbone
from densevid.video.extract import Extractor
from densevid.video.reduction import FILE, Reduction, reduced

FAILURES_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid extract`."""
    known = ", ".join(backbone_names())
    parser.add_argument("inputs", nargs="+", metavar="VIDEO|FOLDER|LIST", help="what to extract")
    parser.add_argument("--out", required=True, metavar="STORE", help="the feature store to write")
    parser.add_argument("--backbone", default=DEFAULT, metavar="NAME", help=f"{known} or module:function ({DEFAULT})")
    parser.add_argument("--every", type=float, default=0.5, metavar="SECONDS", help="seconds per step (.5)")
    parser.add_argument("--fast", action="store_true", help="leave out the actions of scenes-and-actions")
    parser.add_argument("--workers", type=int, metavar="N", help="videos at a time (1 per core, 4 on a GPU)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where networks run (auto)")
    parser.add_argument("--dtype", choices=("float16", "float32"), default="float16", help="precision (float16)")
    parser.add_argument("--resume", action="store_true", help="continue an existing store")
    parser.add_argument("--reduce", type=int, metavar="N", help="also write STORE-N, each stream reduced to N by PCA")
    parser.add_argument("--fit-on", metavar="IDS", help="ids to fit the PCA on: a list, or clips.json:SPLIT (all)")
    parser.add_argument("--reduction", metavar="PATH", help="apply the PCA of an earlier --reduce (store or file)")


def run(args: argparse.Namespace) -> ExitCode:
    """Extract the videos that the store does not have yet."""
    share_memory()
    _check_flags(args)
    fit_on = _ids_to_fit_on(args.fit_on)
    extraction = Extraction(args.inputs, args.workers, args.device)
    backbone = find_backbone(args.backbone)
    reduction = Reduction.load(args.reduction) if args.reduction else None
    if reduction:
        backbone = reduced(backbone, reduction)
    if args.reduce is not None:
        _check_width(args.reduce, backbone)
    if args.fast and backbone.continuous is None:
        raise InputError(f"--fast leaves out actions, and backbone {backbone.name} has none; leave out --fast")
    extractor = extraction.extractor(backbone, args.every, args.dtype, fast=args.fast)
    if fit_on is not None and not args.resume and fit_on.isdisjoint(job.video for job in extraction.jobs):
        raise InputError(f"--fit-on {args.fit_on}: there is no video to fit the reduction on among those named")
    store = extraction.open_store(args.out, extractor, resume=args.resume)
    if reduction:
        reduction.save(store.path / FILE)
    if extractor.notice:
        report(extractor.notice)
    _run_and_show(extraction, extractor)
    code = _print_report(extraction.report, store)
    if args.reduce is not None and code != ExitCode.INVALID:
        _write_reduced(store, args.reduce, fit_on, args.resume)
    return code


def _check_flags(args: argparse.Namespace) -> None:
    """Refuse flags that contradict each other."""
    if args.workers is not None and args.workers < 1:
        raise InputError(f"--workers must be at least 1, got {args.workers}")
    if args.reduce is not None and args.reduction:
        raise InputError("--reduce fits a new reduction, --reduction applies an old one; give one of them")
    if args.fit_on is not None and args.reduce is None:
        raise InputError("--fit-on chooses the videos that --reduce is fitted on; give --reduce N too")


def _check_width(kept: int, backbone: Backbone) -> None:
    narrowest = min(width for _, width in backbone.streams)
    if not 1 <= kept <= narrowest:
        raise InputError(f"--reduce {kept}: must be from 1 to {narrowest}, the width of a stream of {backbone.name}")


def _run_and_show(extraction: Extraction, extractor: Extractor) -> None:
    """Run the workers and show progress."""
    sizes = {job.video: _size(job.path) for job in extraction.missing}
    begin = time.monotonic()
    done = failed = 0
    seconds = 0.0
    with Progress(sum(sizes.values())) as progress:
        for outcome in extraction.run(extractor):
            done, failed, seconds = done + 1, failed + bool(outcome.error), seconds + outcome.seconds
            speed = seconds / (time.monotonic() - begin)
            text = f"{done} of {len(sizes)} videos, {failed} failed, {speed:.0f}x realtime"
            progress.advance(sizes[outcome.job.video], text)


def _print_report(done: ExtractionReport, store: FeatureStore) -> ExitCode:
    """Print what was extracted and what failed, and return the exit code."""
    for title, lines in (("read in part", done.read_in_part), ("failed", done.failed)):
        for line in lines[:FAILURES_SHOWN]:
            report(f"{title}: {line}")
        if len(lines) > FAILURES_SHOWN:
            report(f"{title}: {len(lines) - FAILURES_SHOWN} more, see {REPORT}")
    counts = f"extracted {done.extracted}, already there {done.already_there}, failed {len(done.failed)}"
    print(f"{counts}: {store} holds {len(store)} videos")
    if done.failed and len(done.failed) == done.named:
        return ExitCode.INVALID
    return ExitCode.PARTIAL if done.failed or done.read_in_part else ExitCode.DONE


def _write_reduced(store: FeatureStore, kept: int, fit_on: set[str] | None, resume: bool) -> None:
    """Write a second store with the same videos, each stream reduced to `kept` components."""
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
    """Ids from a text file (one per line) or a JSON file (keys or items); `clips.json:train` reads one split."""
    if source is None:
        return None
    whole = Path(source).exists() or ":" not in source
    file, _, split = (source, "", "") if whole else source.rpartition(":")
    if Path(file).suffix != ".json":
        try:
            return set(Path(file).read_text(encoding="utf-8").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InputError(f"--fit-on {file}: not a readable list of ids ({reason})") from error
    content = read_json(file)
    if isinstance(content, dict) and split:
        return {video for video, row in content.items() if isinstance(row, dict) and row.get("split") == split}
    return {video for video in content if isinstance(video, str)}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
