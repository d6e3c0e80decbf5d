"""What the inference benchmark captions, and with which model: the paper's network with seeded random weights, or a
trained one; generated videos, or a feature store.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from densevid.checkpoint import LoadedModel, load_model, save_model
from densevid.config import Config, load_config
from densevid.data.layouts import open_features
from densevid.data.sources import check_recipe
from densevid.data.store.reader import FeatureStore
from densevid.data.vocabulary import EOS, SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.events import write_events
from densevid.inference.captioner import Precision
from densevid.inference.predict import PredictionJob, open_job
from densevid.io import provenance
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureTrack

WORDS = 4000
SMALL = (
    "model.width=64",
    "model.hidden=64",
    "model.heads=2",
    "model.kernels=[1, 2, 4, 9, 16]",
    'features.streams=["resnet"]',
    "features.widths=[32]",
)
SHORTEST_SECONDS, LONGEST_SECONDS = 20, 235  # of ActivityNet's videos
POOL_STEPS = 2048
MOST_WRITERS = 8


@dataclass(frozen=True)
class Workload:
    """What to caption, from the flags: so many videos of so many steps, events a video and words a sentence."""

    videos: int
    proposals: int
    steps: int
    words: int
    mask: str
    floor: float = 0.0
    quick: bool = False


def random_model(workload: Workload) -> LoadedModel:
    """The paper's configuration, seeded: exactly `proposals` events a video, exactly `words` words a sentence."""
    settings = SMALL if workload.quick else ()
    config = load_config(
        "activitynet", (*settings, f"model.mask={workload.mask}", f"model.window={workload.steps}", *_events(workload))
    )
    torch.manual_seed(0)
    vocabulary = Vocabulary(
        (*SPECIAL_TOKENS, *(f"word{number}" for number in range(WORDS // (20 if workload.quick else 1))))
    )
    model = MaskedTransformer(config, len(vocabulary)).eval()
    with torch.no_grad():
        # as initialized, all events would get the same sentence
        for part, factor in (
            (model.caption_decoder, 3.0),
            (model.masking, 6.0),
        ):
            for parameter in part.parameters():
                parameter.mul_(factor if parameter.dim() > 1 else 1.0)
        model.caption_decoder.words.weight.normal_(std=0.02)  # small, or every word calls for itself again
        model.caption_decoder.words.bias.zero_()
        model.caption_decoder.words.bias[EOS] = -1e4  # words are forced: no sentence ends
    return LoadedModel(model, config, vocabulary, None)


def prepare(workload: Workload, model: Path | None, features: Path | None) -> tuple[LoadedModel, list[FeatureTrack]]:
    """The model and the videos: generated, unless a trained model and its features are named."""
    loaded = random_model(workload) if model is None else trained_model(model, workload)
    if features is None:
        return loaded, random_tracks(loaded.config, workload.videos, workload.steps)
    return loaded, stored_tracks(features, loaded, workload.videos)


def _events(workload: Workload) -> tuple[str, ...]:
    """Settings that give every video so many events: the best by score that do not overlap by 90%."""
    return (
        "inference.score_threshold=1.0",
        f"inference.min_proposals={workload.proposals}",
        f"inference.max_proposals={workload.proposals}",
        f"inference.max_words={workload.words}",
        f"inference.mask_floor={workload.floor}",
    )


def trained_model(folder: Path, workload: Workload) -> LoadedModel:
    """A trained model with its own settings, but for the floor, and greedy decoding, as in the plain version."""
    loaded = load_model(folder)
    if loaded.config.model.compat == "released":
        raise InputError(f'{folder}: its model.compat = "released", and the plain version is that of the paper')
    settings = [f"inference.mask_floor={workload.floor}", "inference.beam=1", "inference.no_repeat=0"]
    return replace(loaded, config=loaded.config.with_settings(settings))


def random_tracks(config: Config, count: int, steps: int) -> list[FeatureTrack]:
    """Distinct videos of that many steps."""
    width, random = sum(config.features.widths), np.random.default_rng(1)
    streams = tuple(zip(config.features.streams, config.features.widths, strict=True))
    clock = Clock.uniform(config.features.seconds_per_step)
    return [
        FeatureTrack(random.standard_normal((steps, width), dtype=np.float32), clock, streams) for _ in range(count)
    ]


def stored_tracks(path: Path, loaded: LoadedModel, count: int) -> list[FeatureTrack]:
    """The first videos of a feature folder or store, if the model can read them."""
    features = loaded.config.features
    source = open_features(path, default_seconds_per_step=features.seconds_per_step)
    check_recipe(loaded.recipe, tuple(zip(features.streams, features.widths, strict=True)), source)
    if not source.videos():
        raise InputError(f"{path}: there is no video in it")
    return [source.track(video) for video in source.videos()[:count]]


def generated_store(folder: Path, config: Config, videos: int) -> Path:
    """Videos of ActivityNet's lengths; their features are stretches of one pool of random numbers."""
    streams = tuple(zip(config.features.streams, config.features.widths, strict=True))
    clock = Clock.uniform(config.features.seconds_per_step)
    width = sum(config.features.widths)
    pool = np.random.default_rng(2).standard_normal((POOL_STEPS, width), dtype=np.float32).astype(np.float16)
    store = FeatureStore.create(folder / "store", streams)
    writers = min(MOST_WRITERS, os.cpu_count() or 1)

    def write(part: int) -> None:
        with store.writer(commit_every=256) as writer:
            for number in range(part, videos, writers):
                random = np.random.default_rng((2, number))
                seconds = random.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
                steps = min(int(seconds / clock.seconds_per_step), POOL_STEPS // 2)
                first = int(random.integers(POOL_STEPS - steps))
                writer.add(f"v_{number:05d}", FeatureTrack(pool[first : first + steps], clock, streams, None, seconds))

    with ThreadPoolExecutor(writers) as threads:
        list(threads.map(write, range(writers)))
    return folder / "store"


def print_store_run(workload: Workload, device: torch.device, precision: Precision | None = None) -> None:
    """From a store of generated videos of ActivityNet's lengths to a predictions file, as `densevid predict` does."""
    with tempfile.TemporaryDirectory(prefix="densevid-") as name:
        root = Path(name)
        loaded = random_model(workload)
        block = provenance(config_hash=loaded.config.hash)
        save_model(root / "model", loaded, block)
        store = generated_store(root, loaded.config, workload.videos)
        begun = time.perf_counter()
        settings = ("inference.read=first-window",)
        opened = open_job(
            PredictionJob(root / "model", store, device=str(device), settings=settings, precision=precision)
        )
        ready = time.perf_counter()
        predictions = opened.run()
        write_events(root / "predictions.json", predictions.events, provenance=block)
        ended = time.perf_counter()
    events = sum(map(len, predictions.events.values()))
    print(
        f"store to predictions file, {opened.captioner.precision}, {workload.mask} mask, floor {workload.floor:g}: ",
        end="",
    )
    print(f"{len(predictions.events):,} videos, {events:,} events in {ended - begun:.1f} s ", end="")
    print(f"({ready - begun:.1f} s to open, {(ended - ready) / workload.videos * 1e3:.1f} ms a video)", flush=True)
