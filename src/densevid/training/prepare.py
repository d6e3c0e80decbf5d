"""Before the first step: files become datasets and a vocabulary, and one line each says what was found in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from densevid.checkpoint import load_model, load_weights
from densevid.config import Config
from densevid.data.annotations import Annotations, read_annotations
from densevid.data.array_features import ArrayFeatures
from densevid.data.batches import SegmentDataset
from densevid.data.feature_layouts import open_features
from densevid.data.feature_source import FeatureSource
from densevid.data.npy_features import ReleasedFeatures
from densevid.data.vocabulary import Vocabulary
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.targets import count_without_positive

Report = Callable[[str], None]


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
class Prepared:
    """What a run learns from and is judged by."""

    vocabulary: Vocabulary
    training: SegmentDataset
    validation: SegmentDataset | None
    told: Annotations | None = field(default=None)  # of the validation


def prepare(
    config: Config,
    training: DataFiles,
    validation: DataFiles | None,
    vocabulary: Vocabulary | None,
    report: Report = lambda line: None,
) -> Prepared:
    """Open everything; without a given vocabulary one is made of the training captions."""
    told = read_annotations(training.annotations, split=training.split)
    report(f"training annotations: {told.summary()}")
    vocabulary = vocabulary or Vocabulary.build(told.sentences(), config.features.min_word_count)
    dataset = SegmentDataset(told, open_source(training, told, config), vocabulary, config)
    report(f"training data: {dataset.report.summary()}; {len(vocabulary):,} words")
    if config.training.task != "captions":
        missing = _without_positive(dataset, config)
        share = missing / len(dataset)
        report(f"{missing:,} of {len(dataset):,} segments ({share:.1%}) have no positive anchor: negatives only")
    if validation is None:
        return Prepared(vocabulary, dataset, None)
    judged = read_annotations(validation.annotations, split=validation.split)
    report(f"validation annotations: {judged.summary()}")
    held_out = SegmentDataset(judged, open_source(validation, judged, config), vocabulary, config)
    report(f"validation data: {held_out.report.summary()}")
    return Prepared(vocabulary, dataset, held_out, judged)


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
