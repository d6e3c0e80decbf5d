"""The data of a run: annotation files and features, or clips, become datasets and a vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from densevid.checkpoint import load_model, load_weights, set_classes
from densevid.config import Config, FeaturesConfig
from densevid.data.annotations import Annotations, read_annotations, split_name
from densevid.data.dataset import SegmentDataset
from densevid.data.layouts import open_features
from densevid.data.npy_features import ArrayFeatures, ReleasedFeatures
from densevid.data.sources import FeatureSource
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.timelines.captions import CaptionCollection, CaptionFolder, read_captions
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataset import TimelineDataset
from densevid.timelines.sources import ComposedFeatures
from densevid.training.targets import count_without_positive

Report = Callable[[str], None]
STYLE_BIAS = -30.0  # the logit of style tokens, which begin sentences and are never generated
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
    captions: tuple[CaptionFolder, ...] = ()  # further clips and pictures, from which words alone are learned

    @property
    def paths(self) -> list[Path]:
        """Everything that is read."""
        captions = [folder.path for folder in self.captions]
        return [path for path in (self.clips, self.features, *captions) if path is not None]

    def caption_collections(self, generator: TimelineGenerator, features: FeaturesConfig) -> list[CaptionCollection]:
        """The further collections, without clips of sources that the timelines' collection holds out."""
        used = {clip.source for clip in generator.collection.split(self.split)}
        held_out = {clip.source for clip in generator.collection.clips} - used
        return read_captions(self.captions, features, held_out)

    def generator(self, seed: int) -> TimelineGenerator:
        """The timelines of a seed."""
        return TimelineGenerator(ClipCollection.read(self.clips, features=self.features), self.split, seed)


@dataclass(frozen=True)
class PreparedData:
    """The training and validation data of a run."""

    vocabulary: Vocabulary
    training: SegmentDataset | TimelineDataset
    validation: SegmentDataset | None
    validation_annotations: Annotations | None = None


def prepare(
    config: Config,
    training: DataFiles | ClipFiles,
    validation: DataFiles | ClipFiles | None,
    vocabulary: Vocabulary | None,
    report: Report = lambda line: None,
) -> PreparedData:
    """Open the data, and report what was found in it.

    Args:
        config: The settings of the run.
        training: Annotated videos, or clips to compose timelines of.
        validation: Held-out data of either kind.
        vocabulary: The words; by default they are those of the training captions.
        report: Prints a line for the user.

    Raises:
        InputError: The data cannot be used, or the validation split is not separable from the training data.
    """
    dataset, vocabulary = _training_data(config, training, vocabulary, report)
    report(f"training data: {dataset.summary()}; {len(vocabulary):,} words")
    if validation is None:
        return PreparedData(vocabulary, dataset, None)
    annotations, source = _validation_data(config, validation, report)
    report(f"validation annotations: {annotations.summary()}")
    held_out = SegmentDataset(annotations, source, vocabulary, config)
    report(f"validation data: {held_out.summary()}")
    if _are_the_same(training, dataset, validation, held_out):
        same = "the validation data are the training data, the same videos of the same files"
        if isinstance(validation, DataFiles) and validation.split is not None:
            raise InputError(f"{same}: the split {validation.split!r} has no videos of its own; give --validation FILE")
        report(f"warning: {same}; their scores do not generalize")
    elif isinstance(dataset, TimelineDataset) and isinstance(source, ComposedFeatures):
        shared, held = _shared_sources(dataset, source)
        if shared:
            what = f"{shared} of the {held} source videos of the validation clips are also in the training data"
            report(f"warning: {what}; choose splits like train-fit and train-dev")
    return PreparedData(vocabulary, dataset, held_out, annotations)


def _training_data(
    config: Config, training: DataFiles | ClipFiles, vocabulary: Vocabulary | None, report: Report
) -> tuple[SegmentDataset | TimelineDataset, Vocabulary]:
    least = config.features.min_word_count
    if isinstance(training, ClipFiles):
        generator = training.generator(config.training.seed)
        captions = training.caption_collections(generator, config.features)
        sentences = [*generator.sentences(), *(text for each in captions for text in each.sentences)]
        styles = [each.style for each in captions if each.style]
        vocabulary = vocabulary or Vocabulary.build(sentences, least, styles, _class_texts(config))
        if unknown := sorted(set(styles) - vocabulary.styles.keys()):
            raise InputError(f"--captions: the model of --from has not learned the style {unknown[0]!r}")
        return TimelineDataset(generator, vocabulary, config, captions), vocabulary
    annotations = read_split(training, report)
    report(f"training annotations: {annotations.summary()}")
    vocabulary = vocabulary or Vocabulary.build(annotations.sentences(), least)
    dataset = SegmentDataset(annotations, open_source(training, annotations, config), vocabulary, config)
    if config.training.task != "captions":
        missing = _without_positive(dataset, config)
        share = missing / len(dataset)
        report(f"{missing:,} of {len(dataset):,} segments ({share:.1%}) have no positive anchor: negatives only")
    return dataset, vocabulary


