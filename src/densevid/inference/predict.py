"""A model and a folder of features become an event file's content, video after video."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from densevid.artifacts import read_json
from densevid.checkpoint import load_model
from densevid.config import Config
from densevid.data.feature_layouts import open_features
from densevid.data.feature_source import FeatureSource, check_recipe
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.captioner import Captioner

Segments = dict[str, list[tuple[float, float]]]
Report = Callable[[str], None]


@dataclass(frozen=True)
class PredictionJob:
    """What to predict with and on; see `densevid predict --help`."""

    model: Path
    features: Path
    durations: Path | None = None
    seconds_per_step: float | None = None
    segments: Path | None = None
    settings: tuple[str, ...] = ()
    device: str | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Predictions:
    """Events per video, and the settings they were made with."""

    events: dict[str, list[Event]]
    config: Config


def predict(job: PredictionJob, report: Report = lambda line: None) -> Predictions:
    """Caption every video (or every given segment of it); `report` receives lines for the user."""
    if job.threads is not None:
        if job.threads < 1:
            raise InputError(f"--threads must be at least 1, got {job.threads}")
        torch.set_num_threads(job.threads)
    loaded = load_model(job.model)
    config = loaded.config.with_settings(_inference_only(job.settings))
    captioner = Captioner(replace(loaded, config=config), device=_device(job.device))
    source = open_features(
        job.features,
        durations=job.durations,
        seconds_per_step=job.seconds_per_step,
        duration_formula=config.features.duration_formula,
    )
    streams = tuple(zip(config.features.streams, config.features.widths, strict=True))
    if warning := check_recipe(loaded.recipe, streams, source):
        report(warning)
    segments = None if job.segments is None else read_segments(job.segments, report)
    videos = _videos(source, segments, report)
    events = {}
    for done, video in enumerate(videos, start=1):
        track = source.track(video)
        events[video] = (
            captioner.caption(track) if segments is None else captioner.caption_segments(track, segments[video])
        )
        report(f"{done}/{len(videos)} {video}: {len(events[video])} events")
    return Predictions(events, config)


def read_segments(path: Path, report: Report) -> Segments:
    """Timestamps of a references file, kept to the digit; what is not a span is left out and counted."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f'{path}: expected {{video: {{"timestamps": [[start, end], ...]}}}}')
    segments: Segments = {}
    dropped = 0
    for video, entry in content.items():
        try:
            spans = [(float(start), float(end)) for start, end in entry["timestamps"]]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: {video}: no list of [start, end] under timestamps") from error
        segments[video] = [(start, end) for start, end in spans if 0 <= start < end < float("inf")]
        dropped += len(spans) - len(segments[video])
    if dropped:
        report(f"{path}: left out {dropped} segments that do not satisfy 0 <= start < end")
    return segments


def _videos(source: FeatureSource, segments: Segments | None, report: Report) -> list[str]:
    """The videos to caption, in the order of the features, or of the segments file."""
    if segments is None:
        return source.videos()
    present = [video for video in segments if video in source]
    if not present:
        raise InputError("no video of the segments file has features; are the ids written the same way?")
    if len(present) < len(segments):
        report(f"{len(segments) - len(present)} of {len(segments)} videos have no features and are left out")
    return present


def _inference_only(settings: tuple[str, ...]) -> tuple[str, ...]:
    """A trained model's shape is fixed: only how it is used may change."""
    for setting in settings:
        if not setting.strip().startswith("inference."):
            raise InputError(f"--set {setting}: only inference.* can change for a trained model")
    return settings


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise InputError(f"--device {name}: no such kind of device") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"--device {name}: this machine has no usable CUDA device")
    return device
