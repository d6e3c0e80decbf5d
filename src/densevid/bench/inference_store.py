"""The whole way of `densevid predict`, timed: from a store of generated videos to a predictions file."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch

from densevid.artifacts import provenance
from densevid.bench.inference_subject import Asked, generated_store, random_model
from densevid.checkpoint import save_model
from densevid.events import write_events
from densevid.inference.captioner import Precision
from densevid.inference.predict import PredictionJob, open_job


def print_store_run(asked: Asked, device: torch.device, precision: Precision | None = None) -> None:
    """From a store of generated videos of ActivityNet's lengths to a predictions file, as `densevid predict` does."""
    with tempfile.TemporaryDirectory(prefix="densevid-") as name:
        root = Path(name)
        loaded = random_model(asked)
        block = provenance(config_hash=loaded.config.hash)
        save_model(root / "model", loaded, block)
        store = generated_store(root, loaded.config, asked.videos)
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
        f"store to predictions file, {opened.captioner.precision}, {asked.mask} mask, floor {asked.floor:g}: ", end=""
    )
    print(f"{len(predictions.events):,} videos, {events:,} events in {ended - begun:.1f} s ", end="")
    print(f"({ready - begun:.1f} s to open, {(ended - ready) / asked.videos * 1e3:.1f} ms a video)", flush=True)
