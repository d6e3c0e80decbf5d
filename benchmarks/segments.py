"""Time training with several segments per video (`training.segments_per_video`) against one, in segments a second.

A video is encoded once for all of its segments. Both versions take turns in one run; the best round of each counts.

Examples:
  densevid bench segments
  densevid bench segments --together 2 4 --device cuda
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch

from densevid.cli import run_program
from densevid.config import Config, load_config
from densevid.data.annotations import Annotations
from densevid.data.batches import Batch
from densevid.data.dataloader import BatchSampler, SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.data.sources import InMemoryFeatures
from densevid.data.vocabulary import Vocabulary
from densevid.events import Event
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureTrack
from densevid.training.run import pick_device
from densevid.training.train_state import TrainState

SMALL = (
    "model.width=128",
    "model.hidden=256",
    "model.window=240",
    "model.kernels=[1, 2, 3, 4, 5, 7, 9, 11, 15, 21, 29, 41, 57, 71, 111]",
    'features.streams=["a"]',
    "features.widths=[256]",
)
VIDEOS = 6
SENTENCES = ("a dog runs across the garden", "two people dance in a kitchen", "someone slowly pours tea")


def print_gain(segments: tuple[int, ...], rounds: int, device: torch.device) -> None:
    """Train on the same segments with so many of a video in one sample; the best round of each counts."""
    config = load_config("activitynet", SMALL)
    batches = {together: _batch(config, together, device) for together in (1, *segments)}
    states = {together: _train_state(config, device) for together in batches}
    best = dict.fromkeys(batches, float("inf"))
    for round_number in range(rounds + 1):
        for together, batch in batches.items():
            seconds = _seconds(states[together], batch, device)
            if round_number:  # the first warms up
                best[together] = min(best[together], seconds)
    alone = len(batches[1]) / best[1]
    for together, batch in batches.items():
        rate = len(batch) / best[together]
        rows = f"{len(batch.videos)} videos encoded for {len(batch)} segments"
        print(f"{together} segments a video: {rows}, {rate:.1f} segments/s, {rate / alone:.2f} x")


def _batch(config: Config, together: int, device: torch.device) -> Batch:
    """Four segments each of a few videos, all in one batch."""
    random = np.random.default_rng(0)
    tracks, events = {}, {}
    for number in range(VIDEOS):
        values = random.normal(size=(config.model.window, config.features.widths[0])).astype(np.float32)
        tracks[f"v{number}"] = FeatureTrack(values, Clock.uniform(0.5), (("a", values.shape[1]),))
        starts = random.uniform(0, 60, size=4)
        events[f"v{number}"] = [Event(start, start + 20, SENTENCES[number % len(SENTENCES)]) for start in starts]
    vocabulary = Vocabulary.build(SENTENCES, 1)
    dataset = SegmentDataset(Annotations(events, {}, []), InMemoryFeatures(tracks), vocabulary, config)
    plan = BatchSampler(len(dataset), 0, together)
    return next(SegmentLoader(dataset, plan, device=device).batches(0))


def _train_state(config: Config, device: torch.device) -> TrainState:
    torch.manual_seed(0)
    return TrainState(MaskedTransformer(config, 1000).to(device).train(), config, 1000)


def _seconds(state: TrainState, batch: Batch, device: torch.device) -> float:
    begun = time.perf_counter()
    state.train_step(batch).tolist()  # waits for the device
    return time.perf_counter() - begun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--together", type=int, nargs="+", default=[2, 4], metavar="N", help="segments a video (2 4)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is timed (3)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ... (cpu)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads (1)")


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    torch.set_num_threads(max(1, args.threads))
    print_gain(tuple(args.together), args.rounds, pick_device(args.device))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m benchmarks.segments", __doc__, add_arguments, run))
