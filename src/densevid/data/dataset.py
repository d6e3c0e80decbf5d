"""Hashes of what a dataset teaches, by which a run that goes on knows its data again.

Features enter by their recipe, streams and lengths, whatever they weigh; those of clips, which are read whole, as they
are.

Batches: a sample is one annotated segment of a video, with all the video's events beside it.

Times become steps here, by each track's own clock, and everything is cut to the model's window: of a longer video the
first `model.window` steps are seen, and an event counts as far as it lies in them. Which samples share a batch, and in
which order, is `loading`'s to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.sources import FeatureSource, reduction_of, streams_text
from densevid.data.vocabulary import PAD, Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.io import hash_of
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.rows import BatchRows, FootageRows
from densevid.tracks import Extent, FeatureRecipe, FloatArray
from densevid.video.reduction import Reduction


def hash_of_segments(told: Sequence[Event], segments_N2: Tensor, source: FeatureSource) -> str:
    """Of all sentences, where they are said, in seconds and in steps, and how the features were made."""
    return hash_of(
        {
            "told": [(event.start, event.end, event.sentence) for event in told],
            "segments": segments_N2.tolist(),
            "streams": source.streams,
            "recipe": None if source.recipe is None else source.recipe.id,
        }
    )


def hash_of_clips(generator: TimelineGenerator) -> str:
    """Of all that is said of the clips of the generator's split, and of the collection's features."""
    collection = generator.collection
    clips = collection.split(generator.split)
    return hash_of(
        {
            "clips": [(clip.name, clip.source, clip.seconds, clip.captions, clip.rows) for clip in clips],
            "seconds_per_step": generator.tick,
            "streams": collection.streams,
            "recipe": collection.recipe.id,
            "features": collection.fingerprint,
        }
    )


@dataclass(frozen=True)
class Sample:
    """One segment of a video, several that share its features, or none, with all the video's events, in steps."""

    number_P: Tensor  # numbers of the segments in their dataset
    video: str
    steps: int
    features_TF: FloatArray | None  # a view of the file they come from; None if they are somewhere else already
    events_G2: Tensor
    segment_index_P: Tensor  # which of the events the segments are
    words_PL: Tensor
    rows: FootageRows | None = None  # of footage that lies on the device


@dataclass(frozen=True)
class Batch:
    """Samples side by side: B videos of T = window steps, P segments of them, G events a video, L = max_words + 1.

    With one segment a video, B and P are the same; with several, `video_P` says whose each one is.
    """

    videos: list[str]
    features_BTF: Tensor  # in the precision they are stored in, zero where there is no video
    valid_BT: Tensor  # True where the video is
    events_BG2: Tensor  # all events of each video, in steps, zero where there is none
    event_valid_BG: Tensor
    sample_P: Tensor  # number of the segment in its dataset
    segment_P2: Tensor  # the segment, in steps
    segment_index_P: Tensor  # which of the events that is
    words_PL: Tensor  # <init>, words, <eos>, then <pad>
    video_P: Tensor | None = None  # the row of each segment's video; None: its own
    padded: bool = True  # False: every step of every video is valid
    clips: Batch | None = None  # trimmed clips beside these videos: their captions alone are learnt
    rows: BatchRows | None = None  # what the features are to be gathered from, where all footage lies on the device

    def __len__(self) -> int:
        return len(self.sample_P)

    def to(self, device: torch.device | str) -> Batch:
        """The batch on another device; from pinned memory the copy does not wait."""
        return self._with_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """The batch in memory that a GPU can fetch by itself."""
        return self._with_tensors(lambda tensor: tensor.pin_memory())

    def of_segments(self, per_video: Tensor) -> Tensor:
        """What belongs to each video, one row per segment."""
        return per_video if self.video_P is None else per_video[self.video_P]

    def _with_tensors(self, change: Callable[[Tensor], Tensor]) -> Batch:
        clips = None if self.clips is None else self.clips._with_tensors(change)
        rows = None if self.rows is None else replace(self.rows, **_changed(self.rows, change))
        return replace(self, **_changed(self, change), clips=clips, rows=rows)


