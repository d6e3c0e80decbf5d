"""Fit a model's word prior and actionness to its training data, and write them into the model folder.

The word prior (MODEL_DIR/word_prior.safetensors) reranks sentences of a beam (`inference.word_prior_weight`), and
its similarity space finds changes of content within a video (`inference.similarity_space`). Where the data holds videos
without events, or clips without captions, actionness (MODEL_DIR/actionness.safetensors) separates them from the others,
and a confidence that is fitted after it uses it. This takes seconds, or a minute with thousands of features. A
calibration that was there before is out of date then: run `densevid calibrate` again.

  densevid fit-priors --model RUN/model --annotations train.json --features store
  densevid fit-priors --model RUN/model --timelines CLIPS --split train-fit
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.errors import InputError, report

if TYPE_CHECKING:
    from densevid.checkpoint import LoadedModel
    from densevid.data.annotations import Annotations
    from densevid.data.sources import FeatureSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL_DIR", help="a model folder")
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--annotations", type=Path, nargs="+", metavar="FILE", help="the events it was trained on")
    data.add_argument("--timelines", type=Path, metavar="CLIPS", help="or: the clips its timelines were composed of")
    parser.add_argument("--split", metavar="NAME", help="which part of them")
    parser.add_argument("--features", type=Path, metavar="STORE", help="feature folder, file or store")
    clock = parser.add_mutually_exclusive_group()
    clock.add_argument("--durations", type=Path, metavar="CSV", help="the release's id,duration,frames file")
    clock.add_argument("--seconds-per-step", type=float, metavar="S", help="one number for all videos")


def run(arguments: argparse.Namespace) -> None:
    """Fit and write."""
    from densevid.checkpoint import CALIBRATION, WEIGHTS, load_model
    from densevid.data.sources import check_recipe
    from densevid.inference.fitting.priors import write_priors
    from densevid.io import provenance

    loaded = load_model(arguments.model, fitted=False)
    source, annotations = _clips(arguments) if arguments.timelines else _videos(arguments, loaded)
    features = loaded.config.features
    warning = check_recipe(loaded.recipe, tuple(zip(features.streams, features.widths, strict=True)), source)
    if warning:
        report(f"warning: {warning}")
    files = [arguments.model / WEIGHTS, *(arguments.annotations or [arguments.timelines]), arguments.features]
    block = provenance(inputs=[path for path in files if path is not None], command="fit-priors", split=arguments.split)
    for file, fitted in write_priors(arguments.model, source, annotations, block).items():
        print(f"{file}: fitted on {', '.join(f'{count:,} {name}' for name, count in fitted.about['fitted'].items())}")
    if missing := sum(video not in source for video in annotations.events):
        report(f"{missing:,} of {len(annotations.events):,} videos have no features and are left out")
    if (arguments.model / CALIBRATION).exists():
        report(f"{arguments.model / CALIBRATION} is out of date now; run `densevid calibrate` again")


def _clips(arguments: argparse.Namespace) -> tuple[FeatureSource, Annotations]:
    """Every clip as it is."""
    from densevid.timelines.clips import ClipCollection
    from densevid.timelines.sources import ClipFeatures

    for name in ("durations", "seconds_per_step"):
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} is for annotated videos; clips know their own times")
    collection = ClipCollection.read(arguments.timelines, features=arguments.features)
    clips = ClipFeatures(collection, arguments.split or "train")
    return clips, clips.annotations()


def _videos(arguments: argparse.Namespace, loaded: LoadedModel) -> tuple[FeatureSource, Annotations]:
    """Annotated videos."""
    from densevid.training.data import DataFiles, open_source, read_split

    if arguments.features is None:
        raise InputError("--annotations needs --features STORE")
    clock = (arguments.durations, arguments.seconds_per_step)
    files = DataFiles(tuple(arguments.annotations), arguments.features, arguments.split, *clock)
    annotations = read_split(files, report)
    return open_source(files, annotations, loaded.config), annotations
