"""What a data set is on this machine: files to train on, a test set to predict and score, material for the baselines.

Timelines are composed from clips, the same for every sitting; the test set, and a fixed training set where one is
needed, are written under OUT/data. Of ActivityNet Captions and YouCook2 only the references are written, in one form
and for the videos that have features; features are read where they lie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from densevid.artifacts import fingerprint, read_json, write_json
from densevid.config import load_config
from densevid.data.annotations import Annotations, read_annotations
from densevid.data.clip_collection import ClipCollection
from densevid.data.feature_layouts import open_features
from densevid.data.feature_source import FeatureSource
from densevid.data.feature_store import FeatureStore
from densevid.data.splits import split_name
from densevid.data.timeline_set import write_timelines
from densevid.data.timeline_sources import ComposedFeatures
from densevid.data.timelines import TimelineGenerator
from densevid.errors import InputError
from densevid.reproduce.definitions import Dataset, Row
from densevid.tracks import FeatureTrack, Streams
from densevid.training.prepare import ClipFiles, DataFiles, open_source

ANNOTATORS = 5
Files = DataFiles | ClipFiles


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
        """What tells these annotations from others."""

    @abstractmethod
    def training(self, row: Row) -> Files:
        """What a row learns from."""

    @abstractmethod
    def validation(self, row: Row) -> Files | None:
        """What decides which epoch of a row is the best."""

    @abstractmethod
    def test(self, streams: int | None = None) -> EventSet:
        """What every row is judged on, with the first streams or with all."""

    @abstractmethod
    def test_source(self) -> FeatureSource:
        """The features of the test set, opened."""

    @property
    def has_held_out(self) -> bool:
        """Whether there are videos that are neither learnt from nor judged on."""
        return "dev" in self.dataset.videos

    @abstractmethod
    def held_out(self) -> EventSet:
        """Videos that are neither learnt from nor judged on, to fit confidence on."""

    @abstractmethod
    def learnt(self) -> tuple[Annotations, FeatureSource]:
        """Some of what is learnt from, for the baselines."""

    def count(self, part: str) -> int | None:
        """How many videos of a part are used; None: all."""
        chosen = self.dataset.quick.get("videos", {}) if self.quick else self.dataset.videos
        return chosen.get(part, self.dataset.videos.get(part))

    def split(self, part: str) -> str:
        """The name of a part's split."""
        quick: Mapping[str, str] = self.dataset.quick.get("splits", {}) if self.quick else {}
        return quick.get(part, self.dataset.splits[part])

    def coverage(self) -> list[str]:
        """What of the data set is judged on, where that is not said elsewhere."""
        return []

    def unavailable(self, row: Row) -> str | None:
        """Why a row cannot be had on this data set."""
        if row.streams is not None and row.streams >= len(self.streams):
            return f"the features have {len(self.streams)} stream"
        return None


class TimelineData(PreparedData):
    """Timelines composed from captioned clips."""

    @property
    def clips(self) -> Path:
        """The folder of the collection."""
        if self.inputs.clips is None:
            raise InputError(f"--data {self.dataset.name} needs --clips FOLDER, a clip collection")
        return self.inputs.clips

    @cached_property
    def collection(self) -> ClipCollection:
        """The clips with all their streams."""
        return ClipCollection.read(self.clips, features=self.inputs.features)

    @property
    def streams(self) -> Streams:
        """The clips' streams."""
        return self.collection.streams

    @cached_property
    def digest(self) -> str:
        """Of the clips' descriptions."""
        return _digest(self.clips / "clips.json")

    def training(self, row: Row) -> Files:
        """Timelines without end, or a fixed set of them."""
        if row.fixed_set:
            fixed = self._set("train", row.streams)
            return DataFiles(fixed.references, fixed.features)
        return ClipFiles(self.clips, self.split("train"), self._features(row.streams))

    def validation(self, row: Row) -> Files | None:
        """Timelines of the part of train that is set aside."""
        if self.quick:
            return None
        return ClipFiles(self.clips, self.split("dev"), self._features(row.streams))

    def test(self, streams: int | None = None) -> EventSet:
        """A fixed set of the test split."""
        return self._set("test", streams)

    def test_source(self) -> FeatureSource:
        """The store of the test set."""
        return open_features(self.test().features)

    def held_out(self) -> EventSet:
        """A fixed set of the part of train that is set aside."""
        return self._set("dev", None)

    def learnt(self) -> tuple[Annotations, FeatureSource]:
        """The first timelines of the training split."""
        generator = TimelineGenerator(self.collection, self.split("train"), seed=0)
        composed = ComposedFeatures(generator, self.count("train") or 0)
        return composed.annotations(ANNOTATORS), composed

    def _set(self, part: str, streams: int | None) -> EventSet:
        """Write a set, once; the same command on another machine writes the same."""
        folder = self.folder / (part if streams is None else f"{part}-{streams}-stream")
        about = folder / "timelines.json"
        if not (about.exists() and read_json(about).get("complete")):
            collection = ClipCollection.read(self.clips, features=self._features(streams))
            generator = TimelineGenerator(collection, self.split(part), seed=0)
            write_timelines(generator, self.count(part) or 0, folder, ANNOTATORS, lambda video: None)
        return EventSet(tuple(sorted(folder.glob("references_*.json"))), folder / "features")

    def _features(self, streams: int | None) -> Path | None:
        if streams is None:
            return self.inputs.features
        return narrowed(self.collection.extracted, streams, self.folder / f"clips-{streams}-stream")


