"""One feature track as one safetensors file: an entry of the cache."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from densevid.artifacts import tensor_path
from densevid.captioning.cache import CachedTrack
from densevid.errors import InputError
from densevid.tracks import Clock, FeatureTrack


def write_track(path: Path, cached: CachedTrack) -> None:
    """Write a track that has a clock of its own; whole or not at all."""
    track = cached.track
    edges = track.clock.seconds(np.arange(len(track) + 1))
    about = {"streams": track.streams, "recipe": track.recipe, "duration": track.duration, "warning": cached.warning}
    arrays = {"values": np.ascontiguousarray(track.values), "edges": edges}
    with tensor_path(path) as temporary:
        save_file(arrays, temporary, metadata={"densevid": json.dumps(about)})


def read_track(path: Path, recipe: str) -> CachedTrack | None:
    """Read it back; None for a file that is not such a track, or one of another recipe."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})["densevid"])
            values, edges = file.get_tensor("values"), file.get_tensor("edges")
        streams = tuple((str(name), int(width)) for name, width in about["streams"])
        track = FeatureTrack(values, Clock.from_edges(edges), streams, about["recipe"], about["duration"])
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, InputError):
        return None
    return CachedTrack(track, about.get("warning")) if track.recipe == recipe else None
