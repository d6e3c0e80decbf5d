"""Training data without end: every epoch asks for timelines that nobody has seen, composed by the loading processes.

Sample i depends on the generator's seed and i alone. Epoch e has samples e x n to (e + 1) x n - 1; so a run that
stopped goes on with the very samples it would have seen, in any number of loading processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from densevid.config import Config
from densevid.data.batches import Batch, Sample, collate, encode_all
from densevid.data.loading import Share
from densevid.data.timeline_plan import TimelineEvent
from densevid.data.timeline_pool import SHORTEST_CROP
from densevid.data.timelines import TimelineGenerator
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.tracks import FeatureRecipe, FloatArray
from densevid.video.reduction import Reduction

CHOICE = 7  # sets the draw of a sample's events and sentences apart from that of its video
SEGMENTS_APART = 64  # more than any video gives: keeps the numbers of segments of different videos apart
SORTED_TOGETHER = 4  # batches; those of similar length are padded less
STEPS_APART = 96  # lengths of batches: few of them, since kernels are compiled for each


class TimelineSamples(Dataset[Sample]):
    """Sample i is timeline i, or now and then a single clip, with some of its events and a sentence for each.

    `len` is the number of videos of an epoch (`training.timelines`); any index beyond it works, too.
    """

    def __init__(self, generator: TimelineGenerator, vocabulary: Vocabulary, config: Config) -> None:
        settings = config.training
        self.generator, self.vocabulary, self.count = generator, vocabulary, settings.timelines
        self.window, self.max_words = config.model.window, settings.max_words
        self.whole_clips, self.segments_per_video = settings.whole_clips, settings.segments_per_video
        self.shortest_batch = min(self.window, max(config.model.kernels))
        widths = tuple(width for _, width in generator.collection.streams)
        if widths != config.features.widths:
            raise InputError(f"the clips' features are {widths} wide, the settings want {config.features.widths}")

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
        """What tells these samples from others."""
        first = self.generator.plan(0)
        return {"split": self.generator.split, "clips": len(self.generator.pool.events), "first": first.seconds}

    def summary(self) -> str:
        """One line."""
        pool = self.generator.pool
        clips = f"{len(pool.events):,} clips, {len(pool.background):,} more as background"
        return f"timelines without end, {self.count:,} an epoch, composed of {clips}"

    def __getitem__(self, index: int) -> Sample:
        rng = np.random.default_rng((self.generator.seed, CHOICE, index))
        if rng.random() < self.whole_clips:
            name, features_TF, events = self._clip(rng)
        else:
            timeline = self.generator.video(index)
            name, features_TF, events = timeline.video, timeline.track.values, timeline.plan.events
        features_TF = features_TF[: self.window]
        seen = [event for event in events if event.start < len(features_TF)]
        chosen, said = self._tell(rng, seen)
        return Sample(
            number_P=index * SEGMENTS_APART + torch.arange(len(chosen)),
            video=name,
            steps=len(features_TF),
            features_TF=features_TF,
            events_G2=torch.tensor([(event.start, min(event.end, len(features_TF))) for event in seen]).float(),
            segment_index_P=torch.tensor(chosen),
            words_PL=encode_all(self.vocabulary, said, self.max_words),
        )

    def _tell(self, rng: np.random.Generator, events: Sequence[TimelineEvent]) -> tuple[list[int], list[str]]:
        """Some of the events with a sentence each; where there is only one, it is told in several ways."""
        most = self.segments_per_video
        if len(events) > 1:
            chosen: list[int] = rng.permutation(len(events))[:most].tolist()
            return chosen, [str(rng.choice(events[number].sentences)) for number in chosen]
        sentences = events[0].sentences
        said = [sentences[place] for place in rng.permutation(len(sentences))[:most].tolist()]
        return [0] * len(said), said

    def _clip(self, rng: np.random.Generator) -> tuple[str, FloatArray, Sequence[TimelineEvent]]:
        """A single clip, cropped as the clips of a timeline are, with all that was said of it."""
        clips = self.generator.pool.events.clips
        clip = clips[int(rng.integers(len(clips)))]
        rows = clip.rows - int(clip.rows * (1 - SHORTEST_CROP) * rng.random())
        first = clip.first_row + int(rng.integers(clip.rows - rows + 1))
        assert self.generator.collection.features is not None
        features_TF = self.generator.collection.features[first : first + rows]
        return clip.name, features_TF, [TimelineEvent(0, rows, clip.captions)]


class TimelineLoader:
    """Batches of an epoch without end, this process's share of each, composed by `workers` processes or by this one.

    A few batches are composed together and cut by length, so that short videos need not be padded to the longest.
    """

    features = None

    def __init__(
        self,
        dataset: TimelineSamples,
        size: int,
        share: Share | None = None,
        *,
        workers: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.dataset, self.size, self.share = dataset, size, share or Share()
        self.workers, self.device = workers, torch.device(device)
        if size < self.share.ranks:
            raise InputError(f"a batch of {size} videos is too small for {self.share.ranks} processes")

    def steps(self, epoch: int) -> int:
        """How many batches an epoch has."""
        return max(1, len(self.dataset) // self.size)

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from a position on, on the device."""
        steps = self.steps(epoch)
        indices = [self._indices(epoch * steps + step) for step in range(steps)]
        begin = position - position % SORTED_TOGETHER
        groups = [indices[first : first + SORTED_TOGETHER] for first in range(begin, steps, SORTED_TOGETHER)]
        loader: DataLoader[list[Batch]] = DataLoader(
            _SortedBatches(self.dataset),
            batch_size=None,
            sampler=groups,
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda" and torch.cuda.is_available(),
            generator=torch.Generator(),  # of its own: a new loader must not move the run's random numbers
        )
        composed = (batch for together in loader for batch in together)
        for _ in range(position % SORTED_TOGETHER):
            next(composed)
        for batch in composed:
            yield batch.to(self.device)

    def _indices(self, step: int) -> list[int]:
        """This process's samples of a step, counted from the beginning of the run."""
        return list(range(step * self.size + self.share.rank, (step + 1) * self.size, self.share.ranks))


class _SortedBatches(Dataset[list[Batch]]):
    """A dataset whose index is the lists of samples of a few batches; these exchange samples and keep their sizes.

    Videos that are shorter than any batch are dealt out evenly, so that clips and timelines meet in every batch.
    """

    def __init__(self, samples: TimelineSamples) -> None:
        self.samples = samples

    def __getitem__(self, groups: list[list[int]]) -> list[Batch]:
        together = sorted((self.samples[index] for group in groups for index in group), key=lambda s: s.steps)
        short = [sample for sample in together if sample.steps <= self.samples.shortest_batch]
        places = np.array_split(np.arange(len(short), len(together)), len(groups))
        parts = [[together[place] for place in part] for part in places]
        for part, group in zip(parts, groups, strict=True):
            part += [short.pop(0) for _ in range(len(group) - len(part))]
        order = np.random.default_rng((self.samples.generator.seed, CHOICE, groups[0][0])).permutation(len(parts))
        return [self._batch(parts[place]) for place in order]

    def _batch(self, samples: list[Sample]) -> Batch:
        longest = max(self.samples.shortest_batch, *(sample.steps for sample in samples))
        return collate(samples, min(self.samples.window, -(-longest // STEPS_APART) * STEPS_APART))