class PaperData(PreparedData):
    """ActivityNet Captions or YouCook2: annotation files as published, features in any layout."""

    @property
    def annotations(self) -> Path:
        """The folder of the annotation files."""
        if self.inputs.annotations is None or self.inputs.features is None:
            raise InputError(f"--data {self.dataset.name} needs --annotations FOLDER and --features FOLDER")
        return self.inputs.annotations

    @cached_property
    def streams(self) -> Streams:
        """The streams of the training features."""
        return open_features(self._features("train", None)).streams

    @cached_property
    def digest(self) -> str:
        """Of the training annotations."""
        return _digest(self._files("train")[0])

    def training(self, row: Row) -> Files:
        """The published training annotations."""
        return DataFiles(self._files("train"), self._features("train", row.streams), self.split("train"))

    def validation(self, row: Row) -> Files | None:
        """The validation set, as in the paper, which tuned and reported on it."""
        return None if self.quick else DataFiles(self.test().references, self._features("test", row.streams))

    def test(self, streams: int | None = None) -> EventSet:
        """The validation set: the videos that have features."""
        written = self.folder / "test" / "test.json"
        if not written.exists():
            self._write_references(written)
        found = tuple(sorted(written.parent.glob("references_*.json")))
        return EventSet(found, self._features("test", streams))

    def coverage(self) -> list[str]:
        """How many of the annotated videos have features."""
        counts = read_json(self.folder / "test" / "test.json")["videos"]
        return [f"{name}: {each['with_features']:,} of {each['annotated']:,} videos" for name, each in counts.items()]

    def test_source(self) -> FeatureSource:
        """The features of the validation set."""
        return self._source("test", self.test().annotations())

    def held_out(self) -> EventSet:
        """There are none."""
        raise InputError(f"{self.dataset.title} has no videos that are neither learnt from nor judged on")

    def learnt(self) -> tuple[Annotations, FeatureSource]:
        """The first training videos that have features."""
        told = read_annotations(self._files("train"), split=self.split("train"))
        source = self._source("train", told)
        videos = [video for video in told.events if video in source][: self.count("train")]
        return _only(told, videos), source

    def _files(self, part: str) -> tuple[Path, ...]:
        return tuple(self.annotations / name for name in self.dataset.annotations[part])

    def _features(self, part: str, streams: int | None) -> Path:
        root = self.inputs.features
        assert root is not None and self.annotations
        folder = split_folder(root, self.split(part))
        if streams is None:
            return folder
        return narrowed(open_features(folder), streams, self.folder / f"{part}-{streams}-stream")

    def _source(self, part: str, told: Annotations) -> FeatureSource:
        config = load_config(self.dataset.presets["dense"][0])
        return open_source(DataFiles((), self._features(part, None)), told, config)

    def _write_references(self, about: Path) -> None:
        source = open_features(self._features("test", None))
        told_by = {file: read_annotations(file, split=self.split("test")) for file in self._files("test")}
        chosen = [video for told in told_by.values() for video in told.events if video in source]
        chosen = chosen[: self.count("test")] if self.quick else chosen
        if not chosen:
            raise InputError(f"{source}: holds no video of the annotations; are the ids written the same way?")
        counts, wanted = {}, set(chosen)
        for number, (file, told) in enumerate(told_by.items(), start=1):
            videos = [video for video in told.events if video in wanted and told.events[video]]
            write_json(about.parent / f"references_{number}.json", _reference_file(_only(told, videos)))
            counts[file.name] = {"annotated": len(told), "with_features": len(videos)}
        write_json(about, {"videos": counts})


def prepared(dataset: Dataset, inputs: Inputs, folder: Path, *, quick: bool) -> PreparedData:
    """The data set on this machine."""
    kind = TimelineData if dataset.family == "timelines" else PaperData
    return kind(dataset, inputs, folder, quick=quick)


def split_folder(root: Path, split: str) -> Path:
    """The folder of a split under a feature folder, or the folder itself where there is none."""
    if not root.is_dir():
        raise InputError(f"{root}: no such folder of features")
    own = [
        folder for folder in sorted(root.iterdir()) if folder.is_dir() and split_name(folder.name) == split_name(split)
    ]
    return own[0] if own else root


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


def _digest(file: Path) -> str:
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    return fingerprint(file)


def _only(told: Annotations, videos: list[str]) -> Annotations:
    return Annotations({v: told.events[v] for v in videos}, {v: told.durations.get(v) for v in videos}, [])


def _reference_file(told: Annotations) -> dict[str, Any]:
    return {
        video: {
            "duration": told.durations[video],
            "timestamps": [[event.start, event.end] for event in events],
            "sentences": [event.sentence for event in events],
        }
        for video, events in told.events.items()
    }
