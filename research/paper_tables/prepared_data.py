"""A data set on this machine: files to train on, a test set to predict and score, training events for the baselines."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from densevid.data.annotations import Annotations, read_annotations
from densevid.data.sources import FeatureSource
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.io import fingerprint
from densevid.tracks import FeatureTrack, Streams
from densevid.training.data import ClipFiles, DataFiles
from research.paper_tables.definitions import Dataset, Row

Files = DataFiles | ClipFiles
Item = TypeVar("Item")
SIZED, READ = 256, 8  # videos whose steps are counted, and of which a few are read, for a fingerprint


@dataclass(frozen=True)
class Inputs:
    """Where the user's files are: clips, or annotations; and features."""

    clips: Path | None = None
    annotations: Path | None = None
    features: Path | None = None


@dataclass(frozen=True)
class EventSet:
    """Videos with references: one file an annotator, and the features."""

    references: tuple[Path, ...]
    features: Path

    def annotations(self) -> Annotations:
        """All annotators' events, pooled."""
        return read_annotations(self.references)


class PreparedData(ABC):
    """A data set whose files are there. `folder` is where what must be written goes."""

    def __init__(self, dataset: Dataset, inputs: Inputs, folder: Path, *, quick: bool) -> None:
        self.dataset, self.inputs, self.folder, self.quick = dataset, inputs, folder, quick

    @property
    @abstractmethod
    def streams(self) -> Streams:
        """Name and width of every stream of the features."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """The hash of the training annotations, as it enters the names of models."""

    @property
    @abstractmethod
    def fingerprints(self) -> dict[str, dict[str, str]]:
        """Hashes of every annotation file, and of a sample of the features."""

    @abstractmethod
    def training(self, row: Row) -> Files:
        """The data that a row is trained on."""

    @abstractmethod
    def validation(self, row: Row) -> Files | None:
        """The data that the best epoch of a row is chosen on."""

    @abstractmethod
    def test(self, streams: int | None = None) -> EventSet:
        """The data that every row is scored on, with the first streams or with all."""

    @abstractmethod
    def test_source(self) -> FeatureSource:
        """The features of the test set, opened."""

    @property
    def has_held_out(self) -> bool:
        """Whether there are videos for neither training nor testing."""
        return "dev" in self.dataset.videos

    @abstractmethod
    def held_out(self) -> EventSet:
        """Videos for neither training nor testing, to fit confidence on."""

    @abstractmethod
    def for_baselines(self) -> tuple[Annotations, FeatureSource]:
        """Some of the training videos, to fit the baselines on."""

    def count(self, part: str) -> int | None:
        """How many videos of a part to use; None: all."""
        chosen = self.dataset.quick.get("videos", {}) if self.quick else self.dataset.videos
        return chosen.get(part, self.dataset.videos.get(part))

    def split(self, part: str) -> str:
        """The name of a part's split."""
        quick: Mapping[str, str] = self.dataset.quick.get("splits", {}) if self.quick else {}
        return quick.get(part, self.dataset.splits[part])

    def coverage(self) -> list[str]:
        """How much of the data set is scored, a line for each annotation file."""
        return []

    def unavailable(self, row: Row) -> str | None:
        """Why a row is not possible on this data set, or None."""
        if row.streams is not None and row.streams >= len(self.streams):
            return f"the features have {len(self.streams)} stream"
        return None


def narrowed(source: FeatureSource | None, streams: int, folder: Path) -> Path:
    """A store with the first streams alone, filled once."""
    if source is None:
        raise InputError("features without streams of their own cannot be narrowed")
    kept = source.streams[:streams]
    width = sum(size for _, size in kept)
    store = FeatureStore.create(folder, kept, resume=True)
    with store.writer(commit_every=64) as writer:
        for video in source.videos():
            if video not in store:
                track = source.track(video)
                writer.add(video, FeatureTrack(track.values[:, :width], track.clock, kept, None, track.duration))
    return folder


def fingerprint_of(source: FeatureSource) -> str:
    """A fingerprint of features: how they were made, the videos, the lengths of many and a few rows of some."""
    videos = source.videos()
    facts: list[Any] = [source.recipe.id if source.recipe else None, source.streams, videos]
    facts.append([_steps(source, video) for video in evenly(videos, SIZED)])
    digest = hashlib.sha256(json.dumps(facts).encode())
    for video in evenly(videos, READ):
        digest.update(_some_rows(source, video))
    return f"sampled-sha256:{digest.hexdigest()}"


def evenly(items: Sequence[Item], count: int) -> list[Item]:
    """At most `count` items, evenly from the first to the last."""
    chosen = np.linspace(0, len(items) - 1, min(count, len(items))).astype(int)
    return [items[index] for index in chosen.tolist()]


def _steps(source: FeatureSource, video: str) -> int | None:
    try:
        return source.extent(video).steps
    except InputError:  # a file that cannot be read is reported by whoever needs it
        return None


def _some_rows(source: FeatureSource, video: str) -> bytes:
    try:
        values_TF = source.track(video).values
    except InputError:
        return b""
    return str(values_TF.dtype).encode() + values_TF[[0, len(values_TF) // 2, -1]].tobytes()


def digest_of(file: Path) -> str:
    """The hash of a file; raises `InputError` where there is none."""
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    return fingerprint(file)
