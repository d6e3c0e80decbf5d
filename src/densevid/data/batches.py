"""Batches: a sample is one annotated segment of a video, with all the video's events beside it.

Times become steps here, by each track's own clock, and everything is cut to the model's window: of a longer video the
first `model.window` steps are seen, and an event counts as far as it lies in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.feature_source import FeatureSource, streams_text
from densevid.data.vocabulary import PAD, Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.tracks import Extent


@dataclass(frozen=True)
class Sample:
    """One segment: the features of its video, the video's events in steps, which of them it is, and its words."""

    video: str
    features_TF: Tensor
    events_G2: Tensor
    segment_index: int
    words_L: Tensor


@dataclass(frozen=True)
class Batch:
    """Samples side by side: B samples, T = window steps, F features, G events at most, L = max_words + 1 words."""

    videos: list[str]
    features_BTF: Tensor  # float32, zero where there is no video
    valid_BT: Tensor  # True where the video is
    events_BG2: Tensor  # all events of the sample's video, in steps, zero where there is none
    event_valid_BG: Tensor
    segment_B2: Tensor  # the sample's own segment, in steps
    segment_index_B: Tensor  # which of the events that is
    words_BL: Tensor  # <init>, words, <eos>, then <pad>

    def __len__(self) -> int:
        return len(self.videos)

    def to(self, device: torch.device | str) -> Batch:
        """The batch on another device; from pinned memory the copy does not wait."""
        return self._with_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """The batch in memory that a GPU can fetch by itself."""
        return self._with_tensors(lambda tensor: tensor.pin_memory())

    def _with_tensors(self, change: Callable[[Tensor], Tensor]) -> Batch:
        changed: dict[str, Any] = {
            name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **changed)


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
    """Every annotated segment that lies, at least in part, in the window of a video that has features."""

    def __init__(self, annotations: Annotations, source: FeatureSource, vocabulary: Vocabulary, config: Config) -> None:
        self.source, self.window = source, config.model.window
        _require_widths(source, config)
        sentences: list[str] = []
        self._segments: list[tuple[str, int]] = []
        self._events_G2: dict[str, Tensor] = {}
        outside = cut = 0
        here = [video for video in annotations.events if video in source]
        for video in here:
            events = annotations.events[video]
            steps_G2, kept_G, cut_G = events_in_window(events, source.extent(video), self.window)
            self._events_G2[video] = torch.from_numpy(steps_G2[kept_G]).float()
            self._segments += [(video, index) for index in range(int(kept_G.sum()))]
            sentences += [event.sentence for event, kept in zip(events, kept_G, strict=True) if kept]
            outside += int((~kept_G).sum())
            cut += int(cut_G.sum())
        if not self._segments:
            raise InputError(_nothing_to_train_on(annotations, source, here))
        self._words_NL = encode_all(vocabulary, sentences, config.training.max_words)
        missing = len(annotations) - len(here)
        self.report = SampleReport(len(self), len(here), missing, outside, cut)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, index: int) -> Sample:
        video, segment_index = self._segments[index]
        values = self.source.track(video).values[: self.window]
        features_TF = torch.from_numpy(np.array(values, dtype=np.float32))
        return Sample(video, features_TF, self._events_G2[video], segment_index, self._words_NL[index])

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """A batch at this dataset's window: what a DataLoader wants as `collate_fn`."""
        return collate(samples, self.window)


def collate(samples: Sequence[Sample], window: int) -> Batch:
    """Put samples side by side, padded to the window."""
    steps_B = torch.tensor([len(sample.features_TF) for sample in samples])
    counts_B = torch.tensor([len(sample.events_G2) for sample in samples])
    features_BTF = samples[0].features_TF.new_zeros(len(samples), window, samples[0].features_TF.shape[1])
    for features_TF, sample in zip(features_BTF, samples, strict=True):
        features_TF[: len(sample.features_TF)] = sample.features_TF
    events_BG2 = pad_sequence([sample.events_G2 for sample in samples], batch_first=True)
    index_B = torch.tensor([sample.segment_index for sample in samples])
    return Batch(
        videos=[sample.video for sample in samples],
        features_BTF=features_BTF,
        valid_BT=torch.arange(window) < steps_B[:, None],
        events_BG2=events_BG2,
        event_valid_BG=torch.arange(events_BG2.shape[1]) < counts_B[:, None],
        segment_B2=events_BG2[torch.arange(len(samples)), index_B],
        segment_index_B=index_B,
        words_BL=torch.stack([sample.words_L for sample in samples]),
    )


def order(count: int, seed: int, epoch: int) -> list[int]:
    """The order of the samples in an epoch: a function of seed and epoch alone."""
    permuted: list[int] = np.random.default_rng([seed, epoch]).permutation(count).tolist()
    return permuted


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
    return torch.tensor([row + [PAD] * (max_words + 1 - len(row)) for row in rows])


def _require_widths(source: FeatureSource, config: Config) -> None:
    if tuple(width for _, width in source.streams) != config.features.widths:
        wanted = streams_text(tuple(zip(config.features.streams, config.features.widths, strict=True)))
        raise InputError(
            f"the features are {streams_text(source.streams)}, the settings want {wanted};"
            " set features.streams and features.widths"
        )


def _nothing_to_train_on(annotations: Annotations, source: FeatureSource, here: list[str]) -> str:
    if here:
        return f"none of the events of {len(here)} videos with features lies in the window; see model.window"
    ids = [repr(video) for video in source.videos()[:1]] or ["nothing at all"]
    like = f"the annotations have ids like {next(iter(annotations.events))!r}, the features {ids[0]}"
    return f"no annotated video has features: {like}"
