"""Before the first step: files become datasets and a vocabulary, and one line each says what was found in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from densevid.checkpoint import load_model, load_weights
from densevid.config import Config
from densevid.data.annotations import Annotations, read_annotations, split_name
from densevid.data.dataset import SegmentDataset
from densevid.data.layouts import open_features
from densevid.data.npy_features import ArrayFeatures, ReleasedFeatures
from densevid.data.sources import FeatureSource
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataset import TimelineDataset
from densevid.timelines.sources import ComposedFeatures
from densevid.training.targets import count_without_positive

Report = Callable[[str], None]
VALIDATION_TIMELINES, VALIDATION_ANNOTATORS = 100, 5


@dataclass(frozen=True)
class DataFiles:
    """Annotation files (several annotators are pooled), the split to take of them, and where the features are."""

    annotations: tuple[Path, ...]
    features: Path
    split: str | None = None
    durations: Path | None = None
    seconds_per_step: float | None = None

    @property
    def paths(self) -> list[Path]:
        """Everything that is read."""
        return [path for path in (*self.annotations, self.features, self.durations) if path is not None]


@dataclass(frozen=True)
class ClipFiles:
    """A collection of captioned clips, of whose split timelines are composed; their features, if it has none itself."""

    clips: Path
    split: str
    features: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """Everything that is read."""
        return [path for path in (self.clips, self.features) if path is not None]

    def generator(self, seed: int) -> TimelineGenerator:
        """The timelines of a seed."""
        return TimelineGenerator(ClipCollection.read(self.clips, features=self.features), self.split, seed)


@dataclass(frozen=True)
class Prepared:
    """What a run learns from and is judged by."""

    vocabulary: Vocabulary
    training: SegmentDataset | TimelineDataset
    validation: SegmentDataset | None
    told: Annotations | None = field(default=None)  # of the validation


def prepare(
    config: Config,
    training: DataFiles | ClipFiles,
    validation: DataFiles | ClipFiles | None,
    vocabulary: Vocabulary | None,
    report: Report = lambda line: None,
) -> Prepared:
    """Open everything; without a given vocabulary one is made of the training captions."""
    dataset, vocabulary = _training_data(config, training, vocabulary, report)
    report(f"training data: {dataset.summary()}; {len(vocabulary):,} words")
    if validation is None:
        return Prepared(vocabulary, dataset, None)
    judged, source = _validation_data(config, validation, report)
    report(f"validation annotations: {judged.summary()}")
    held_out = SegmentDataset(judged, source, vocabulary, config)
    report(f"validation data: {held_out.summary()}")
    if _are_the_same(training, dataset, validation, held_out):
        same = "the validation data are the training data, the same videos of the same files"
        if isinstance(validation, DataFiles) and validation.split is not None:  # others were asked for
            raise InputError(f"{same}: nothing tells the split {validation.split!r} apart; give --validation FILE")
        report(f"warning: {same}; they tell nothing about others")
    elif isinstance(dataset, TimelineDataset) and isinstance(source, ComposedFeatures):
        shared, held = _shared_sources(dataset, source)
        if shared:
            what = f"{shared} of the {held} videos that validation clips were cut from are learnt from, too"
            report(f"warning: {what}; choose splits like train-fit and train-dev")
    return Prepared(vocabulary, dataset, held_out, judged)


def _training_data(
    config: Config, training: DataFiles | ClipFiles, vocabulary: Vocabulary | None, report: Report
) -> tuple[SegmentDataset | TimelineDataset, Vocabulary]:
    least = config.features.min_word_count
    if isinstance(training, ClipFiles):
        generator = training.generator(config.training.seed)
        vocabulary = vocabulary or Vocabulary.build(generator.sentences(), least)
        return TimelineDataset(generator, vocabulary, config), vocabulary
    told = describe_data(training, report)
    report(f"training annotations: {told.summary()}")
    vocabulary = vocabulary or Vocabulary.build(told.sentences(), least)
    dataset = SegmentDataset(told, open_source(training, told, config), vocabulary, config)
    if config.training.task != "captions":
        missing = _without_positive(dataset, config)
        share = missing / len(dataset)
        report(f"{missing:,} of {len(dataset):,} segments ({share:.1%}) have no positive anchor: negatives only")
    return dataset, vocabulary


def _validation_data(
    config: Config, validation: DataFiles | ClipFiles, report: Report
) -> tuple[Annotations, FeatureSource]:
    """What was written, or a fixed set of timelines, the same for every seed of the run."""
    if isinstance(validation, ClipFiles):
        composed = ComposedFeatures(validation.generator(seed=0), VALIDATION_TIMELINES)
        return composed.annotations(VALIDATION_ANNOTATORS), composed
    judged = describe_data(validation, report)
    return judged, open_source(validation, judged, config)


def describe_data(files: DataFiles, report: Report) -> Annotations:
    """The annotations of a split, if they or the folders of the features tell it from others; else all, and a line."""
    told = read_annotations(files.annotations, split=files.split)
    if files.split is not None and not told.with_subsets and not _has_folder(files.features, files.split):
        where = ", ".join(map(str, files.annotations))
        report(f'{where}: no video has a "subset", so all are taken for the split {files.split!r}')
    return told


def _has_folder(features: Path, split: str) -> bool:
    """Whether the features are those of a split: their folder is called so, or a folder in it is."""
    apart = features.is_dir() and not any(features.glob("*.npy"))
    folders = [features, *(folder for folder in features.iterdir() if folder.is_dir())] if apart else [features]
    return any(split_name(folder.name) == split_name(split) for folder in folders)


def _are_the_same(
    training: DataFiles | ClipFiles,
    learnt: SegmentDataset | TimelineDataset,
    validation: DataFiles | ClipFiles,
    held_out: SegmentDataset,
) -> bool:
    """The same clips, or the same videos of the same annotation files."""
    if isinstance(training, ClipFiles) or isinstance(validation, ClipFiles):
        return training == validation
    files, others = ({path.resolve() for path in each.annotations} for each in (training, validation))
    return files == others and isinstance(learnt, SegmentDataset) and set(learnt.videos) == set(held_out.videos)


def _shared_sources(learnt: TimelineDataset, composed: ComposedFeatures) -> tuple[int, int]:
    """How many source videos of the validation's clips are also learnt from, and how many it has; of one folder."""
    ours, theirs = learnt.generator, composed.generator
    if ours.collection.folder.resolve() != theirs.collection.folder.resolve():
        return 0, 0
    known, held = ({clip.source for clip in one.collection.split(one.split)} for one in (ours, theirs))
    return len(known & held), len(held)