def _class_texts(config: Config) -> list[str]:
    """The phrases of actions, for a model with tags of them: a class may be named though no caption has its words."""
    if not config.model.tags or "actions" not in config.features.streams:
        return []
    from densevid.video.labels import class_texts

    return list(class_texts("actions"))


def _validation_data(
    config: Config, validation: DataFiles | ClipFiles, report: Report
) -> tuple[Annotations, FeatureSource]:
    """Annotated videos, or a fixed set of timelines, the same for every seed of the run."""
    if isinstance(validation, ClipFiles):
        composed = ComposedFeatures(validation.generator(seed=0), VALIDATION_TIMELINES)
        return composed.annotations(VALIDATION_ANNOTATORS), composed
    annotations = read_split(validation, report)
    return annotations, open_source(validation, annotations, config)


def read_split(files: DataFiles, report: Report) -> Annotations:
    """The annotations of `files.split`; all, with a line, where neither they nor the feature folders have splits."""
    annotations = read_annotations(files.annotations, split=files.split)
    if files.split is not None and not annotations.with_subsets and not _has_folder(files.features, files.split):
        where = ", ".join(map(str, files.annotations))
        report(f'{where}: no video has a "subset", so all are taken for the split {files.split!r}')
    return annotations


def _has_folder(features: Path, split: str) -> bool:
    """Whether the folder of the features, or a folder in it, has the name of a split."""
    apart = features.is_dir() and not any(features.glob("*.npy"))
    folders = [features, *(folder for folder in features.iterdir() if folder.is_dir())] if apart else [features]
    return any(split_name(folder.name) == split_name(split) for folder in folders)


def _are_the_same(
    training: DataFiles | ClipFiles,
    dataset: SegmentDataset | TimelineDataset,
    validation: DataFiles | ClipFiles,
    held_out: SegmentDataset,
) -> bool:
    """The same clips, or the same videos of the same annotation files."""
    if isinstance(training, ClipFiles) or isinstance(validation, ClipFiles):
        return training == validation
    files, others = ({path.resolve() for path in each.annotations} for each in (training, validation))
    return files == others and isinstance(dataset, SegmentDataset) and set(dataset.videos) == set(held_out.videos)


def _shared_sources(dataset: TimelineDataset, composed: ComposedFeatures) -> tuple[int, int]:
    """How many source videos of the validation clips are also trained on, and how many there are, of one folder."""
    ours, theirs = dataset.generator, composed.generator
    if ours.collection.folder.resolve() != theirs.collection.folder.resolve():
        return 0, 0
    known, held = ({clip.source for clip in one.collection.split(one.split)} for one in (ours, theirs))
    return len(known & held), len(held)


def open_source(files: DataFiles, annotations: Annotations, config: Config) -> FeatureSource:
    """Open the features of a split.

    Args:
        files: Where the features are, and perhaps their clock.
        annotations: Their durations give the clock where nothing else does.
        config: The settings, with the release's duration formula.
    """
    formula = config.features.duration_formula
    given = {"seconds_per_step": files.seconds_per_step, "duration_formula": formula, "split": files.split}
    source = open_features(files.features, durations=files.durations, **given)  # type: ignore[arg-type]
    if isinstance(source, ArrayFeatures) and not isinstance(source, ReleasedFeatures):
        known = source.clocks.seconds_per_step is not None or source.clocks.durations
        if not known:
            return open_features(files.features, durations=annotations.durations, **given)  # type: ignore[arg-type]
    return source


def initial_model(config: Config, vocabulary: Vocabulary, start_from: Path | None) -> MaskedTransformer:
    """A model with random weights of the seed, or those of the model folder `start_from`, which has the same shape."""
    torch.manual_seed(config.training.seed)
    model = MaskedTransformer(config, len(vocabulary))
    with torch.no_grad():
        for token in vocabulary.styles.values():
            model.caption_decoder.words.bias[token] = STYLE_BIAS
    set_classes(model, config, vocabulary)
    if start_from is not None:
        load_weights(model, load_model(start_from).model.state_dict(), where=str(start_from))
    return model


def _without_positive(dataset: SegmentDataset, config: Config) -> int:
    grid = MaskedTransformer.anchor_grid(config.model)
    length_N = torch.from_numpy(dataset.steps_V[dataset.video_N])
    return count_without_positive(grid, config.model.window, dataset.segments_N2, length_N, config.training)
