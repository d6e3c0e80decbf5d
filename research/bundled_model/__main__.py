r"""Make the model that comes with densevid, from clips to package files, one step after the other.

Choices are made on fifths of `train` (--on fold0 to fold4). `val` is scored once; a second time is refused. The model
is trained on four fifths of `train`; the fifth gives it both confidences, that of sentences with held-out pictures of
further collections.
MSRVTT holds clips.json and clips/*.mp4; STORE the features of its clips (`densevid extract MSRVTT/clips --out STORE
--backbone scenes-and-actions`); CAPTIONED further collections.

  python -m research.bundled_model data   --clips MSRVTT --features STORE --out DATA
  python -m research.bundled_model pixels --clips MSRVTT --features STORE --split val --out VAL
  python -m research.bundled_model train  --data DATA --captions CAPTIONED/* --split train-but01 --until words \
      --out FIRST
  python -m research.bundled_model train  --data DATA --captions CAPTIONED/* --split train-but0 \
      --from FIRST/words/model --out RUNS
  densevid timelines DATA --features DATA/features --split train-fold0 --videos 60 --out FOLD0
  python -m research.bundled_model pack   --run RUNS/negatives --data DATA --timelines FOLD0 --out MODEL
  python -m research.bundled_model sentences --found 0=MODEL --given 0=MODEL --data DATA \
      --captions CAPTIONED/{coco,flickr8k,msrvtt_frames} --model MODEL
  python -m research.bundled_model score  --model MODEL --clips MSRVTT --features STORE --on fold0 --timelines FOLD0 \
      --out SCORES
  python -m research.bundled_model score  --model MODEL --clips MSRVTT --features STORE --on val --timelines VAL \
      --other 0.1 research/bundled_model/first FIRST_FEATURES --plain PLAIN/words/model \
      --pictures CAPTIONED/coco --videos VIDEOS \
      --annotations train.json val_1.json val_2.json --out SCORES
  python -m research.bundled_model card   --model MODEL --scores SCORES

The plain captioner is a run of the first stage alone, of pictures without tags or actions:

  python -m research.bundled_model train  --data DATA --captions CAPTIONED/* --split train-but0 --until words \
      --set model.tags=0 --set training.stream_dropout=0.99 --out PLAIN
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from densevid.checkpoint import load_model, model_files, save_model
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
from densevid.timelines.captions import CaptionFolder
from densevid.timelines.clips import FOLDS, ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.export import write_timelines
from densevid.timelines.sources import ClipFeatures
from densevid.tracks import FeatureTrack
from research.bundled_model.card import write_card
from research.bundled_model.scores import FittedBaselines, ModelUnderTest, timeline_scores
from research.bundled_model.sentence_scores import PLAIN, OtherModel, clip_scores, clip_source, picture_scores
from research.bundled_model.training import PRESET, STAGES, WEIGHTS_OF_COLLECTIONS, StageInputs, train_bundled
from research.paper_tables.train_models import Machine

TRAINING, DEVELOPMENT = "train-but0", "train-fold0"
SCORED = {  # the split that is scored, and the split that the model was trained on
    "val": ("val", TRAINING),
    **{f"fold{number}": (f"train-fold{number}", f"train-but{number}") for number in range(FOLDS)},
}
MOST_BYTES = 16_000_000  # of a file in the package
ANNOTATORS = 5
PICTURES = 1000  # of a collection that are captioned
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
    folders = [CaptionFolder(path, WEIGHTS_OF_COLLECTIONS.get(path.name, 1.0)) for path in args.captions]
    inputs = StageInputs(args.data, args.split, args.out, args.preset, tuple(folders), tuple(args.set), machine)
    print(train_bundled(inputs, until=args.until, start_from=args.start_from))


def pack(args: argparse.Namespace) -> None:
    """Write a run's model in half precision, with a confidence of events fitted on held-out timelines."""
    trained = load_model(args.run / "model")
    _remove_card(args.out)
    block = provenance(inputs=model_files(args.run / "model"), config_hash=trained.config.hash, command="bundled_model")
    save_model(args.out, trained, block, half_precision=True)
    loaded = load_model(args.out)  # rounded, as it will be used
    tracks, truth = _held_out(args.data, args.timelines)
    calibration = fit_calibration(Captioner(loaded, device=args.device or "cpu"), tracks, truth).as_table()
    save_model(args.out, replace(loaded, calibration=calibration), block, half_precision=True)
    for file in model_files(args.out):
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file}: {file.stat().st_size / 1e6:.1f} MB, more than a file of the package may have")
        print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


def _remove_card(folder: Path) -> None:
    """The card and the scores of a model are of its files as they were."""
    for stale in (folder / SCORES, folder / CARD):
        stale.unlink(missing_ok=True)


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


def fit_sentences(args: argparse.Namespace) -> None:
    """Fit the confidence of sentences on held-out folds, and add it to model folders."""
    from research.bundled_model.sentences import fitted_sentence_confidence, fold_of, sentence_figures

    captions = [CaptionFolder(path) for path in args.captions]
    table = fitted_sentence_confidence([*map(fold_of, args.found)], [*map(fold_of, args.given)], args.data, captions)
    for folder in args.model:
        loaded = load_model(folder)
        block = provenance(inputs=model_files(folder), config_hash=loaded.config.hash, command="bundled_model")
        _remove_card(folder)
        save_model(folder, replace(loaded, sentence_confidence=table), block, half_precision=True)
    print(sentence_figures(table))


