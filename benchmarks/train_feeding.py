"""The data of the training benchmark: generated batches, and three ways to feed them to the device.

The training step is that of `densevid train`. Its batches are on the device already, or gathered from features that
live there (`training.features_on_device`), or read from a feature store by other processes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path

import numpy as np
import torch

from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.batches import Batch
from densevid.data.dataloader import BatchSampler, SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.data.store.reader import FeatureStore
from densevid.data.vocabulary import Vocabulary
from densevid.events import Event
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureTrack
from densevid.training.train_state import TrainState

VOCABULARY = 4000
SEGMENTS = 4  # of every video, a sample each
WARM_UP = 4  # steps
SENTENCE = "one two three four five six seven eight nine ten " * 2


@dataclass(frozen=True)
class FeedingRate:
    """Samples a second that one way of feeding reached."""

    name: str
    samples_per_second: float


def measure_feeding(
    config: Config, batch_size: int, steps: int, workers: int, device: torch.device
) -> list[FeedingRate]:
    """Samples a second, each way, within one epoch."""
    samples = (WARM_UP + steps + 1) * batch_size
    with tempfile.TemporaryDirectory(prefix="densevid-") as folder:
        dataset = generated_dataset(Path(folder), config, -(-samples // SEGMENTS))
        plan = BatchSampler(batch_size, seed=0)
        ways: dict[str, Callable[[int], Iterator[Batch]]] = {
            "on the device already": lambda epoch: repeat(generated_batch(config, batch_size, device=device.type)),
            "features on the device": SegmentLoader(dataset, plan, device=device, resident=True).batches,
            f"from a store, {workers} processes": SegmentLoader(dataset, plan, workers=workers, device=device).batches,
        }
        return [FeedingRate(name, _rate(config, batches(0), steps, device)) for name, batches in ways.items()]


def generated_dataset(folder: Path, config: Config, videos: int) -> SegmentDataset:
    """Videos as long as the window, written to a store; 20 words for each of their segments."""
    streams = tuple(zip(config.features.streams, config.features.widths, strict=True))
    clock, random = Clock.uniform(config.features.seconds_per_step), np.random.default_rng(3)
    shape = (2 * config.model.window, sum(config.features.widths))
    pool = random.standard_normal(shape, dtype=np.float32).astype(np.float16)
    store, events = FeatureStore.create(folder / "store", streams), {}
    seconds = config.model.window * clock.seconds_per_step
    with store.writer(commit_every=64) as writer:
        for number in range(videos):
            first = int(random.integers(config.model.window))
            video = f"v_{number:05d}"
            writer.add(video, FeatureTrack(pool[first : first + config.model.window], clock, streams, None, seconds))
            starts = random.uniform(0, 0.5, SEGMENTS) * seconds
            events[video] = [Event(start, start + 0.4 * seconds, SENTENCE) for start in starts]
    vocabulary = Vocabulary.build([SENTENCE], 1)
    return SegmentDataset(Annotations(events, {}, []), FeatureStore(folder / "store"), vocabulary, config)


def generated_batch(config: Config, size: int, segments: int = 1, device: str = "cuda") -> Batch:
    """Distinct random videos on the device, so many segments with 20 words each."""
    generator = torch.Generator(device=device).manual_seed(1)
    steps, width, captions = config.model.window, sum(config.features.widths), size * segments
    start = torch.rand(size, segments, device=device, generator=generator) * steps * 5 / 12
    events_BG2 = torch.stack((start, start + 10 + start), dim=-1)
    words = torch.randint(4, VOCABULARY, (captions, 21), device=device, generator=generator)
    words[:, 0] = 2
    video_P = torch.arange(size, device=device).repeat_interleave(segments)
    return Batch(
        videos=["generated"] * size,
        sample_P=torch.arange(captions, device=device),
        features_BTF=torch.randn(size, steps, width, device=device, generator=generator),
        valid_BT=torch.ones(size, steps, dtype=torch.bool, device=device),
        events_BG2=events_BG2,
        event_valid_BG=torch.ones(size, segments, dtype=torch.bool, device=device),
        segment_P2=events_BG2.flatten(0, 1),
        segment_index_P=torch.arange(segments, device=device).repeat(size),
        words_PL=words,
        padded=False,
        video_P=None if segments == 1 else video_P,
    )


def print_feeding(fed: list[FeedingRate], batch: int) -> None:
    """One line each, and how it compares with the first."""
    for way in fed:
        share = way.samples_per_second / fed[0].samples_per_second
        print(f"{way.name:36} {batch:4d} videos  {way.samples_per_second:8.0f} samples/s  {share:.2f} x", flush=True)


def _rate(config: Config, batches: Iterator[Batch], steps: int, device: torch.device) -> float:
    """Samples of the timed steps a second, waiting for the device at both ends alone."""
    torch.manual_seed(0)
    state = TrainState(MaskedTransformer(config, VOCABULARY).to(device).train(), config, WARM_UP + steps)
    for batch in islice(batches, WARM_UP):
        state.train_step(batch).tolist()
    begun, samples = time.perf_counter(), 0
    for batch in islice(batches, steps):
        values, samples = state.train_step(batch), samples + len(batch)
    values.tolist()  # waits for the device
    return samples / (time.perf_counter() - begun)
