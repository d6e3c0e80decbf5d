"""Samples and batches: what datasets yield, what `collate` makes of it, and what the network is given.

Features are padded to the window with zeros, and `valid_BT` is False there. A batch can leave its features out and name
rows of a feature table instead, which the device then gathers (`data.feature_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from densevid.data.feature_rows import BatchRows, FeatureRows
from densevid.tracks import FloatArray


@dataclass(frozen=True)
class Sample:
    """One video with P of its segments to caption (one, several, or none) and all of its G events, in steps.

    Attributes:
        number_P: Indices of the segments in their dataset.
        video: Id of the video.
        steps: Its length in steps, at most the window.
        features_TF: Its features, a view of the file they come from; None if they are on the device already.
        events_G2: Start and end of every event.
        segment_index_P: Which of the events the segments are.
        words_PL: Token ids of the segments' sentences.
        rows: The rows of a feature table to gather instead of `features_TF`.
        label_N: Given labels of the last stream, -1 for none (`timelines/taught_labels.py`).
        value_N: How far each can be trusted.
    """

    number_P: Tensor
    video: str
    steps: int
    features_TF: FloatArray | None
    events_G2: Tensor
    segment_index_P: Tensor
    words_PL: Tensor
    rows: FeatureRows | None = None
    label_N: Tensor | None = None
    value_N: Tensor | None = None


@dataclass(frozen=True)
class Batch:
    """B samples padded to T = window steps: P segments in all, at most G events per video, L = max_words + 1 tokens.

    With one segment per video, B and P are equal and `video_P` is None; otherwise `video_P` gives each segment's video.

    Attributes:
        videos: Ids of the videos.
        features_BTF: Features in the precision they are stored in, zero at padded steps.
        valid_BT: True where the video is, False at padding.
        events_BG2: All events of each video in steps, zero at padding.
        event_valid_BG: True where there is an event.
        sample_P: Index of each segment in its dataset.
        segment_P2: Start and end of each segment in steps.
        segment_index_P: Which of its video's events a segment is.
        words_PL: `<init>`, words, `<eos>`, then `<pad>`.
        video_P: Row of each segment's video.
        padded: False if every step of every video is valid.
        clips: Single trimmed clips that are trained on for their captions alone.
        rows: Rows of the feature table on the device to gather the features from.
        label_BN: Given labels of the last stream, -1 for none.
        value_BN: How far each can be trusted.
        steps_B: The length of each video, known without asking the device.
        segments_B: How many segments each has, likewise.
    """

    videos: list[str]
    features_BTF: Tensor
    valid_BT: Tensor
    events_BG2: Tensor
    event_valid_BG: Tensor
    sample_P: Tensor
    segment_P2: Tensor
    segment_index_P: Tensor
    words_PL: Tensor
    video_P: Tensor | None = None
    padded: bool = True
    clips: Batch | None = None
    rows: BatchRows | None = None
    label_BN: Tensor | None = None
    value_BN: Tensor | None = None
    steps_B: tuple[int, ...] = ()
    segments_B: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.sample_P)

    def to(self, device: torch.device | str) -> Batch:
        """The batch on another device, copied asynchronously from pinned memory."""
        return self._with_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory; a `DataLoader` calls this if `pin_memory=True`."""
        return self._with_tensors(lambda tensor: tensor.pin_memory())

    def of_segments(self, per_video: Tensor) -> Tensor:
        """Repeat a tensor with one row per video so that it has one row per segment."""
        return per_video if self.video_P is None else per_video[self.video_P]

    @property
    def segments_alike(self) -> bool:
        """Whether every video has as many segments as the others."""
        return len(set(self.segments_B)) == 1

    def part(self, first: int, last: int) -> Batch:
        """Some of its videos, one after the other, with their segments; padded to the longest of them."""
        own, steps = slice(first, last), max(self.steps_B[first:last])
        before = sum(self.segments_B[:first])
        segments = slice(before, before + sum(self.segments_B[own]))

        def cut(values: Tensor | None, rows: slice) -> Any:
            return None if values is None else values[rows]

        return Batch(
            videos=self.videos[own],
            features_BTF=self.features_BTF[own, :steps],
            valid_BT=self.valid_BT[own, :steps],
            events_BG2=self.events_BG2[own],
            event_valid_BG=self.event_valid_BG[own],
            sample_P=self.sample_P[segments],
            segment_P2=self.segment_P2[segments],
            segment_index_P=self.segment_index_P[segments],
            words_PL=self.words_PL[segments],
            video_P=None if self.video_P is None else self.video_P[segments] - first,
            padded=min(self.steps_B[own]) < steps,
            label_BN=cut(self.label_BN, own),
            value_BN=cut(self.value_BN, own),
            steps_B=self.steps_B[own],
            segments_B=self.segments_B[own],
        )

    def _with_tensors(self, change: Callable[[Tensor], Tensor]) -> Batch:
        clips = None if self.clips is None else self.clips._with_tensors(change)
        rows = None if self.rows is None else replace(self.rows, **_changed(self.rows, change))
        return replace(self, **_changed(self, change), clips=clips, rows=rows)


def _changed(holder: Batch | BatchRows, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """All tensors of a dataclass, changed."""
    return {name: change(value) for name, value in vars(holder).items() if isinstance(value, Tensor)}


def collate(samples: Sequence[Sample], window: int) -> Batch:
    """Pad samples to `window` steps and stack them to a batch."""
    steps_B = torch.tensor([sample.steps for sample in samples])
    count_B = torch.tensor([len(sample.events_G2) for sample in samples])
    events_BG2 = pad_sequence([sample.events_G2 for sample in samples], batch_first=True)
    if not events_BG2.shape[1]:  # no events in any of them: one empty slot, so that tensors keep their axes
        events_BG2 = events_BG2.new_zeros(len(samples), 1, 2)
    index_P = torch.cat([sample.segment_index_P for sample in samples])
    segments_B = torch.tensor([len(sample.number_P) for sample in samples])
    row_P = torch.repeat_interleave(segments_B)
    labels = [sample.label_N for sample in samples if sample.label_N is not None]
    values = [sample.value_N for sample in samples if sample.value_N is not None]
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
        label_BN=torch.stack(labels) if labels else None,
        value_BN=torch.stack(values) if values else None,
        steps_B=tuple(sample.steps for sample in samples),
        segments_B=tuple(len(sample.number_P) for sample in samples),
    )


def _padded_features(samples: Sequence[Sample], window: int) -> Tensor:
    """B x window x F, as float16 if all features are stored as float16 (half the bytes to copy), else as float32."""
    stored = [sample.features_TF for sample in samples if sample.features_TF is not None]
    if not stored:
        return torch.empty(len(samples), 0, 0)
    half = all(values.dtype == np.float16 for values in stored)
    features_BTF = np.zeros((len(samples), window, stored[0].shape[1]), np.float16 if half else np.float32)
    for features_TF, values in zip(features_BTF, stored, strict=True):
        features_TF[: len(values)] = values
    return torch.from_numpy(features_BTF)
