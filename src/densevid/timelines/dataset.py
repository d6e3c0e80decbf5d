"""The same video as nobody has seen it: the features' axes change places and signs, by chance, for a whole video.

What belongs together in time stays together, and nothing else: lengths and distances are kept, but no clip can be
known again. From few clips a network learns them by heart instead of what makes an event; of a disguised video it can
only learn the latter. Axes swap within groups of neighbours, so that principal components keep about their spread.

Training data without end: every epoch asks for timelines that nobody has seen, composed by the loading processes.

Sample i depends on the generator's seed and i alone; which samples share a step is for `timeline_loading`. So a run
that stopped goes on with the very samples it would have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch.utils.data import Dataset

from densevid.config import Config
from densevid.data.dataset import Sample, encode_all, hash_of_clips
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.timelines.clips import Clip
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.footage import SHORTEST_CROP
from densevid.timelines.rows import FootageRows
from densevid.tracks import FeatureRecipe, FloatArray
from densevid.video.reduction import Reduction

GROUP = 16  # neighbouring axes that swap places with each other


def channel_permuted(features_TF: FloatArray, rng: np.random.Generator) -> FloatArray:
    """T x F in other axes, the same at all steps."""
    width = features_TF.shape[1]
    place_F = np.argsort(np.arange(width) // GROUP + rng.random(width))
    sign_F = rng.choice(np.array([-1, 1], dtype=features_TF.dtype), width)
    return np.asarray(features_TF)[:, place_F] * sign_F


CHOICE, CLIP_CHOICE = 7, 8  # set the draws of events with their sentences, and of clips, apart from those of videos
SEGMENTS_APART = 64  # more than any video gives: keeps the numbers of segments of different videos apart
LONGEST_CLIP = 64  # steps; of a longer one a part is shown


class TimelineSamples(Dataset[Sample]):
    """Sample i is timeline i with some of its events and a sentence for each; `clip(i)` is a clip by chance.

    `len` is the number of videos of an epoch (`training.timelines`); any index beyond it works, too. Where the split
    has negatives (clips without captions), one video in `training.negatives_every` shows these alone: it has no events.
    A share of the videos is disguised (`training.channel_permuted`): these have events and no sentences.
    """

    def __init__(self, generator: TimelineGenerator, vocabulary: Vocabulary, config: Config) -> None:
        settings = config.training
        self.generator, self.vocabulary, self.count = generator, vocabulary, settings.timelines
        self.window, self.max_words = config.model.window, settings.max_words
        self.segments_per_video, self.sentences_per_clip = settings.segments_per_video, settings.sentences_per_clip
        self.clips_per_batch, self.negatives_every = settings.clips_per_batch, settings.negatives_every
        self.channel_permuted = settings.channel_permuted
        self.told = self._told(whole=settings.task == "captions")
        self.shortest_batch = min(self.window, max(config.model.kernels))
        widths = tuple(width for _, width in generator.collection.streams)
        if widths != config.features.widths:
            raise InputError(f"the clips' features are {widths} wide, the settings want {config.features.widths}")

    def _told(self, *, whole: bool) -> Sequence[Clip]:
        """The clips that words are learnt from: those that events are made of.

        Where no events are looked for, background is told of as well: the `whole` split.
        """
        if not whole:
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
        """What they were reduced by."""
        return self.generator.collection.reduction

    @property
    def fingerprint(self) -> dict[str, object]:
        """What tells these samples from others at a glance."""
        first = self.generator.plan(0)
        quiet = {"quiet": len(self.generator.pool.quiet)} if self.has_quiet else {}
        return {"split": self.generator.split, "clips": len(self.generator.pool.events), "first": first.seconds} | quiet

    @cached_property
    def content(self) -> str:
        """A hash of all that can be learnt from them."""
        return hash_of_clips(self.generator)

    @property
    def has_quiet(self) -> bool:
        """Whether there is footage for videos in which nothing happens."""
        return len(self.generator.pool.quiet) > 0

    def is_quiet(self, index: int) -> bool:
        """Whether nothing happens in a video."""
        return self.has_quiet and index % self.negatives_every == self.negatives_every - 1

    def usual_steps(self, index: int) -> int:
        """How long sample `index` is, told without composing it; see `TimelineGenerator.usual_ticks`."""
        return min(self.window, self.generator.usual_ticks(index, quiet=self.is_quiet(index)))

    def summary(self) -> str:
        """One line."""
        pool = self.generator.pool
        clips = f"{len(pool.events):,} clips, {len(pool.background):,} more as background"
        clips += f", {len(pool.quiet):,} of them quiet" if self.has_quiet else ""
        return f"timelines without end, {self.count:,} an epoch, composed of {clips}"

    def __getitem__(self, index: int) -> Sample:
        return self.video(index)

    def video(self, index: int, *, most: int | None = None, with_features: bool = True, plain: bool = False) -> Sample:
        """A composed video of `most` steps at most; without its features it has the rows that they are made of.

        A `plain` one is not disguised.
        """
        rng = np.random.default_rng((self.generator.seed, CHOICE, index))
        name, plan = self.generator.planned(index, quiet=self.is_quiet(index))
        rows = FootageRows.of(plan).cut(self.window if most is None else most)
        events = [event for event in plan.events if event.start < len(rows)]
        chosen = rng.permutation(len(events))[: self.segments_per_video].tolist()
        said = [str(rng.choice(events[number].sentences)) for number in chosen]
        spans = [(event.start, min(event.end, len(rows))) for event in events]
        if rng.random() < self.channel_permuted and not plain:
            sample = self._with_features(self._sample(index, name, rows, spans, [], []))
            assert sample.features_TF is not None
            return replace(sample, features_TF=channel_permuted(sample.features_TF, rng))
        sample = self._sample(index, name, rows, spans, chosen, said)
        return self._with_features(sample) if with_features else sample

    def clip(self, index: int, *, with_features: bool = True) -> Sample:
        """A single clip, cropped as the clips of a timeline are, told in several ways."""
        rng = np.random.default_rng((self.generator.seed, CLIP_CHOICE, index))
        clip = self.told[int(rng.integers(len(self.told)))]
        rows = min(LONGEST_CLIP, clip.rows - int(clip.rows * (1 - SHORTEST_CROP) * rng.random()))
        first = clip.first_row + int(rng.integers(clip.rows - rows + 1))
        told = rng.permutation(len(clip.captions))[: self.sentences_per_clip]
        said = [clip.captions[number] for number in told.tolist()]
        shown = FootageRows.between(first, first + rows)
        sample = self._sample(index, clip.name, shown, [(0, rows)], [0] * len(said), said)
        return self._with_features(sample) if with_features else sample

    def _with_features(self, sample: Sample) -> Sample:
        assert sample.rows is not None
        return replace(sample, features_TF=sample.rows.blended(self.generator.footage), rows=None)

    def _sample(
        self,
        index: int,
        name: str,
        rows: FootageRows,
        spans: Sequence[tuple[int, int]],
        chosen: list[int],
        said: list[str],
    ) -> Sample:
        return Sample(
            number_P=index * SEGMENTS_APART + torch.arange(len(chosen)),
            video=name,
            steps=len(rows),
            features_TF=None,
            rows=rows,
            events_G2=torch.tensor(spans).float().reshape(-1, 2),
            segment_index_P=torch.tensor(chosen, dtype=torch.int64),
            words_PL=encode_all(self.vocabulary, said, self.max_words),
        )
