r"""The model that comes with densevid, from clips to package files, one command after the other.

Choices are made on fifths of `train` (--on fold0 to fold4) and on `train-dev` (--on dev); `val` is scored once, and a
second time is refused. The model learns from all of `train`. Beside it stands a twin of the same training that learns
from nine tenths of it (`train-fit`): on the tenth that it has not seen (`train-dev`) its confidence is fitted, which
the model takes over. MSRVTT holds clips.json and clips/*.mp4; STORE their two-stream features reduced to 512
(`densevid extract MSRVTT/clips --out S --reduce 512 --fit-on MSRVTT/clips.json:train` writes S-512).

  python -m research.bundled_model data   --clips MSRVTT --features STORE --out DATA
  python -m research.bundled_model pixels --clips MSRVTT --features STORE --split train-dev --count 40 \
      --out DEV
  python -m research.bundled_model pixels --clips MSRVTT --features STORE --split val --out VAL
  python -m research.bundled_model train  --data DATA --split train-fit --workers 2 --parallel 6 \
      --out TWIN-RUNS
  python -m research.bundled_model pack   --run TWIN-RUNS/quiet --data DATA --timelines DEV --out TWIN
  python -m research.bundled_model score  --model TWIN --clips MSRVTT --features STORE --on dev \
      --timelines DEV --out SCORES
  python -m research.bundled_model train  --data DATA --workers 2 --parallel 6 --out RUNS
  python -m research.bundled_model pack   --run RUNS/quiet --twin TWIN --out MODEL
  python -m research.bundled_model score  --model MODEL --clips MSRVTT --features STORE --on val \
      --timelines VAL --videos VIDEOS --annotations train.json val_1.json val_2.json --out SCORES
  python -m research.bundled_model card   --model MODEL --twin TWIN --scores SCORES

A fold, with timelines that are composed of features (METEOR needs densevid[eval]):

  python -m research.bundled_model train  --data DATA --split train-but0 --workers 2 --parallel 6 --out RUNS0
  densevid timelines DATA --features DATA/features --split train-fold0 --videos 60 --out FOLD0
  python -m research.bundled_model score  --model RUNS0/quiet/model --clips MSRVTT --features STORE \
      --on fold0 --timelines FOLD0 --out SCORES
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from densevid.checkpoint import LoadedModel, load_model, model_files, save_model
from densevid.data.annotations import read_annotations
from densevid.data.layouts import open_features
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError, run_main
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.fitting.calibration import fit_calibration
from densevid.io import provenance, require_writable, write_json
from densevid.pipeline.model_registry import CARD, SCORES
from densevid.timelines.clips import FOLDS, ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.export import write_timelines
from densevid.timelines.sources import ClipFeatures
from densevid.tracks import FeatureTrack
from research.bundled_model.card import write_card
from research.bundled_model.scores import ModelUnderTest, Subject, clip_scores, timeline_scores
from research.bundled_model.training import PRESET, StageInputs, train_bundled
from research.paper_tables.train_models import Machine

LEARNT, FITTED, CHOSEN = "train", "train-fit", "train-dev"
JUDGED = {  # what scores are of, and what was learnt from
    "dev": (CHOSEN, FITTED),
    "val": ("val", LEARNT),
    **{f"fold{number}": (f"train-fold{number}", f"train-but{number}") for number in range(FOLDS)},
}
MOST_BYTES = 16_000_000  # of a file in the package
ANNOTATORS = 5
EACH, STILLS = 50, 200  # quiet videos of a kind that are learnt from, and photographs beside them
CALIBRATED_ON, QUIET_CALIBRATED_ON = 100, 40  # composed timelines beside those of real files


def make_data(args: argparse.Namespace) -> None:
    """The folder that is trained from."""
    from research.bundled_model.data import write_bundled_data  # reads files of video; training needs no av

    write_bundled_data(args.clips, args.features, args.out, args.each, args.stills)


def make_pixels(args: argparse.Namespace) -> None:
    """Timelines as real video files, and their features."""
    from research.bundled_model.data import extract_alike

    generator = TimelineGenerator(ClipCollection.read(args.clips, pixels=True), args.split, seed=0)
    write_timelines(generator, args.count, args.out, ANNOTATORS, lambda video: print(video, flush=True))
    extract_alike([args.out / "videos"], args.out / "features", FeatureStore.open(args.features))


def make_runs(args: argparse.Namespace) -> None:
    """Five sittings of training, RUNS/quiet the last; a stopped one goes on."""
    if args.parallel < 1:
        raise InputError(f"--parallel must be at least 1, got {args.parallel}")
    machine = Machine(args.device, args.parallel, args.workers)
    print(train_bundled(StageInputs(args.data, args.split, args.out, args.preset, machine)))


def pack(args: argparse.Namespace) -> None:
    """A run's model in half precision, with a confidence fitted on held-out timelines or its twin's; its card goes."""
    fits = [args.data is not None, args.timelines is not None]
    if fits != [args.twin is None] * 2:
        raise InputError("the confidence is fitted on --data and --timelines, or taken over from a --twin")
    trained = load_model(args.run / "model")
    borrowed = None if args.twin is None else _taken_over(trained, args.twin)
    for stale in (args.out / SCORES, args.out / CARD):
        stale.unlink(missing_ok=True)
    block = provenance(inputs=model_files(args.run / "model"), config_hash=trained.config.hash, command="bundled_model")
    save_model(args.out, trained, block, half_precision=True)
    loaded = load_model(args.out)  # as rounded as everybody will have it
    calibration = borrowed or _fitted(loaded, args)
    save_model(args.out, replace(loaded, calibration=calibration), block, half_precision=True)
    for file in model_files(args.out):
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file}: {file.stat().st_size / 1e6:.1f} MB, more than a file of the package may have")
        print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


def _fitted(loaded: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    """The confidence of a model on timelines that it has not learnt from."""
    tracks, truth = _held_out(args.data, args.timelines)
    return fit_calibration(Captioner(loaded, device=args.device or "cpu"), tracks, truth).as_table()


def _taken_over(loaded: LoadedModel, twin: Path) -> dict[str, Any]:
    """The confidence of a model of the same training that has not learnt from all of it."""
    other = load_model(twin)
    if other.calibration is None or other.config.hash != loaded.config.hash:
        raise InputError(f"{twin}: is no twin: it has other settings, or no confidence was fitted; pack it first")
    return dict(other.calibration)


def _held_out(data: Path, timelines: Path) -> tuple[dict[str, FeatureTrack], dict[str, list[Event]]]:
    """Timelines of real files, more that are composed of features, and some in which nothing happens.

    The quiet clips are there alone, too: of a photograph that fills a video nothing should be told either.
    """
    source = open_features(timelines / "features")
    truth = dict(read_annotations([timelines / "references_1.json"]).events)
    tracks = {video: source.track(video) for video in truth}
    collection = ClipCollection.read(data, features=data / "features")
    clips = ClipFeatures(collection, CHOSEN)
    for clip in (clip.name for clip in collection.split(CHOSEN) if not clip.captions):
        tracks[clip], truth[clip] = clips.track(clip), []
    generator = TimelineGenerator(collection, CHOSEN, seed=1)
    more = [generator.video(index) for index in range(CALIBRATED_ON)]
    if len(generator.pool.negatives):
        more += [generator.negative_video(index) for index in range(QUIET_CALIBRATED_ON)]
    for timeline in more:
        tracks[timeline.video] = timeline.track
        truth[timeline.video] = [Event(*timeline.plan.span(event), "") for event in timeline.plan.events]
    return tracks, truth


def score(args: argparse.Namespace) -> None:
    """Measure, and write SCORES/dev.json, SCORES/val.json or SCORES/fold0.json."""
    from research.bundled_model.trials import caption_no_event_videos, caption_videos

    target, (split, fitted) = args.out / f"{args.on}.json", JUDGED[args.on]
    if args.on == "val" and target.exists():
        raise InputError(f"{target}: val is scored once; choices are made with --on dev")
    require_writable(target)
    collection = ClipCollection.read(args.clips, features=args.features)
    subject, learnt = Subject.of(args.model, args.device), ModelUnderTest.from_clips(collection, fitted)
    content: dict[str, Any] = {"split": split}
    content["training clips"], content["clip count"] = (len(collection.split(name)) for name in (fitted, split))
    content["training hours"] = round(sum(clip.seconds for clip in collection.split(fitted)) / 3600, 2)
    content["clips"] = clip_scores(subject, learnt, collection, split)
    content["timelines"], content["timeline set"] = timeline_scores(subject, learnt, args.timelines)
    photographs = [args.clips / "clips" / f"{clip.name}.mp4" for clip in collection.split(split)]
    content["quiet"] = caption_no_event_videos(args.model, args.out / f"quiet-{args.on}", photographs, args.each)
    if args.videos is not None:
        content["whole videos"] = caption_videos(args.model, args.videos, args.annotations)
    inputs = [*model_files(args.model), args.clips / "clips.json", args.timelines / "references_1.json"]
    write_json(target, {**content, "provenance": provenance(inputs=inputs, command="bundled_model score")})
    for part in ("clips", "timelines"):
        for row, numbers in content[part].items():
            print(f"{part}, {row}: {', '.join(f'{name} {value:.4g}' for name, value in numbers.items())}")
    print("quiet:", ", ".join(f"{kind} {found['events']} events" for kind, found in content["quiet"].items()))


def make_card(args: argparse.Namespace) -> None:
    """README.md and scores.json of the model folder."""
    for path in write_card(args.model, args.scores, args.twin):
        print(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and do one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True, metavar="STEP")
    verbs: dict[str, Callable[[argparse.Namespace], None]] = {
        "data": make_data,
        "pixels": make_pixels,
        "train": make_runs,
        "pack": pack,
        "score": score,
        "card": make_card,
    }
    parsers = {name: steps.add_parser(name, help=verb.__doc__) for name, verb in verbs.items()}
    for name, verb in verbs.items():
        parsers[name].set_defaults(run_step=verb)
    _add_paths(parsers)
    parsers["data"].add_argument("--each", type=int, default=EACH, metavar="N", help="quiet videos of a kind")
    parsers["data"].add_argument("--stills", type=int, default=STILLS, metavar="N", help="more photographs that stay")
    parsers["pixels"].add_argument("--split", choices=(CHOSEN, "val"), required=True)
    parsers["pixels"].add_argument("--count", type=int, default=60, metavar="N", help="timelines (60)")
    parsers["score"].add_argument("--on", choices=JUDGED, required=True)
    parsers["score"].add_argument("--each", type=int, default=10, metavar="N", help="quiet videos of a kind (10)")
    parsers["score"].add_argument("--videos", type=Path, metavar="FOLDER", help="whole videos to caption")
    parsers["score"].add_argument("--annotations", type=Path, nargs="*", default=[], metavar="FILE")
    parsers["train"].add_argument("--workers", type=int, default=0, metavar="N", help="processes that compose (0)")
    parsers["train"].add_argument("--parallel", type=int, default=1, metavar="N", help="copies that learn at once (1)")
    parsers["train"].add_argument("--split", default=LEARNT, metavar="NAME", help=f"what to learn from ({LEARNT})")
    parsers["train"].add_argument("--preset", default=PRESET, help="a preset or a file with other settings (bundled)")
    for name in ("data", "timelines"):
        parsers["pack"].add_argument(f"--{name}", type=Path, metavar=name.upper(), help="what confidence is fitted on")
    twin = f"the packed model that learnt from {FITTED} and was scored on dev"
    for name in ("pack", "card"):
        parsers[name].add_argument("--twin", type=Path, metavar="MODEL", help=twin)
    for name in ("train", "pack", "score"):
        parsers[name].add_argument("--device", help="cpu, cuda, ...")
    args = parser.parse_args(arguments)
    args.run_step(args)
    return 0


def _add_paths(parsers: dict[str, argparse.ArgumentParser]) -> None:
    """The folders that each step reads and writes and cannot do without."""
    paths = {
        "data": ("clips", "features", "out"),
        "pixels": ("clips", "features", "out"),
        "train": ("data", "out"),
        "pack": ("run", "out"),
        "score": ("model", "clips", "features", "timelines", "out"),
        "card": ("model", "scores"),
    }
    for name, needed in paths.items():
        for path in needed:
            parsers[name].add_argument(f"--{path}", type=Path, required=True, metavar=path.upper())


if __name__ == "__main__":
    run_main(main)
