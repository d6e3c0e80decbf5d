"""From clone to a visible result in a minute: train on generated videos, then caption three new ones.

A generated video is noise with two or three events; an event is one of a few activities, each a feature pattern with a
sentence. Boundaries and sentences can be predicted from the features alone.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from densevid.checkpoint import LoadedModel, save_model
from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.dataloader import BatchSampler, SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.data.sources import InMemoryFeatures
from densevid.data.vocabulary import Vocabulary
from densevid.events import Event, write_events
from densevid.inference.captioner import Captioner
from densevid.io import provenance
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureRecipe, FeatureTrack
from densevid.training.trainer import fit

WIDTHS = (("appearance", 24), ("motion", 8))
RECIPE = FeatureRecipe({"name": "generated", "version": 1})
SENTENCES = (
    "a dog runs across the garden",
    "two people dance in a kitchen",
    "someone slowly pours tea",
    "a train leaves the station",
    "children build a tower of bricks",
    "a painter fills the canvas with blue",
)

SMALL = Config().with_values(
    {
        "model": {
            "width": 48,
            "hidden": 96,
            "heads": 4,
            "layers": 2,
            "window": 48,
            "kernels": [6, 8, 10, 13, 16],
            "dropout": 0.0,
            "input_dropout": 0.0,
        },
        "features": {"streams": [name for name, _ in WIDTHS], "widths": [width for _, width in WIDTHS]},
        "training": {
            "optimizer": "adamw",
            "learning_rate": 3e-3,
            "plateau_patience": 4,
            "batch_size": 16,
            "epochs": 24,
            "positive_iou": 0.7,
            "negative_iou": 0.65,  # closer than the paper's .3: half an event is not an event
            "negatives": 20,
        },
        "inference": {"min_proposals": 0, "score_threshold": 0.5, "suppression_iou": 0.3},
    }
)


def generate(seed: int, videos: int, steps: int = 48) -> tuple[dict[str, FeatureTrack], dict[str, list[Event]]]:
    """Generate tracks and their events. Equal seeds give equal videos; the activities are the same for all seeds."""
    patterns = np.random.default_rng(0).normal(size=(len(SENTENCES), sum(width for _, width in WIDTHS)))
    random = np.random.default_rng((1, seed))
    clock = Clock.uniform(0.5)
    tracks: dict[str, FeatureTrack] = {}
    truth: dict[str, list[Event]] = {}
    for index in range(videos):
        name = f"generated_{seed}_{index}"
        values = random.normal(scale=0.3, size=(steps, patterns.shape[1]))
        truth[name] = []
        position = 0
        while (start := position + int(random.integers(2, 7))) + 16 <= steps:
            end = start + int(random.integers(6, 17))
            activity = int(random.integers(len(SENTENCES)))
            values[start:end] += patterns[activity]
            begin, stop = clock.seconds([start, end]).tolist()
            truth[name].append(Event(begin, stop, SENTENCES[activity]))
            position = end
        tracks[name] = FeatureTrack(values.astype(np.float32), clock, WIDTHS, RECIPE.id, steps / 2)
    return tracks, truth


def learn(
    tracks: dict[str, FeatureTrack], truth: dict[str, list[Event]], config: Config, *, verbose: bool = True
) -> LoadedModel:
    """Train a model on tracks and their events."""
    torch.manual_seed(config.training.seed)
    sentences = [event.sentence for events in truth.values() for event in events]
    vocabulary = Vocabulary.build(sentences, min_count=1)
    dataset = SegmentDataset(Annotations(truth, {}, []), InMemoryFeatures(tracks, RECIPE), vocabulary, config)

    def show(epoch: int, report: dict[str, float]) -> None:
        if verbose and (epoch % 10 == 9 or epoch == 0):
            parts = "  ".join(f"{name} {value:.3f}" for name, value in report.items())
            print(f"epoch {epoch + 1:3d}  {parts}", flush=True)

    model = MaskedTransformer(config, len(vocabulary))
    fit(model, SegmentLoader(dataset, BatchSampler(config.training.batch_size, config.training.seed)), config, show)
    return LoadedModel(model, config, vocabulary, RECIPE)


def timeline(events: list[Event], seconds: float, width: int = 48) -> str:
    """Draw events as bars, one line each."""
    rows = []
    for event in sorted(events, key=lambda event: event.place):
        first, last = (round(time / seconds * width) for time in (event.start, event.end))
        bar = "·" * first + "█" * max(1, last - first)
        rows.append(f"  {event.start:5.1f} {event.end:5.1f}  {bar:·<{width}}  {event.sentence}")
    return "\n".join(rows)


def main() -> None:
    """Train, save, caption new videos, and print predictions beside the ground truth."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.learn_generated_videos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("demo"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a network this small is fastest on one core
    config = replace(SMALL, training=replace(SMALL.training, seed=arguments.seed))

    begun = time.perf_counter()
    print("training on 120 generated videos ...", flush=True)
    loaded = learn(*generate(arguments.seed, 120), config)
    block = provenance(config_hash=config.hash)
    save_model(arguments.out / "model", loaded, block)
    tracks, truth = generate(arguments.seed + 1, 3)
    captioner = Captioner.open(arguments.out / "model")
    predicted = {video: captioner.caption(track) for video, track in tracks.items()}
    write_events(arguments.out / "predictions.json", predicted, provenance=block)
    for video, events in predicted.items():
        print(f"\n{video}: truth\n{timeline(truth[video], 24)}\n{video}: predicted\n{timeline(events, 24)}")
    print(f"\n{arguments.out}: model/ and predictions.json, in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
