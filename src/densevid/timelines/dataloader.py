"""Batches of timelines without end: which videos share a step, how long it is, and who composes them.

Which samples a step has depends on its number alone, and so does its length, with any number of processes that learn
or load.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from densevid.data.dataloader import LOADING, ErrorsHandedOver, Share, leave_inherited, raising
from densevid.data.dataset import Batch, collate
from densevid.errors import InputError
from densevid.timelines.dataset import CHOICE, TimelineSamples
from densevid.timelines.rows import ResidentFootage

ONE_PLAIN_IN = 16  # one in so many videos of a batch is never disguised
DEALING = 17  # sets the draws of who is dealt what apart from other draws
SORTED_TOGETHER = 4  # batches; those of similar length are padded less
STEPS_APART, CLIP_STEPS_APART = 96, 32  # lengths of batches: few of them, since kernels are compiled for each


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
        if dataset.channel_permuted and _plain(size) < self.share.ranks:
            least = ONE_PLAIN_IN * (self.share.ranks - 1) + 1
            raise InputError(
                f"training.channel_permuted leaves {_plain(size)} of {size} videos for sure, and every process needs "
                f"one to tell of; set training.batch_size to {least} or more"
            )
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


def _plain(size: int) -> int:
    """How many videos of a batch are never disguised."""
    return -(-size // ONE_PLAIN_IN)


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

    def _dealt(self, videos: list[int]) -> list[int]:
        """The order in which processes are dealt videos, by chance: quiet ones last, so that nobody has these alone.

        The first are never disguised, so that everybody has words to learn.
        """
        rng = np.random.default_rng((self.samples.generator.seed, DEALING, min(videos)))
        dealt = sorted(rng.permutation(videos).tolist(), key=self.samples.is_quiet)
        if self.samples.is_quiet(dealt[self.share.ranks - 1]):
            raise InputError(
                f"of {len(videos)} videos of a batch too many are quiet; "
                "set training.batch_size or training.negatives_every higher"
            )
        return dealt

    def _clips(self, step: int) -> list[int]:
        size = self.samples.clips_per_batch
        return list(range(step * size + self.share.rank, (step + 1) * size, self.share.ranks))

    def _batch(self, videos: list[int], clips: list[int]) -> Batch:
        samples, with_features = self.samples, self.with_features
        usual = samples.usual_steps(videos[-1])  # the longest: they are sorted
        window = self._window(max(samples.shortest_batch, usual), STEPS_APART)
        dealt = self._dealt(videos)
        plain, own = set(dealt[: _plain(self.size)]), set(dealt[self.share.rank :: self.share.ranks])
        mine = [
            samples.video(index, most=window, with_features=with_features, plain=index in plain)
            for index in videos
            if index in own
        ]
        batch, beside = collate(mine, window), [samples.clip(index, with_features=with_features) for index in clips]
        if not beside:
            return batch
        longest = max(sample.steps for sample in beside)
        return replace(batch, clips=collate(beside, self._window(longest, CLIP_STEPS_APART)))

    def _window(self, steps: int, apart: int) -> int:
        """A length for batches, one of few."""
        return min(self.samples.window, -(-steps // apart) * apart)