def score(args: argparse.Namespace) -> None:
    """Score a model, and write SCORES/val.json or SCORES/fold0.json."""
    from research.bundled_model.trials import caption_no_event_videos, caption_videos

    target, (split, trained_on) = args.out / f"{args.on}.json", SCORED[args.on]
    if args.on == "val" and target.exists():
        raise InputError(f"{target}: val is scored once; choices are made with --on fold0")
    require_writable(target)
    collection = ClipCollection.read(args.clips, features=args.features)
    model, baselines = ModelUnderTest.of(args.model, args.device), FittedBaselines.from_clips(collection, trained_on)
    content: dict[str, Any] = {"split": split}
    content["training clips"], content["clip count"] = (len(collection.split(name)) for name in (trained_on, split))
    content["training hours"] = round(sum(clip.seconds for clip in collection.split(trained_on)) / 3600, 2)
    others = {
        name: OtherModel(load_model(Path(folder)), clip_source(args.clips, Path(features), split))
        for name, folder, features in args.other
    }
    if args.plain is not None:
        others[PLAIN] = OtherModel(load_model(args.plain), clip_source(args.clips, args.features, split))
    content["clips"] = clip_scores(model.loaded, baselines, collection, split, others)
    if args.pictures is not None:
        content["pictures"] = {args.pictures.name: picture_scores(model.loaded, args.pictures, PICTURES)}
    content["timelines"], content["timeline set"] = timeline_scores(model, baselines, args.timelines)
    photographs = [args.clips / "clips" / f"{clip.name}.mp4" for clip in collection.split(split)]
    drawn = args.out / f"no-events-{args.on}"
    content["no-event videos"] = caption_no_event_videos(args.model, drawn, photographs, args.each)
    if args.videos is not None:
        content["whole videos"] = caption_videos(args.model, args.videos, args.annotations)
    inputs = [*model_files(args.model), args.clips / "clips.json", args.timelines / "references_1.json"]
    write_json(target, {**content, "provenance": provenance(inputs=inputs, command="bundled_model score")})
    for part, table in (("clips", content["clips"]["scores"]), ("timelines", content["timelines"])):
        for row, numbers in table.items():
            print(f"{part}, {row}: {', '.join(f'{name} {value:.4g}' for name, value in numbers.items())}")
    counts = (f"{kind} {found['events']} events" for kind, found in content["no-event videos"].items())
    print("no-event videos:", ", ".join(counts))


def make_card(args: argparse.Namespace) -> None:
    """Write README.md and scores.json of the model folder."""
    for path in write_card(args.model, args.scores):
        print(path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the steps and their flags."""
    steps = parser.add_subparsers(required=True, metavar="STEP")
    verbs: dict[str, Callable[[argparse.Namespace], None]] = {
        "data": make_data,
        "pixels": make_pixels,
        "train": make_runs,
        "pack": pack,
        "sentences": fit_sentences,
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
    other = "another model with the features that it reads of the same clips, and the name of its row"
    parsers["score"].add_argument(
        "--other", nargs=3, action="append", default=[], metavar=("NAME", "MODEL", "FEATURES"), help=other
    )
    parsers["score"].add_argument("--plain", type=Path, metavar="MODEL", help="the plain captioner, to compare with")
    pictures = f"captioned pictures, {PICTURES} of whose val split are captioned in their own style"
    parsers["score"].add_argument("--pictures", type=Path, metavar="FOLDER", help=pictures)
    for kind, what in (("found", "finds events itself"), ("given", "captions whole clips")):
        text = f"a model that has not seen a fold, and {what}"
        parsers["sentences"].add_argument(f"--{kind}", nargs="+", default=[], metavar="FOLD=MODEL", help=text)
    written = "the model folders that get the confidence"
    parsers["sentences"].add_argument("--model", type=Path, nargs="+", required=True, metavar="MODEL", help=written)
    parsers["score"].add_argument("--each", type=int, default=10, metavar="N", help="no-event videos of each kind (10)")
    parsers["score"].add_argument("--videos", type=Path, metavar="FOLDER", help="whole videos to caption")
    parsers["score"].add_argument("--annotations", type=Path, nargs="*", default=[], metavar="FILE")
    parsers["train"].add_argument("--workers", type=int, default=0, metavar="N", help="processes that compose (0)")
    parsers["train"].add_argument("--parallel", type=int, default=1, metavar="N", help="copies that train at once (1)")
    parsers["train"].add_argument("--split", default=TRAINING, metavar="NAME", help=f"what to train on ({TRAINING})")
    captions = "captioned pictures and clips beside, such as data/captioned/coco"
    for name in ("train", "sentences"):
        parsers[name].add_argument("--captions", type=Path, nargs="*", default=[], metavar="FOLDER", help=captions)
    parsers["train"].add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")
    first = f"a model of the first stage, {STAGES[0].name}, to go on from"
    parsers["train"].add_argument("--from", dest="start_from", type=Path, metavar="MODEL", help=first)
    parsers["train"].add_argument("--until", choices=[stage.name for stage in STAGES], help="the last stage to run")
    parsers["train"].add_argument("--preset", default=PRESET, help="a preset or a file with other settings (bundled)")
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
        "pack": ("run", "data", "timelines", "out"),
        "sentences": ("data",),
        "score": ("model", "clips", "features", "timelines", "out"),
        "card": ("model", "scores"),
    }
    for name, needed in paths.items():
        for path in needed:
            parsers[name].add_argument(f"--{path}", type=Path, required=True, metavar=path.upper())


if __name__ == "__main__":
    sys.exit(run_program("python -m research.bundled_model", __doc__, add_arguments, run))
