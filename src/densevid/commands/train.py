"""Train a model from annotation files and features, and write a run folder that `densevid predict` can use.

CONFIG is a TOML file or a preset: activitynet, youcook2, proposal-only, caption-only, modern, timelines, bundled. The
run folder holds the settings, environment, vocabulary, metrics.csv, loss curves (curves.png with matplotlib, curves.svg
without), checkpoints, model/ (the best) and model-last/.

  densevid train activitynet --annotations train.json --features features/training \\
      --validation val_1.json --validation-features features/validation --out runs/paper
  densevid train modern --annotations train.json --features store --validation val_1.json val_2.json \\
      --set training.epochs=30 --out runs/modern
  densevid train modern --annotations train.json --features store --out runs/modern --resume
  densevid train runs/a/config.toml --from runs/a/model --set 'training.reward="cider"' \\
      --annotations train.json --features store --out runs/a-cider
  densevid train timelines --timelines CLIPS --split train-fit --validation-split train-dev --workers 8 --out runs/clips
  densevid train bundled --timelines CLIPS --captions coco flickr8k=0.5 --set training.clip_share=1 --out runs/words
  torchrun --nproc-per-node 8 -m densevid train activitynet --annotations train.json --features store --out runs/eight
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.errors import InputError

if TYPE_CHECKING:
    from densevid.training.data import ClipFiles, DataFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("config", metavar="CONFIG|PRESET", help="a TOML file of settings, or the name of a preset")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="the run folder to write")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out, or begin it")
    parser.add_argument("--from", type=Path, dest="start_from", metavar="MODEL_DIR", help="start from these weights")
    data = parser.add_argument_group("data")
    data.add_argument("--annotations", type=Path, nargs="+", metavar="FILE", help="the events to train on")
    data.add_argument("--timelines", type=Path, metavar="CLIPS", help="or: clips to compose endless timelines of")
    captions = "beside --timelines: captioned clips or pictures to learn words from, and how often"
    data.add_argument("--captions", nargs="+", default=[], metavar="FOLDER[=WEIGHT]", help=captions)
    data.add_argument("--split", metavar="NAME", help="the subset of the annotations, or of the feature folders")
    data.add_argument("--features", type=Path, metavar="STORE", help="feature folder, file or store")
    data.add_argument("--validation", type=Path, nargs="+", metavar="FILE", help="annotations to validate on")
    data.add_argument("--validation-split", metavar="NAME", help="their part (alone: of the same annotations)")
    data.add_argument("--validation-features", type=Path, metavar="STORE", help="their features (default: --features)")
    clock = data.add_mutually_exclusive_group()
    clock.add_argument("--durations", type=Path, metavar="CSV", help="the release's id,duration,frames file")
    clock.add_argument("--seconds-per-step", type=float, metavar="S", help="one number for all videos")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--seed", type=int, help="the same as --set training.seed=N")
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (auto: cuda where there is one)")
    machine.add_argument("--workers", type=int, default=0, metavar="N", help="processes that load features (default 0)")
    machine.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: torch's choice)")
    machine.add_argument("--limit-steps", type=int, metavar="N", help="stop after so many steps; --resume goes on")


def run(arguments: argparse.Namespace) -> None:
    """Train."""
    import torch

    from densevid.config import load_config
    from densevid.training.distributed import leave_at_once, started_together
    from densevid.training.run import TrainingJob, train

    _require_positive(arguments)
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    seed = [] if arguments.seed is None else [f"training.seed={arguments.seed}"]
    job = TrainingJob(
        config=load_config(arguments.config, [*arguments.set, *seed]),
        training=_training(arguments),
        validation=_validation(arguments),
        out=arguments.out,
        start_from=arguments.start_from,
        resume=arguments.resume,
        device=arguments.device,
        workers=arguments.workers,
        limit_steps=arguments.limit_steps,
    )
    train(job, report=lambda line: print(line, file=sys.stderr, flush=True))
    if started_together() > 1:
        leave_at_once()


def _require_positive(arguments: argparse.Namespace) -> None:
    for name, least in (("workers", 0), ("threads", 1), ("limit_steps", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise InputError(f"--{name.replace('_', '-')} must be at least {least}, got {value}")


def _training(arguments: argparse.Namespace) -> DataFiles | ClipFiles:
    """Annotations with features, or clips to compose timelines of."""
    from densevid.timelines.captions import CaptionFolder

    if (arguments.annotations is None) == (arguments.timelines is None):
        raise InputError("give either --annotations FILE... with --features STORE, or --timelines CLIPS")
    if arguments.timelines is not None:
        _require_used(arguments)
        captions = tuple(CaptionFolder.parse(text) for text in arguments.captions)
        return replace(_clips(arguments, arguments.split or "train"), captions=captions)
    if arguments.captions:
        raise InputError("--captions needs --timelines CLIPS, whose clips it stands beside")
    if arguments.features is None:
        raise InputError("--annotations needs --features STORE")
    return _files(arguments, arguments.annotations, arguments.features, arguments.split)


def _require_used(arguments: argparse.Namespace) -> None:
    """Raise on flags about annotated videos where there are none: clips have their own times and features."""
    for name in ("durations", "seconds_per_step", "validation_features"):
        if getattr(arguments, name) is not None and not arguments.validation:
            raise InputError(
                f"--{name.replace('_', '-')} is for annotated videos; with --timelines give --validation FILE"
            )


def _clips(arguments: argparse.Namespace, split: str) -> ClipFiles:
    from densevid.training.data import ClipFiles

    return ClipFiles(arguments.timelines, split, arguments.features)


def _validation(arguments: argparse.Namespace) -> DataFiles | ClipFiles | None:
    """Files of their own, or another split of the training files or clips."""
    if not (arguments.validation or arguments.validation_split):
        if arguments.validation_features:
            raise InputError("--validation-features needs --validation FILE or --validation-split NAME")
        return None
    if not arguments.validation and arguments.timelines is not None:
        return _clips(arguments, arguments.validation_split)
    annotations = arguments.validation or arguments.annotations
    # beside --timelines, --features are those of the clips, not of these videos
    features = arguments.validation_features or (arguments.features if arguments.timelines is None else None)
    if features is None:
        raise InputError("with --timelines, --validation needs --validation-features STORE, the features of its videos")
    return _files(arguments, annotations, features, arguments.validation_split)


def _files(arguments: argparse.Namespace, annotations: list[Path], features: Path, split: str | None) -> DataFiles:
    from densevid.training.data import DataFiles

    return DataFiles(tuple(annotations), features, split, arguments.durations, arguments.seconds_per_step)
