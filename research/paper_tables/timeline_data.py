"""Timelines composed from captioned clips as a data set: endless for training, fixed sets for testing.

The sets are written under OUT/data, the same by every run and on every machine.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from densevid.data.annotations import Annotations
from densevid.data.layouts import open_features
from densevid.data.sources import FeatureSource
from densevid.errors import InputError
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.export import write_timelines
from densevid.timelines.sources import ComposedFeatures
from densevid.tracks import Streams
from densevid.training.data import ClipFiles, DataFiles
from research.paper_tables.definitions import Row
from research.paper_tables.fact_files import read_facts
from research.paper_tables.prepared_data import EventSet, Files, PreparedData, digest_of, narrowed

ANNOTATORS = 5


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
        found = ClipCollection.read(self.clips, features=self.inputs.features)
        if found.features is None:
            raise InputError(f"{self.clips}: has no features.npy; extract features of its clips, for --features")
        return found

    @property
    def streams(self) -> Streams:
        """The clips' streams."""
        return self.collection.streams

    @cached_property
    def digest(self) -> str:
        """Of the clips' descriptions."""
        return digest_of(self.clips / "clips.json")

    @cached_property
    def fingerprints(self) -> dict[str, dict[str, str]]:
        """The clips' descriptions; how their features were made, and the features themselves."""
        features = {"recipe": self.collection.recipe.id, "clips": self.collection.fingerprint}
        return {"files": {"clips.json": self.digest}, "features": features}

    def training(self, row: Row) -> Files:
        """Endless timelines, or a fixed set of them."""
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

    def for_baselines(self) -> tuple[Annotations, FeatureSource]:
        """The first timelines of the training split."""
        generator = TimelineGenerator(self.collection, self.split("train"), seed=0)
        composed = ComposedFeatures(generator, self.count("baselines") or 0)
        return composed.annotations(ANNOTATORS), composed

    def _set(self, part: str, streams: int | None) -> EventSet:
        """Write a set, once; the same command on another machine writes the same."""
        folder = self.folder / (part if streams is None else f"{part}-{streams}-stream")
        about = folder / "timelines.json"
        remedy = f"remove {folder} to have it made again"
        if not (about.exists() and read_facts(about, remedy, complete=bool)["complete"]):
            collection = ClipCollection.read(self.clips, features=self._features(streams))
            generator = TimelineGenerator(collection, self.split(part), seed=0)
            write_timelines(generator, self.count(part) or 0, folder, ANNOTATORS, lambda video: None)
        return EventSet(tuple(sorted(folder.glob("references_*.json"))), folder / "features")

    def _features(self, streams: int | None) -> Path | None:
        if streams is None:
            return self.inputs.features
        return narrowed(self.collection.extracted, streams, self.folder / f"clips-{streams}-stream")
