"""SegmentDataset: annotated segments of videos with features as a PyTorch `Dataset`.

A sample is one segment of a video together with all events of that video. Times become steps by each track's own clock
and are cut to the model's window: of a longer video only the first `model.window` steps are used, and an event counts
as far as it lies in them. `data.batches` collates samples; `data.dataloader` decides which samples share a batch, and
in which order. `timelines.dataset` gives the same samples from composed videos.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from densevid.config import Config
from densevid.data.annotations import Annotations
from densevid.data.batches import Batch, Sample, collate
from densevid.data.sources import FeatureSource, reduction_of
from densevid.data.vocabulary import PAD, Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.io import hash_of
from densevid.legacy import HASHED_EVENTS
from densevid.tracks import Extent, FeatureRecipe, streams_text
from densevid.video.reduction import Reduction


@dataclass(frozen=True)
class SampleReport:
    """How many of the annotated segments can be trained on, and how many cannot."""

    samples: int
    videos: int
    without_features: int
    outside_window: int
    cut_by_window: int

    def summary(self) -> str:
        """The counts on one line."""
        text = f"{self.samples:,} segments of {self.videos:,} videos"
        lost = {
            "videos without features": self.without_features,
            "segments outside the window left out": self.outside_window,
            "segments cut at the end of the window": self.cut_by_window,
        }
        return "; ".join([text, *(f"{count:,} {what}" for what, count in lost.items() if count)])


class SegmentDataset(Dataset[Sample]):
    """Every annotated segment that lies, at least in part, in the window of a video that has features.

    The N segments of V videos are kept as a few arrays, which loader processes share with the parent.

    Args:
        annotations: Events and sentences by video.
        source: The features of the videos.
        vocabulary: Encodes the sentences.
        config: `model.window`, `features.widths` and `training.max_words` are used.

    Raises:
        InputError: The features have other widths than the settings, or no annotated video has features.
    """

    def __init__(self, annotations: Annotations, source: FeatureSource, vocabulary: Vocabulary, config: Config) -> None:
        self.source, self.window = source, config.model.window
        _require_widths(source, config)
        self.events: list[Event] = []
        steps_V2: list[npt.NDArray[np.float64]] = [np.empty((0, 2))]
        outside = cut = 0
        self.videos = [video for video in annotations.events if video in source]
        extents = [source.extent(video) for video in self.videos]
        for video, extent in zip(self.videos, extents, strict=True):
            events = annotations.events[video]
            steps_G2, kept_G, cut_G = events_in_window(events, extent, self.window)
            steps_V2.append(steps_G2[kept_G])
            self.events += [event for event, kept in zip(events, kept_G, strict=True) if kept]
            outside += int((~kept_G).sum())
            cut += int(cut_G.sum())
        if not self.events:
            raise InputError(_nothing_to_train_on(annotations, source, self.videos))
        count_V = np.array([len(steps_G2) for steps_G2 in steps_V2[1:]])
        self.first_V = np.cumsum(count_V) - count_V
        self.video_N = np.repeat(np.arange(len(self.videos)), count_V)
        self.steps_V = np.array([min(extent.steps, self.window) for extent in extents])
        self.segments_N2 = torch.from_numpy(np.concatenate(steps_V2)).float()
        self.words_NL = encode_all(vocabulary, [event.sentence for event in self.events], config.training.max_words)
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
        """The PCA that reduced the features, if any."""
        return reduction_of(self.source)

    @property
    def fingerprint(self) -> dict[str, object]:
        """The video ids and times in steps that identify the segments."""
        return {"videos": self.videos, "segments": self.segments_N2.tolist()}

    @cached_property
    def content(self) -> str:
        """A hash of sentences, times and recipe, by which a resumed run recognises its data.

        Features enter by their recipe and streams, not by value: reading them all would take too long.
        """
        return hash_of(
            {
                HASHED_EVENTS: [(event.start, event.end, event.sentence) for event in self.events],
                "segments": self.segments_N2.tolist(),
                "streams": self.source.streams,
                "recipe": None if self.source.recipe is None else self.source.recipe.id,
            }
        )

    def summary(self) -> str:
        """How many segments there are and how many were left out, on one line."""
        return self.report.summary()

    def __getitem__(self, number: int) -> Sample:
        return self.sample([number])

    def sample(self, numbers: Sequence[int], *, with_features: bool = True) -> Sample:
        """One sample for one or more segments of the same video.

        Args:
            numbers: Indices of the segments.
            with_features: False leaves `features_TF` out, for features that are on the device already.
        """
        number_P = torch.tensor(numbers)
        row = int(self.video_N[numbers[0]])
        video, first, steps = self.videos[row], int(self.first_V[row]), int(self.steps_V[row])
        last = int(self.first_V[row + 1]) if row + 1 < len(self.videos) else len(self)
        features_TF = self.source.track(video).values[:steps] if with_features else None
        events_G2 = self.segments_N2[first:last]
        return Sample(number_P, video, steps, features_TF, events_G2, number_P - first, self.words_NL[number_P])

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """Collate samples at this dataset's window: the `collate_fn` of a `DataLoader`."""
        return collate(samples, self.window)


def events_in_window(
    events: Sequence[Event], extent: Extent, window: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Convert events to steps and cut them to the window.

    Args:
        events: Events in seconds.
        extent: Length and clock of their video.
        window: Steps that the model reads.

    Returns:
        Start and end of each event in steps, cut to the window; which events lie in it at least in part; which of
        those were cut at its end.
    """
    seconds_G2 = np.array([(event.start, event.end) for event in events], dtype=np.float64).reshape(-1, 2)
    steps_G2 = extent.clock.steps(seconds_G2)
    limit = min(extent.steps, window)
    inside_G2 = steps_G2.clip(0, limit)
    kept_G = inside_G2[:, 0] < inside_G2[:, 1]
    return inside_G2, kept_G, kept_G & (steps_G2[:, 1] > window)


def encode_all(vocabulary: Vocabulary, sentences: Sequence[str], max_words: int, style: str | None = None) -> Tensor:
    """Token ids of all sentences, N x (max_words + 1), padded with `<pad>`; they begin with a style token if given."""
    rows = [vocabulary.encode(sentence, max_words, style) for sentence in sentences]
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