def open_source(files: DataFiles, told: Annotations, config: Config) -> FeatureSource:
    """The features; where nothing else says how long a step is, the durations of the annotations do."""
    formula = config.features.duration_formula
    given = {"seconds_per_step": files.seconds_per_step, "duration_formula": formula, "split": files.split}
    source = open_features(files.features, durations=files.durations, **given)  # type: ignore[arg-type]
    if isinstance(source, ArrayFeatures) and not isinstance(source, ReleasedFeatures):
        known = source.clocks.seconds_per_step is not None or source.clocks.durations
        if not known:
            return open_features(files.features, durations=told.durations, **given)  # type: ignore[arg-type]
    return source


def initial_model(config: Config, vocabulary: Vocabulary, start_from: Path | None) -> MaskedTransformer:
    """A model with the weights the seed gives, or those of another model of the same shape."""
    torch.manual_seed(config.training.seed)
    model = MaskedTransformer(config, len(vocabulary))
    if start_from is not None:
        load_weights(model, load_model(start_from).model.state_dict(), where=str(start_from))
    return model


def _without_positive(dataset: SegmentDataset, config: Config) -> int:
    grid = MaskedTransformer.anchor_grid(config.model)
    length_N = torch.from_numpy(dataset.steps_V[dataset.video_N])
    return count_without_positive(grid, config.model.window, dataset.segments_N2, length_N, config.training)
