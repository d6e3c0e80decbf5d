r"""Make the model that comes with densevid, from clips to package files, one step after the other.

Choices are made on fifths of `train` (--on fold0 to fold4) and on `train-dev` (--on dev). `val` is scored once; a
second time is refused. The model is trained on all of `train`. A twin of the same training is trained on nine tenths of
it (`train-fit`); its confidence is fitted on the held-out tenth (`train-dev`), and the model takes it over. MSRVTT
holds clips.json and clips/*.mp4; STORE their two-stream features reduced to 512 (`densevid extract MSRVTT/clips --out S
--reduce 512 --fit-on MSRVTT/clips.json:train` writes S-512).

  python -m research.bundled_model data   --clips MSRVTT --features STORE --out DATA
  python -m research.bundled_model pixels --clips MSRVTT --features STORE --split train-dev --count 40 --out DEV
  python -m research.bundled_model pixels --clips MSRVTT --features STORE --split val --out VAL
  python -m research.bundled_model train  --data DATA --split train-fit --workers 2 --parallel 6 --out TWIN-RUNS
  python -m research.bundled_model pack   --run TWIN-RUNS/negatives --data DATA --timelines DEV --out TWIN
  python -m research.bundled_model score  --model TWIN --clips MSRVTT --features STORE --on dev \
      --timelines DEV --out SCORES
  python -m research.bundled_model train  --data DATA --workers 2 --parallel 6 --out RUNS
  python -m research.bundled_model pack   --run RUNS/negatives --twin TWIN --out MODEL
  python -m research.bundled_model score  --model MODEL --clips MSRVTT --features STORE --on val \
      --timelines VAL --videos VIDEOS --annotations train.json val_1.json val_2.json --out SCORES
  python -m research.bundled_model card   --model MODEL --twin TWIN --scores SCORES

A fold, with timelines that are composed of features (METEOR needs densevid[eval]):

  python -m research.bundled_model train  --data DATA --split train-but0 --workers 2 --parallel 6 --out RUNS0
  densevid timelines DATA --features DATA/features --split train-fold0 --videos 60 --out FOLD0
  python -m research.bundled_model score  --model RUNS0/negatives/model --clips MSRVTT --features STORE \
      --on fold0 --timelines FOLD0 --out SCORES
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from densevid.checkpoint import LoadedModel, load_model, model_files, save_model
from densevid.cli import run_program
from densevid.data.annotations import read_annotations
from densevid.data.layouts import open_features
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
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
from research.bundled_model.scores import FittedBaselines, ModelUnderTest, clip_scores, timeline_scores
from research.bundled_model.training import PRESET, StageInputs, train_bundled
from research.paper_tables.train_models import Machine

TRAINING, TWIN_TRAINING, DEVELOPMENT = "train", "train-fit", "train-dev"
SCORED = {  # the split that is scored, and the split that the model was trained on
    "dev": (DEVELOPMENT, TWIN_TRAINING),
    "val": ("val", TRAINING),
    **{f"fold{number}": (f"train-fold{number}", f"train-but{number}") for number in range(FOLDS)},
}
MOST_BYTES = 16_000_000  # of a file in the package
ANNOTATORS = 5
EACH, STILLS = 50, 200  # no-event training videos of each kind, and additional stills
CALIBRATED_ON, NEGATIVES_CALIBRATED_ON = 100, 40  # composed timelines beside those of real files


def make_data(args: argparse.Namespace) -> None:
    """Write the training data."""
    from research.bundled_model.data import write_bundled_data  # needs av, which training does not

    write_bundled_data(args.clips, args.features, args.out, args.each, args.stills)


def make_pixels(args: argparse.Namespace) -> None:
    """Write timelines as real video files, and their features."""
    from research.bundled_model.data import extract_alike

    generator = TimelineGenerator(ClipCollection.read(args.clips, pixels=True), args.split, seed=0)
    write_timelines(generator, args.count, args.out, ANNOTATORS, lambda video: print(video, flush=True))
    extract_alike([args.out / "videos"], args.out / "features", FeatureStore.open(args.features))


def make_runs(args: argparse.Namespace) -> None:
    """Train in five stages, RUNS/negatives the last; a stopped run resumes."""
    if args.parallel < 1:
        raise InputError(f"--parallel must be at least 1, got {args.parallel}")
    machine = Machine(args.device, args.parallel, args.workers)
    print(train_bundled(StageInputs(args.data, args.split, args.out, args.preset, machine)))


def pack(args: argparse.Namespace) -> None:
    """Write a run's model in half precision, with a confidence fitted on held-out timelines or its twin's."""
    fits = [args.data is not None, args.timelines is not None]
    if fits != [args.twin is None] * 2:
        raise InputError(
            "the confidence is fitted on --data and --timelines, or taken over from a --twin: give one of them"
        )
    trained = load_model(args.run / "model")
    borrowed = None if args.twin is None else _taken_over(trained, args.twin)
    for stale in (args.out / SCORES, args.out / CARD):
        stale.unlink(missing_ok=True)
    block = provenance(inputs=model_files(args.run / "model"), config_hash=trained.config.hash, command="bundled_model")
    save_model(args.out, trained, block, half_precision=True)
    loaded = load_model(args.out)  # rounded, as it will be used
    calibration = borrowed or _fitted(loaded, args)
    save_model(args.out, replace(loaded, calibration=calibration), block, half_precision=True)
    for file in model_files(args.out):
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file}: {file.stat().st_size / 1e6:.1f} MB, more than a file of the package may have")
        print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


def _fitted(loaded: LoadedModel, args: argparse.Namespace) -> dict[str, Any]:
    """The confidence of a model, fitted on timelines that it was not trained on."""
    tracks, truth = _held_out(args.data, args.timelines)
    return fit_calibration(Captioner(loaded, device=args.device or "cpu"), tracks, truth).as_table()


def _taken_over(loaded: LoadedModel, twin: Path) -> dict[str, Any]:
    """The confidence of the twin, a model of the same training on less data."""
    other = load_model(twin)
    if other.calibration is None or other.config.hash != loaded.config.hash:
        raise InputError(f"{twin}: is no twin: it has other settings, or no fitted confidence; pack it first")
    return dict(other.calibration)


def _held_out(data: Path, timelines: Path) -> tuple[dict[str, FeatureTrack], dict[str, list[Event]]]:
    """Timelines of real files, more that are composed of features, and no-event videos.

    Each no-event clip is a video of its own, too: a still that fills a whole video has no events either.
    """
    source = open_features(timelines / "features")
    truth = dict(read_annotations([timelines / "references_1.json"]).events)
    tracks = {video: source.track(video) for video in truth}
    collection = ClipCollection.read(data, features=data / "features")
    clips = ClipFeatures(collection, DEVELOPMENT)
    for clip in (clip.name for clip in collection.split(DEVELOPMENT) if not clip.captions):
        tracks[clip], truth[clip] = clips.track(clip), []
    generator = TimelineGenerator(collection, DEVELOPMENT, seed=1)
    more = [generator.video(index) for index in range(CALIBRATED_ON)]
    if len(generator.pool.negatives):
        more += [generator.negative_video(index) for index in range(NEGATIVES_CALIBRATED_ON)]
    for timeline in more:
        tracks[timeline.video] = timeline.track
        truth[timeline.video] = [Event(*timeline.plan.span(event), "") for event in timeline.plan.events]
    return tracks, truth


def score(args: argparse.Namespace) -> None:
    """Score a model, and write SCORES/dev.json, SCORES/val.json or SCORES/fold0.json."""
    from research.bundled_model.trials import caption_no_event_videos, caption_videos

    target, (split, trained_on) = args.out / f"{args.on}.json", SCORED[args.on]
    if args.on == "val" and target.exists():
        raise InputError(f"{target}: val is scored once; choices are made with --on dev")
    require_writable(target)
    collection = ClipCollection.read(args.clips, features=args.features)
    model, baselines = ModelUnderTest.of(args.model, args.device), FittedBaselines.from_clips(collection, trained_on)
    content: dict[str, Any] = {"split": split}
    content["training clips"], content["clip count"] = (len(collection.split(name)) for name in (trained_on, split))
    content["training hours"] = round(sum(clip.seconds for clip in collection.split(trained_on)) / 3600, 2)
    content["clips"] = clip_scores(model, baselines, collection, split)
    content["timelines"], content["timeline set"] = timeline_scores(model, baselines, args.timelines)
    photographs = [args.clips / "clips" / f"{clip.name}.mp4" for clip in collection.split(split)]
    drawn = args.out / f"no-events-{args.on}"
    content["no-event videos"] = caption_no_event_videos(args.model, drawn, photographs, args.each)
    if args.videos is not None:
        content["whole videos"] = caption_videos(args.model, args.videos, args.annotations)
    inputs = [*model_files(args.model), args.clips / "clips.json", args.timelines / "references_1.json"]
    write_json(target, {**content, "provenance": provenance(inputs=inputs, command="bundled_model score")})
    for part in ("clips", "timelines"):
        for row, numbers in content[part].items():
            print(f"{part}, {row}: {', '.join(f'{name} {value:.4g}' for name, value in numbers.items())}")
    counts = (f"{kind} {found['events']} events" for kind, found in content["no-event videos"].items())
    print("no-event videos:", ", ".join(counts))


def make_card(args: argparse.Namespace) -> None:
    """Write README.md and scores.json of the model folder."""
    for path in write_card(args.model, args.scores, args.twin):
        print(path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the steps and their flags."""
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
    parsers["data"].add_argument(
        "--each", type=int, default=EACH, metavar="N", help=f"no-event videos of each kind ({EACH})"
    )
    parsers["data"].add_argument(
        "--stills", type=int, default=STILLS, metavar="N", help=f"additional stills ({STILLS})"
    )
    parsers["pixels"].add_argument("--split", choices=(DEVELOPMENT, "val"), required=True)
    parsers["pixels"].add_argument("--count", type=int, default=60, metavar="N", help="timelines (60)")
    parsers["score"].add_argument("--on", choices=SCORED, required=True)
    parsers["score"].add_argument("--each", type=int, default=10, metavar="N", help="no-event videos of each kind (10)")
    parsers["score"].add_argument("--videos", type=Path, metavar="FOLDER", help="whole videos to caption")
    parsers["score"].add_argument("--annotations", type=Path, nargs="*", default=[], metavar="FILE")
    parsers["train"].add_argument("--workers", type=int, default=0, metavar="N", help="processes that compose (0)")
    parsers["train"].add_argument("--parallel", type=int, default=1, metavar="N", help="copies that train at once (1)")
    parsers["train"].add_argument("--split", default=TRAINING, metavar="NAME", help=f"what to train on ({TRAINING})")
    parsers["train"].add_argument("--preset", default=PRESET, help="a preset or a file with other settings (bundled)")
    for name in ("data", "timelines"):
        parsers["pack"].add_argument(f"--{name}", type=Path, metavar=name.upper(), help="what confidence is fitted on")
    twin = f"the packed model that was trained on {TWIN_TRAINING} and scored on dev"
    for name in ("pack", "card"):
        parsers[name].add_argument("--twin", type=Path, metavar="MODEL", help=twin)
    for name in ("train", "pack", "score"):
        parsers[name].add_argument("--device", help="cpu, cuda, ...")


def run(args: argparse.Namespace) -> int:
    """Do one of the steps."""
    args.run_step(args)
    return 0


def _add_paths(parsers: dict[str, argparse.ArgumentParser]) -> None:
    """The folders that each step needs."""
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
    sys.exit(run_program("python -m research.bundled_model", __doc__, add_arguments, run))
