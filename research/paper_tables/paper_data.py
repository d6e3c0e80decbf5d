"""ActivityNet Captions and YouCook2 as data sets: annotation files as published, features as their archives hold them.

Only references are written under OUT/data, in one form and for the videos that have features; features are read where
they lie.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from densevid.config import load_config
from densevid.data.annotations import Annotations, read_annotations, split_name
from densevid.data.layouts import open_features
from densevid.data.sources import FeatureSource
from densevid.errors import InputError
from densevid.io import write_json
from densevid.tracks import Streams
from densevid.training.data import DataFiles, open_source
from research.paper_tables.definitions import Row
from research.paper_tables.fact_files import read_facts
from research.paper_tables.prepared_data import EventSet, Files, PreparedData, digest_of, fingerprint_of, narrowed


class PaperData(PreparedData):
    """ActivityNet Captions or YouCook2: annotation files as published, features in any layout."""

    @property
    def annotations(self) -> Path:
        """The folder of the annotation files."""
        return self._folders[0]

    @property
    def _folders(self) -> tuple[Path, Path]:
        """Of annotations and of features; neither is of use without the other."""
        annotations, features = self.inputs.annotations, self.inputs.features
        if annotations is None or features is None:
            raise InputError(f"--data {self.dataset.name} needs --annotations FOLDER and --features FOLDER")
        return annotations, features

    @cached_property
    def streams(self) -> Streams:
        """The streams of the training features."""
        return open_features(self._features("train", None)).streams

    @cached_property
    def digest(self) -> str:
        """Of the training annotations."""
        return digest_of(self._files("train")[0])

    @cached_property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        """All annotation files and the duration files beside the features; the features of each split."""
        folders = {part: self._features(part, None) for part in ("train", "test")}
        annotated = {name: self.annotations / name for names in self.dataset.annotations.values() for name in names}
        beside = {folder for path in folders.values() for folder in (path, path.parent)}
        timed = {file.name: file for folder in sorted(beside) for file in folder.glob("*_duration_frame.csv")}
        features = {part: fingerprint_of(open_features(path, seconds_per_step=1.0)) for part, path in folders.items()}
        return {"files": {name: digest_of(file) for name, file in (annotated | timed).items()}, "features": features}

    def training(self, row: Row) -> Files:
        """The published training annotations; where one file holds all splits, its training part."""
        files = self._files("train")
        split = self.split("train") if set(files) & set(self._files("test")) else None
        return DataFiles(files, self._features("train", row.streams), split)

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
        about = self.folder / "test" / "test.json"
        counts = read_facts(about, "remove it to have it made again", videos=dict)["videos"]
        return [f"{name}: {each['with_features']:,} of {each['annotated']:,} videos" for name, each in counts.items()]

    def test_source(self) -> FeatureSource:
        """The features of the validation set."""
        return self._source("test", self.test().annotations())

    def held_out(self) -> EventSet:
        """The paper's data sets have none."""
        raise InputError(f"{self.dataset.title} has no videos for neither training nor testing")

    def for_baselines(self) -> tuple[Annotations, FeatureSource]:
        """The first training videos that have features."""
        annotations = read_annotations(self._files("train"), split=self.split("train"))
        source = self._source("train", annotations)
        videos = [video for video in annotations.events if video in source][: self.count("baselines")]
        return _only(annotations, videos), source

    def _files(self, part: str) -> tuple[Path, ...]:
        return tuple(self.annotations / name for name in self.dataset.annotations[part])

    def _features(self, part: str, streams: int | None) -> Path:
        folder = split_folder(self._folders[1], self.split(part))
        if streams is None:
            return folder
        return narrowed(open_features(folder), streams, self.folder / f"{part}-{streams}-stream")

    def _source(self, part: str, annotations: Annotations) -> FeatureSource:
        config = load_config(self.dataset.presets["dense"][0])
        return open_source(DataFiles((), self._features(part, None)), annotations, config)

    def _write_references(self, about: Path) -> None:
        source = open_features(self._features("test", None))
        by_file = {file: read_annotations(file, split=self.split("test")) for file in self._files("test")}
        chosen = [video for own in by_file.values() for video in own.events if video in source]
        chosen = chosen[: self.count("test")] if self.quick else chosen
        if not chosen:
            raise InputError(f"{source}: holds no video of the annotations; compare how both write the ids")
        counts, wanted = {}, set(chosen)
        for number, (file, own) in enumerate(by_file.items(), start=1):
            videos = [video for video in own.events if video in wanted and own.events[video]]
            write_json(about.parent / f"references_{number}.json", _reference_file(_only(own, videos)))
            counts[file.name] = {"annotated": len(own), "with_features": len(videos)}
        write_json(about, {"videos": counts})


def split_folder(root: Path, split: str) -> Path:
    """The folder of a split under a feature folder, or the folder itself where there is none."""
    if not root.is_dir():
        raise InputError(f"{root}: no such folder of features")
    own = [
        folder for folder in sorted(root.iterdir()) if folder.is_dir() and split_name(folder.name) == split_name(split)
    ]
    return own[0] if own else root


def _only(annotations: Annotations, videos: list[str]) -> Annotations:
    events = {video: annotations.events[video] for video in videos}
    return Annotations(events, {video: annotations.durations.get(video) for video in videos}, [])


def _reference_file(annotations: Annotations) -> dict[str, Any]:
    return {
        video: {
            "duration": annotations.durations[video],
            "timestamps": [[event.start, event.end] for event in events],
            "sentences": [event.sentence for event in events],
        }
        for video, events in annotations.events.items()
    }
