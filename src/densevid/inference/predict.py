"""PredictionJob: a model and a folder of features become the content of an event file, several videos at a time.

Whatever can be known to fail is found before the first video is captioned; a video that fails later is noted and left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from densevid.checkpoint import LoadedModel, load_model
from densevid.config import Config
from densevid.data.annotations import read_annotation_file
from densevid.data.layouts import open_features
from densevid.data.sources import FeatureSource, check_recipe
from densevid.device import resolve_device, set_threads
from densevid.errors import InputError, named
from densevid.events import Event
from densevid.inference.captioner import Captioner, Precision
from densevid.inference.long_video import LongVideoCaptioner, Track
from densevid.inference.segments import caption_segments_many, unseen

Segments = dict[str, list[tuple[float, float]]]
Report = Callable[[str], None]
BATCHES_READ = 4  # together, on a device that works on one while the host is at its neighbours


@dataclass(frozen=True)
class PredictionJob:
    """What to predict with and on; see `densevid predict --help`.

    Attributes:
        model: A model folder.
        features: A feature folder, file or store.
        durations: The release's `id,duration,frames` file.
        seconds_per_step: One number for all videos.
        segments: A references file whose segments are captioned instead of proposals.
        settings: `inference.KEY=VALUE`, each over the model's own.
        device: Where to compute; CUDA where there is one.
        threads: CPU threads; torch's choice.
        precision: Of the encoding of events and of words.
        summary: Only the events of the summary.
        top: A summary of at most so many events, whatever their confidence.
        sentence_scores: Whether sentences have a confidence, if the model has one for them.
    """

    model: Path
    features: Path
    durations: Path | None = None
    seconds_per_step: float | None = None
    segments: Path | None = None
    settings: tuple[str, ...] = ()
    device: str | None = None
    threads: int | None = None
    precision: Precision | None = None
    summary: bool = False
    top: int | None = None
    sentence_scores: bool = True


@dataclass(frozen=True)
class Predictions:
    """Events by video, the settings they were made with, and an error for each video that is missing.

    `unseen` counts given segments that begin after all that the model reads of their video.
    """

    events: dict[str, list[Event]]
    config: Config
    failures: dict[str, str] = field(default_factory=dict)
    unseen: int = 0
    interrupted: bool = False


@dataclass(frozen=True)
class ReadPart:
    """Some of the videos: their features, and an error for each that is missing."""

    videos: list[str]
    tracks: dict[str, Track] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OpenedJob:
    """A job whose files are open and fit together; `failures` are the errors of videos that do not."""

    video_captioner: LongVideoCaptioner
    source: FeatureSource
    segments: Segments | None
    videos: list[str]
    failures: dict[str, str]

    @property
    def captioner(self) -> Captioner:
        """The captioner of one window."""
        return self.video_captioner.captioner

    def run(self, on_video: Report = lambda line: None) -> Predictions:
        """Caption every video, or every given segment of it; after an interrupt, return what is finished."""
        events: dict[str, list[Event]] = {}
        failures, unseen, interrupted = dict(self.failures), 0, False
        total = len(self.videos) + len(self.failures)
        try:
            for part in self._read_ahead():
                failures |= part.failures
                for video, captions in self._captioned(part.tracks):
                    if isinstance(captions, str):
                        failures[video] = captions
                    else:
                        events[video] = captions
                        unseen += self._unseen(video, part.tracks[video])
                for video in part.videos:
                    on_video(f"{len(events) + len(failures)}/{total} videos, {video}")
        except KeyboardInterrupt:
            interrupted = True
        return Predictions(events, self.captioner.config, failures, unseen, interrupted)

    def _read_ahead(self) -> Iterator[ReadPart]:
        """As many videos as keep the device busy, reading the next ones meanwhile."""
        size = self.captioner.videos_at_once * (BATCHES_READ if self.captioner.ahead else 1)
        parts = [self.videos[first : first + size] for first in range(0, len(self.videos), size)]
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(self._read, parts[0])
            for later in [*parts[1:], []]:
                part = ahead.result()
                ahead = reader.submit(self._read, later)
                yield part

    def _read(self, videos: list[str]) -> ReadPart:
        part = ReadPart(videos)
        for video in videos:
            try:
                track = self.source.track(video)
                part.tracks[video] = track if self.captioner.is_long(track) else self.captioner.read(track)
            except (InputError, MemoryError) as error:
                part.failures[video] = named(video, error)
        return part

    def _captioned(self, tracks: dict[str, Track]) -> Iterator[tuple[str, list[Event] | str]]:
        """The events of each video, together or, if that fails, one by one; an error for each that has none."""
        try:
            yield from zip(tracks, list(self._events(tracks)), strict=True)
        except (InputError, MemoryError, torch.OutOfMemoryError) as error:
            if len(tracks) == 1:
                yield next(iter(tracks)), named(next(iter(tracks)), error)
            else:
                for video, track in tracks.items():
                    yield from self._captioned({video: track})

    def _events(self, tracks: dict[str, Track]) -> Iterator[list[Event]]:
        if self.segments is None:
            return self.video_captioner.caption_many(tracks.values())
        return caption_segments_many(self.captioner, ((track, self.segments[video]) for video, track in tracks.items()))

    def _unseen(self, video: str, track: Track) -> int:
        return 0 if self.segments is None else unseen(self.captioner, track, self.segments[video])


def predict(job: PredictionJob, report: Report = lambda line: None) -> Predictions:
    """Open a job and run it; `report` is called with lines for the user."""
    return open_job(job, report).run()


def open_job(job: PredictionJob, report: Report = lambda line: None) -> OpenedJob:
    """Load the model, open the features, and check the header of every video.

    Raises:
        InputError: The files do not fit together, or no video can be used.
    """
    device = resolve_device(job.device)
    if job.threads is not None:
        set_threads(job.threads, report)
    loaded = load_model(job.model)
    config = loaded.config.with_settings(_inference_only(job.settings))
    source = open_features(
        job.features,
        durations=job.durations,
        seconds_per_step=job.seconds_per_step,
        duration_formula=config.features.duration_formula,
        default_seconds_per_step=config.features.seconds_per_step,
    )
    streams = tuple(zip(config.features.streams, config.features.widths, strict=True))
    warning = check_recipe(loaded.recipe, streams, source)
    segments = None if job.segments is None else read_segments(job.segments, report)
    videos, failures = _usable(source, _videos(source, segments, report))
    if warning:
        report(warning)
    sentences = loaded.sentence_confidence if job.sentence_scores else None
    loaded = replace(loaded, config=config, sentence_confidence=sentences)
    captioner = Captioner(loaded, device=device, precision=job.precision)
    try:
        _ = captioner.sentence_confidence
    except InputError as error:
        raise InputError(f"{job.model}: {error}") from error
    return OpenedJob(_video_captioner(job, captioner, loaded, report), source, segments, videos, failures)


def _video_captioner(
    job: PredictionJob, captioner: Captioner, loaded: LoadedModel, report: Report
) -> LongVideoCaptioner:
    """The dense list with the scores of a benchmark, or a summary with the model's own calibration."""
    if not job.summary and job.top is None:
        return LongVideoCaptioner.build(captioner, dense=True, calibrated=False)
    if job.segments is not None:
        raise InputError("--segments fixes what to caption, so nothing is selected; leave out --summary and --top")
    if job.top is not None and job.top < 1:
        raise InputError(f"--top must be at least 1, got {job.top}")
    if loaded.calibration is None:
        report(f"{job.model} has no calibration.toml, so scores stand for confidence; `densevid calibrate` fits one")
    return LongVideoCaptioner.build(captioner, top=job.top)


def read_segments(path: Path, report: Report) -> Segments:
    """The timestamps of a references file, to the digit; what is no span is left out and reported."""
    segments: Segments = {}
    dropped = 0
    for entry in read_annotation_file(path, sentences=False):
        spans = [(start, end) for start, end in entry.segments if 0 <= start < end < float("inf")]
        dropped += len(entry.segments) - len(spans)
        segments[entry.video] = spans
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


def _usable(source: FeatureSource, videos: list[str]) -> tuple[list[str], dict[str, str]]:
    """The videos whose features can be opened, and an error for each of the others."""
    failures: dict[str, str] = {}
    for video in videos:
        try:
            source.extent(video)
        except InputError as error:
            failures[video] = named(video, error)
    if len(failures) == len(videos):
        raise InputError(next(iter(failures.values()), "there is no video to caption"))
    return [video for video in videos if video not in failures], failures


def _inference_only(settings: tuple[str, ...]) -> tuple[str, ...]:
    """Only `inference.*` can change: the shape of a trained model is fixed."""
    for setting in settings:
        if not setting.strip().startswith("inference."):
            raise InputError(f"--set {setting}: only inference.* can change for a trained model")
    return settings
