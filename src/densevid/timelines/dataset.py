"""TimelineDataset: composed training videos as a PyTorch `Dataset` without end.

Sample i is timeline i of a generator, with some of its events and one sentence for each. It depends on the generator's
seed and on i alone, so a resumed run sees the samples it would have seen; `timelines.dataloader` decides which samples
share a batch.

A share of the samples has its feature channels permuted, by a random permutation and random signs that are the same at
all steps of a video. Distances between steps stay as they are, but no clip can be recognised: from few clips a network
would otherwise memorise the clips instead of learning what delimits an event. Channels are permuted within groups of
neighbours, so that principal components keep roughly their variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch.utils.data import Dataset

from densevid.config import Config
from densevid.data.batches import Sample
from densevid.data.dataset import encode_all
from densevid.data.feature_rows import FeatureRows
from densevid.data.vocabulary import PAD, Vocabulary
from densevid.errors import InputError
from densevid.io import hash_of
from densevid.legacy import HASHED_NEGATIVES
from densevid.timelines.captions import CaptionCollection, CaptionMixture
from densevid.timelines.clips import Clip
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.footage import SHORTEST_CROP
from densevid.timelines.taught_labels import TaughtLabels
from densevid.tracks import FeatureRecipe, FloatArray
from densevid.video.reduction import Reduction

GROUP = 16  # neighbouring channels that are permuted among each other
EVENT_DRAWS, CLIP_DRAWS = 7, 8  # seeds: events with their sentences, and single clips
MAX_SEGMENTS = 64  # more than any video has: spaces out the segment indices of different videos
LONGEST_CLIP = 64  # steps of a single clip that are shown at most


def channel_permuted(features_TF: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Permute the channels of a T x F array within groups and flip signs at random, alike at all steps."""
    width = features_TF.shape[1]
    place_F = np.argsort(np.arange(width) // GROUP + rng.random(width))
    sign_F = rng.choice(np.array([-1, 1], dtype=features_TF.dtype), width)
    return np.asarray(features_TF)[:, place_F] * sign_F


class TimelineDataset(Dataset[Sample]):
    """Composed videos by index; `clip(i)` is a random single clip.

    `len` is the number of videos per epoch (`training.timelines`), but any index is valid. If the split has clips
    without captions, every `training.negatives_every`-th video is a negative: it shows these alone and has no events.
    A share of the videos (`training.channel_permuted`) has permuted channels; these have events but no sentences.

    Args:
        generator: Composes the videos.
        vocabulary: Encodes their sentences.
        config: `model.window`, `features.widths` and the settings of `training` are used.
        captions: Further collections that `clip` draws from.

    Raises:
        InputError: The clips' features have other widths than the settings.
    """

    def __init__(
        self,
        generator: TimelineGenerator,
        vocabulary: Vocabulary,
        config: Config,
        captions: Sequence[CaptionCollection] = (),
    ) -> None:
        settings = config.training
        self.generator, self.vocabulary, self.count = generator, vocabulary, settings.timelines
        self.window, self.max_words = config.model.window, settings.max_words
        self.segments_per_video, self.sentences_per_clip = settings.segments_per_video, settings.sentences_per_clip
        self.clips_per_batch, self.negatives_every = settings.clips_per_batch, settings.negatives_every
        self.channel_permuted = settings.channel_permuted
        self.caption_clips = self._caption_clips(with_background=settings.task == "captions")
        self.shortest_batch = min(self.window, max(config.model.kernels))
        widths = tuple(width for _, width in generator.collection.streams)
        if widths != config.features.widths:
            raise InputError(f"the clips' features are {widths} wide, the settings want {config.features.widths}")
        if captions and not self.clips_per_batch:
            raise InputError("--captions needs training.clips_per_batch, how many of their clips a step learns from")
        self.taught: TaughtLabels | None = None  # labels of clips that lack a stream; known once the gate is fitted
        self.mixture = CaptionMixture(self.caption_clips, generator.footage, captions, settings.own_captions)

    def _caption_clips(self, *, with_background: bool) -> Sequence[Clip]:
        """The clips whose captions are trained on: those that events are made of, or all of the split."""
        if not with_background:
            return self.generator.pool.events.clips
        return [clip for clip in self.generator.collection.split(self.generator.split) if clip.captions]

    def __len__(self) -> int:
        return self.count

    @property
    def recipe(self) -> FeatureRecipe:
        """How the clips' features were made."""
        return self.generator.collection.recipe

    @property
    def reduction(self) -> Reduction | None:
        """The PCA that reduced the clips' features, if any."""
        return self.generator.collection.reduction

    @property
    def fingerprint(self) -> dict[str, object]:
        """What identifies the samples: the split, its size, and the length of the first video."""
        first = self.generator.plan(0)
        negatives = {HASHED_NEGATIVES: len(self.generator.pool.negatives)} if self.has_negatives else {}
        clips = len(self.generator.pool.events)
        return {"split": self.generator.split, "clips": clips, "first": first.seconds} | negatives

    @cached_property
    def content(self) -> str:
        """A hash of the split's clips with their captions and features, by which a resumed run recognises its data."""
        generator, collection = self.generator, self.generator.collection
        clips = collection.split(generator.split)
        return hash_of(
            {
                "clips": [(clip.name, clip.source, clip.seconds, clip.captions, clip.rows) for clip in clips],
                "seconds_per_step": generator.tick,
                "streams": collection.streams,
                "recipe": collection.recipe.id,
                "features": collection.fingerprint,
                **({"captions": self.mixture.fingerprint} if self.mixture.collections else {}),
            }
        )

    @property
    def has_negatives(self) -> bool:
        """Whether the split has clips without captions, of which videos without events are made."""
        return len(self.generator.pool.negatives) > 0

    def is_negative(self, index: int) -> bool:
        """Whether a sample is a video without events."""
        return self.has_negatives and index % self.negatives_every == self.negatives_every - 1

    def estimated_steps(self, index: int) -> int:
        """The length of a sample without composing it; see `TimelineGenerator.estimated_ticks`."""
        return min(self.window, self.generator.estimated_ticks(index, negative=self.is_negative(index)))

    def summary(self) -> str:
        """What the samples are composed of, on one line."""
        pool = self.generator.pool
        clips = f"{len(pool.events):,} clips, {len(pool.background):,} more as background"
        clips += f", {len(pool.negatives):,} of them without captions" if self.has_negatives else ""
        captions = ", ".join(f"{len(each.clips):,} of {each.style}" for each in self.mixture.collections)
        beside = f"; captions of {captions}" if captions else ""
        return f"timelines without end, {self.count:,} an epoch, composed of {clips}{beside}"

    @property
    def footage(self) -> FloatArray:
        """The features of all clips that samples show, rows x width."""
        return self.mixture.footage

    def __getitem__(self, index: int) -> Sample:
        return self.video(index)

    def video(
        self, index: int, *, max_steps: int | None = None, with_features: bool = True, permute: bool = True
    ) -> Sample:
        """Compose one video.

        Args:
            index: Number of the video.
            max_steps: Cut it to this length; the window by default.
            with_features: False gives the rows of the feature table instead, where channels are not permuted.
            permute: False never permutes the channels, so that the sample has sentences.
        """
        rng = np.random.default_rng((self.generator.seed, EVENT_DRAWS, index))
        name, plan = self.generator.planned(index, negative=self.is_negative(index))
        rows = plan.feature_rows().cut(self.window if max_steps is None else max_steps)
        events = [event for event in plan.events if event.start < len(rows)]
        chosen = rng.permutation(len(events))[: self.segments_per_video].tolist()
        sentences = [str(rng.choice(events[number].sentences)) for number in chosen]
        spans = [(event.start, min(event.end, len(rows))) for event in events]
        if rng.random() < self.channel_permuted and permute:
            sample = self._with_features(self._sample(index, name, rows, spans, [], []))
            assert sample.features_TF is not None
            return replace(sample, features_TF=channel_permuted(sample.features_TF, rng))
        sample = self._sample(index, name, rows, spans, chosen, sentences)
        return self._with_features(sample) if with_features else sample

    def clip(self, index: int, *, with_features: bool = True) -> Sample:
        """One random clip, cropped as in timelines, with up to `training.sentences_per_clip` of its captions.

        It has as many rows of words for every clip, so that the sentences of a clip can read one memory; those without
        a caption are padding, which does not count.

        Args:
            index: Number of the draw.
            with_features: False gives the rows of the feature table instead.
        """
        rng = np.random.default_rng((self.generator.seed, CLIP_DRAWS, index))
        style, clip, first_row = self.mixture.draw(rng)
        steps = min(LONGEST_CLIP, clip.rows - int(clip.rows * (1 - SHORTEST_CROP) * rng.random()))
        first = first_row + int(rng.integers(clip.rows - steps + 1))
        chosen = rng.permutation(len(clip.captions))[: self.sentences_per_clip]
        sentences = [clip.captions[number] for number in chosen.tolist()]
        rows = FeatureRows.between(first, first + steps)
        sample = self._sample(index, clip.name, rows, [(0, steps)], [0] * len(sentences), sentences, style)
        sample = _with_empty_rows(sample, self.sentences_per_clip - len(sentences))
        if self.taught is not None:
            label_N, value_N = self.taught.draw(clip, rng) if style is not None else self.taught.none
            sample = replace(sample, label_N=torch.from_numpy(label_N), value_N=torch.from_numpy(value_N))
        return self._with_features(sample) if with_features else sample

    def _with_features(self, sample: Sample) -> Sample:
        assert sample.rows is not None
        return replace(sample, features_TF=sample.rows.blended(self.footage), rows=None)

    def _sample(
        self,
        index: int,
        name: str,
        rows: FeatureRows,
        spans: Sequence[tuple[int, int]],
        chosen: list[int],
        sentences: list[str],
        style: str | None = None,
    ) -> Sample:
        return Sample(
            number_P=index * MAX_SEGMENTS + torch.arange(len(chosen)),
            video=name,
            steps=len(rows),
            features_TF=None,
            rows=rows,
            events_G2=torch.tensor(spans).float().reshape(-1, 2),
            segment_index_P=torch.tensor(chosen, dtype=torch.int64),
            words_PL=encode_all(self.vocabulary, sentences, self.max_words, style),
        )


def _with_empty_rows(sample: Sample, count: int) -> Sample:
    """The sample with so many segments more, whose sentences are a first word and padding."""
    if count <= 0:
        return sample
    words_PL = sample.words_PL[:1].repeat(count, 1)
    words_PL[:, 1:] = PAD
    number_P = sample.number_P[:1] + len(sample.number_P) + torch.arange(count)
    return replace(
        sample,
        number_P=torch.cat((sample.number_P, number_P)),
        segment_index_P=torch.cat((sample.segment_index_P, sample.segment_index_P[:1].repeat(count))),
        words_PL=torch.cat((sample.words_PL, words_PL)),
    )
