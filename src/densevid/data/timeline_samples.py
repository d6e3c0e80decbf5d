"""Training data without end: every epoch asks for timelines that nobody has seen, composed by the loading processes.

Sample i depends on the generator's seed and i alone, and which samples a step has on its number; so a run that stopped
goes on with the very samples it would have seen, with any number of loading processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from densevid.config import Config
from densevid.data.agreement import Agreement
from densevid.data.batches import Batch, Sample, collate, encode_all
from densevid.data.clip_collection import Clip
from densevid.data.content_hashes import hash_of_clips
from densevid.data.disguise import disguised
from densevid.data.loading import LOADING, ErrorsHandedOver, Share, leave_inherited, raising
from densevid.data.timeline_pool import SHORTEST_CROP
from densevid.data.timeline_rows import FootageRows, ResidentFootage
from densevid.data.timelines import TimelineGenerator
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.tracks import FeatureRecipe
from densevid.video.reduction import Reduction

CHOICE, CLIP_CHOICE = 7, 8  # set the draws of events with their sentences, and of clips, apart from those of videos
SEGMENTS_APART = 64  # more than any video gives: keeps the numbers of segments of different videos apart
SORTED_TOGETHER = 4  # batches; those of similar length are padded less
STEPS_APART, CLIP_STEPS_APART = 96, 32  # lengths of batches: few of them, since kernels are compiled for each
LONGEST_CLIP = 64  # steps; of a longer one a part is shown


class TimelineSamples(Dataset[Sample]):
    """Sample i is timeline i with some of its events and a sentence for each; `clip(i)` is a clip by chance.

    `len` is the number of videos of an epoch (`training.timelines`); any index beyond it works, too. Where the split
    has quiet clips (without captions), one video in `training.quiet_every` shows these alone: it has no events. A share
    of the videos is disguised (`training.disguised`): these have events and no sentences.
    """

    def __init__(self, generator: TimelineGenerator, vocabulary: Vocabulary, config: Config) -> None:
        settings = config.training
        self.generator, self.vocabulary, self.count = generator, vocabulary, settings.timelines
        self.window, self.max_words = config.model.window, settings.max_words
        self.segments_per_video, self.sentences_per_clip = settings.segments_per_video, settings.sentences_per_clip
        self.clips_per_batch, self.quiet_every = settings.clips_per_batch, settings.quiet_every
        self.disguised, self.consensus = settings.disguised, settings.consensus
        self.told = self._told(whole=settings.task == "captions")
        self.agreement = Agreement.of(self.told) if self.consensus else None
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
        return self.has_quiet and index % self.quiet_every == self.quiet_every - 1

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

    def video(self, index: int, *, most: int | None = None, with_features: bool = True) -> Sample:
        """A composed video of `most` steps at most; without its features it has the rows that they are made of."""
        rng = np.random.default_rng((self.generator.seed, CHOICE, index))
        name, plan = self.generator.planned(index, quiet=self.is_quiet(index))
        rows = FootageRows.of(plan).cut(self.window if most is None else most)
        events = [event for event in plan.events if event.start < len(rows)]
        chosen = rng.permutation(len(events))[: self.segments_per_video].tolist()
        said = [
            str(rng.choice(events[number].sentences, p=self._chances(events[number].sentences))) for number in chosen
        ]
        spans = [(event.start, min(event.end, len(rows))) for event in events]
        if rng.random() < self.disguised:
            sample = self._with_features(self._sample(index, name, rows, spans, [], []))
            assert sample.features_TF is not None
            return replace(sample, features_TF=disguised(sample.features_TF, rng))
        sample = self._sample(index, name, rows, spans, chosen, said)
        return self._with_features(sample) if with_features else sample

    def clip(self, index: int, *, with_features: bool = True) -> Sample:
        """A single clip, cropped as the clips of a timeline are, told in several ways."""
        rng = np.random.default_rng((self.generator.seed, CLIP_CHOICE, index))
        clip = self.told[int(rng.integers(len(self.told)))]
        rows = min(LONGEST_CLIP, clip.rows - int(clip.rows * (1 - SHORTEST_CROP) * rng.random()))
        first = clip.first_row + int(rng.integers(clip.rows - rows + 1))
        if self.agreement is None:
            told = rng.permutation(len(clip.captions))[: self.sentences_per_clip]
        else:
            told = rng.choice(len(clip.captions), self.sentences_per_clip, p=self._chances(clip.captions))
        said = [clip.captions[number] for number in told.tolist()]
        shown = FootageRows.between(first, first + rows)
        sample = self._sample(index, clip.name, shown, [(0, rows)], [0] * len(said), said)
        return self._with_features(sample) if with_features else sample

    def _with_features(self, sample: Sample) -> Sample:
        assert sample.rows is not None
        return replace(sample, features_TF=sample.rows.blended(self.generator.footage), rows=None)

    def _chances(self, sentences: Sequence[str]) -> npt.NDArray[np.float64] | None:
        """How often each is to be heard; nothing where all are alike."""
        return None if self.agreement is None else self.agreement.chances(sentences, self.consensus)

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


class TimelineLoader:
    """Batches of an epoch without end, this process's share of each, composed by `workers` processes or by this one.

    A few batches are composed together and cut by length, so that short videos need not be padded to the longest. The
    processes go on from epoch to epoch. With `resident` footage they choose rows alone, and the device blends them.
    """

    def __init__(
        self,
        dataset: TimelineSamples,
        size: int,
        share: Share | None = None,
        *,
        workers: int = 0,
        device: torch.device | str = "cpu",
        resident: bool = False,
    ) -> None:
        self.dataset, self.size, self.share = dataset, size, share or Share()
        self.workers, self.device = workers, torch.device(device)
        self.footage = ResidentFootage(dataset.generator.footage, self.device) if resident else None
        self._composed: Iterator[Batch] = iter(())
        self._next = -1  # the step, counted from the beginning of the run, that they give next
        for what, many in (("videos", size), ("clips beside them", dataset.clips_per_batch or self.share.ranks)):
            if many < self.share.ranks:
                raise InputError(f"a batch of {many} {what} is too small for {self.share.ranks} processes")
        if dataset.has_quiet and size < 2 * self.share.ranks:
            raise InputError(f"a batch of {size} videos could be quiet ones alone; set training.batch_size higher")

    def steps(self, epoch: int) -> int:
        """How many batches an epoch has."""
        return max(1, len(self.dataset) // self.size)

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from a position on, on the device."""
        first, last = (epoch * self.steps(epoch) + step for step in (position, self.steps(epoch)))
        if first != self._next:
            self._composed = self._begin(first)
        for step in range(first, last):
            self._next = step + 1
            yield self._filled(next(self._composed).to(self.device))

    def _filled(self, batch: Batch) -> Batch:
        """The batch with its features, and so the clips beside it, where they lie on the device."""
        if self.footage is None or batch.rows is None:
            return batch
        clips = None if batch.clips is None else self._filled(batch.clips)
        return replace(batch, features_BTF=self.footage.shown(batch.rows), rows=None, clips=clips)

    def close(self) -> None:
        """End the processes; batches after this are composed by new ones."""
        self._composed, self._next = iter(()), -1

    def _begin(self, step: int) -> Iterator[Batch]:
        """Batches from a step on, without end."""
        loader: DataLoader[list[Batch]] = DataLoader(
            ErrorsHandedOver(_SortedBatches(self.dataset, self.size, self.share, with_features=self.footage is None)),
            batch_size=None,
            sampler=_WithoutEnd(step // SORTED_TOGETHER),
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda" and torch.cuda.is_available(),
            generator=torch.Generator(),  # of its own: a new loader must not move the run's random numbers
            worker_init_fn=leave_inherited,
            multiprocessing_context=LOADING if self.workers else None,
        )
        composed = (batch for together in raising(loader) for batch in together)
        for _ in range(step % SORTED_TOGETHER):
            next(composed)
        return composed


@dataclass(frozen=True)
class _WithoutEnd:
    """The numbers of groups of a few steps, one after the other."""

    first: int

    def __iter__(self) -> Iterator[int]:
        return count(self.first)


class _SortedBatches(Dataset[list[Batch]]):
    """A dataset whose index is the number of a group of a few steps; these exchange videos and keep their sizes.

    Videos of all processes are sorted by the length they usually have, and only then is each batch shared out: a step
    has the same videos however many processes there are, and each composes its own alone. They are as long in all
    processes, too: as the longest usually is. The few that turn out longer than that are cut, as at the window.
    """

    def __init__(self, samples: TimelineSamples, size: int, share: Share, *, with_features: bool) -> None:
        self.samples, self.size, self.share, self.with_features = samples, size, share, with_features

    def __getitem__(self, group: int) -> list[Batch]:
        steps = range(group * SORTED_TOGETHER, (group + 1) * SORTED_TOGETHER)
        return [self._batch(videos, self._clips(step)) for videos, step in zip(self._videos(group), steps, strict=True)]

    def _videos(self, group: int) -> list[list[int]]:
        """The videos of each step of a group, of all processes."""
        first, size = group * SORTED_TOGETHER * self.size, self.size
        together = sorted(range(first, first + SORTED_TOGETHER * size), key=self.samples.usual_steps)
        seed = (self.samples.generator.seed, CHOICE, first)
        places = np.random.default_rng(seed).permutation(SORTED_TOGETHER).tolist()
        return [together[place * size : (place + 1) * size] for place in places]

    def _share(self, videos: list[int]) -> list[int]:
        """This process's part, in order; quiet videos are dealt last, so that nobody has these alone."""
        dealt = sorted(range(len(videos)), key=lambda place: self.samples.is_quiet(videos[place]))
        return [videos[place] for place in sorted(dealt[self.share.rank :: self.share.ranks])]

    def _clips(self, step: int) -> list[int]:
        size = self.samples.clips_per_batch
        return list(range(step * size + self.share.rank, (step + 1) * size, self.share.ranks))

    def _batch(self, videos: list[int], clips: list[int]) -> Batch:
        samples, with_features = self.samples, self.with_features
        window = self._window(max(samples.shortest_batch, *map(samples.usual_steps, videos)), STEPS_APART)
        mine = [samples.video(index, most=window, with_features=with_features) for index in self._share(videos)]
        batch, beside = collate(mine, window), [samples.clip(index, with_features=with_features) for index in clips]
        if not beside:
            return batch
        longest = max(sample.steps for sample in beside)
        return replace(batch, clips=collate(beside, self._window(longest, CLIP_STEPS_APART)))

    def _window(self, steps: int, apart: int) -> int:
        """A length for batches, one of few."""
        return min(self.samples.window, -(-steps // apart) * apart)