def _changed(holder: Batch | BatchRows, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """All tensors of a dataclass, changed."""
    return {name: change(value) for name, value in vars(holder).items() if isinstance(value, Tensor)}


@dataclass(frozen=True)
class SampleReport:
    """How much of the annotations can be trained on, and what cannot."""

    samples: int
    videos: int
    without_features: int
    outside_window: int
    cut_by_window: int

    def summary(self) -> str:
        """One line."""
        text = f"{self.samples:,} segments of {self.videos:,} videos"
        lost = {
            "videos without features": self.without_features,
            "segments outside the window left out": self.outside_window,
            "segments cut at the end of the window": self.cut_by_window,
        }
        return "; ".join([text, *(f"{count:,} {what}" for what, count in lost.items() if count)])


class SegmentDataset(Dataset[Sample]):
    """Every annotated segment that lies, at least in part, in the window of a video that has features.

    What it knows of N segments in V videos is a handful of arrays, which loading processes share with this one.
    """

    def __init__(self, annotations: Annotations, source: FeatureSource, vocabulary: Vocabulary, config: Config) -> None:
        self.source, self.window = source, config.model.window
        _require_widths(source, config)
        self.told: list[Event] = []
        events: list[npt.NDArray[np.float64]] = [np.empty((0, 2))]
        outside = cut = 0
        self.videos = [video for video in annotations.events if video in source]
        extents = [source.extent(video) for video in self.videos]
        for video, extent in zip(self.videos, extents, strict=True):
            told = annotations.events[video]
            steps_G2, kept_G, cut_G = events_in_window(told, extent, self.window)
            events.append(steps_G2[kept_G])
            self.told += [event for event, kept in zip(told, kept_G, strict=True) if kept]
            outside += int((~kept_G).sum())
            cut += int(cut_G.sum())
        if not self.told:
            raise InputError(_nothing_to_train_on(annotations, source, self.videos))
        count_V = np.array([len(rows) for rows in events[1:]])
        self.first_V = np.cumsum(count_V) - count_V
        self.video_N = np.repeat(np.arange(len(self.videos)), count_V)
        self.steps_V = np.array([min(extent.steps, self.window) for extent in extents])
        self.segments_N2 = torch.from_numpy(np.concatenate(events)).float()
        self.words_NL = encode_all(vocabulary, [event.sentence for event in self.told], config.training.max_words)
        missing = len(annotations) - len(self.videos)
        self.report = SampleReport(len(self), len(self.videos), missing, outside, cut)

    def __len__(self) -> int:
        return len(self.video_N)

    @property
    def recipe(self) -> FeatureRecipe | None:
        """How the features were made."""
        return self.source.recipe

    @property
    def reduction(self) -> Reduction | None:
        """What they were reduced by."""
        return reduction_of(self.source)

    @property
    def fingerprint(self) -> dict[str, object]:
        """What tells this data from other data at a glance."""
        return {"videos": self.videos, "segments": self.segments_N2.tolist()}

    @cached_property
    def content(self) -> str:
        """A hash of all that can be learnt from it."""
        return hash_of_segments(self.told, self.segments_N2, self.source)

    def summary(self) -> str:
        """One line."""
        return self.report.summary()

    def __getitem__(self, number: int) -> Sample:
        return self.sample([number])

    def sample(self, numbers: Sequence[int], *, with_features: bool = True) -> Sample:
        """One or more segments of the same video."""
        number_P = torch.tensor(numbers)
        row = int(self.video_N[numbers[0]])
        video, first, steps = self.videos[row], int(self.first_V[row]), int(self.steps_V[row])
        last = int(self.first_V[row + 1]) if row + 1 < len(self.videos) else len(self)
        features_TF = self.source.track(video).values[:steps] if with_features else None
        events_G2 = self.segments_N2[first:last]
        return Sample(number_P, video, steps, features_TF, events_G2, number_P - first, self.words_NL[number_P])

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """A batch at this dataset's window: what a DataLoader wants as `collate_fn`."""
        return collate(samples, self.window)


def collate(samples: Sequence[Sample], window: int) -> Batch:
    """Put samples side by side, padded to the window."""
    steps_B = torch.tensor([sample.steps for sample in samples])
    count_B = torch.tensor([len(sample.events_G2) for sample in samples])
    events_BG2 = pad_sequence([sample.events_G2 for sample in samples], batch_first=True)
    if not events_BG2.shape[1]:  # nothing happens in any of them: an empty place, so that there is one to compare with
        events_BG2 = events_BG2.new_zeros(len(samples), 1, 2)
    index_P = torch.cat([sample.segment_index_P for sample in samples])
    segments_B = torch.tensor([len(sample.number_P) for sample in samples])
    row_P = torch.repeat_interleave(segments_B)
    return Batch(
        videos=[sample.video for sample in samples],
        features_BTF=_padded_features(samples, window),
        valid_BT=torch.arange(window) < steps_B[:, None],
        events_BG2=events_BG2,
        event_valid_BG=torch.arange(events_BG2.shape[1]) < count_B[:, None],
        sample_P=torch.cat([sample.number_P for sample in samples]),
        segment_P2=events_BG2[row_P, index_P],
        segment_index_P=index_P,
        words_PL=torch.cat([sample.words_PL for sample in samples]),
        video_P=None if bool((segments_B == 1).all()) else row_P,
        padded=bool((steps_B < window).any()),
        rows=BatchRows.of(rows, window) if (rows := [sample.rows for sample in samples if sample.rows]) else None,
    )


def _padded_features(samples: Sequence[Sample], window: int) -> Tensor:
    """B x window x F, as float16 where it is stored so (half the bytes to move), else as float32."""
    stored = [sample.features_TF for sample in samples if sample.features_TF is not None]
    if not stored:
        return torch.empty(len(samples), 0, 0)
    half = all(values.dtype == np.float16 for values in stored)
    features_BTF = np.zeros((len(samples), window, stored[0].shape[1]), np.float16 if half else np.float32)
    for features_TF, values in zip(features_BTF, stored, strict=True):
        features_TF[: len(values)] = values
    return torch.from_numpy(features_BTF)


def events_in_window(
    events: Sequence[Event], extent: Extent, window: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Events in steps, cut to the window; which of them have a part in it; which of those were cut at the end."""
    seconds_G2 = np.array([(event.start, event.end) for event in events], dtype=np.float64).reshape(-1, 2)
    steps_G2 = extent.clock.steps(seconds_G2)
    limit = min(extent.steps, window)
    inside_G2 = steps_G2.clip(0, limit)
    kept_G = inside_G2[:, 0] < inside_G2[:, 1]
    return inside_G2, kept_G, kept_G & (steps_G2[:, 1] > window)


def encode_all(vocabulary: Vocabulary, sentences: Sequence[str], max_words: int) -> Tensor:
    """The ids of all sentences, N x (max_words + 1), padded with `<pad>`."""
    rows = [vocabulary.encode(sentence, max_words) for sentence in sentences]
    padded = [row + [PAD] * (max_words + 1 - len(row)) for row in rows]
    return torch.tensor(padded, dtype=torch.int64).reshape(-1, max_words + 1)


def _require_widths(source: FeatureSource, config: Config) -> None:
    if tuple(width for _, width in source.streams) != config.features.widths:
        wanted = streams_text(tuple(zip(config.features.streams, config.features.widths, strict=True)))
        raise InputError(
            f"the features are {streams_text(source.streams)}, the settings want {wanted};"
            f" to learn from them: --set 'features.streams={json.dumps([name for name, _ in source.streams])}'"
            f" --set 'features.widths={[width for _, width in source.streams]}'"
        )


def _nothing_to_train_on(annotations: Annotations, source: FeatureSource, here: list[str]) -> str:
    if here:
        return f"none of the events of {len(here)} videos with features lies in the window; see model.window"
    ids = [repr(video) for video in source.videos()[:1]] or ["nothing at all"]
    like = f"the annotations have ids like {next(iter(annotations.events))!r}, the features {ids[0]}"
    return f"no annotated video has features: {like}"
