"""TimelineLoader: batches of composed videos without end, of similar lengths, sharded over processes.

Which samples are in a batch depends on the number of its step alone, and so does the length it is padded to, for any
number of training processes and loader workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from densevid.data.batches import Batch, collate
from densevid.data.dataloader import START_METHOD, CatchErrors, Shard, freeze_inherited, raise_errors
from densevid.data.feature_rows import DeviceFeatureTable
from densevid.errors import InputError
from densevid.timelines.dataset import EVENT_DRAWS, TimelineDataset

UNPERMUTED_EVERY = 16  # one video in so many of a batch never has its channels permuted
SHARD_DRAWS = 17  # seed: which process composes which videos of a batch
SORTED_TOGETHER = 4  # batches whose videos are sorted by length together, to pad less
STEPS_APART, CLIP_STEPS_APART = 96, 32  # batches are padded to multiples of these: kernels are compiled per length


class TimelineLoader:
    """The batches of a `TimelineDataset`.

    Videos of a few batches are sorted by length before they are divided, so that short ones need little padding.
    Workers live on from epoch to epoch.

    Args:
        dataset: Composes the videos.
        size: Videos per batch, of all processes together.
        shard: The part of each batch that this process composes; all of it by default.
        workers: Loader processes; 0 composes in this process.
        device: Where batches are moved to.
        resident: Keep the clips' features on the device; workers then send row numbers alone.

    Raises:
        InputError: A batch is too small for the number of processes, or could be negatives alone.
    """

    def __init__(
        self,
        dataset: TimelineDataset,
        size: int,
        shard: Shard | None = None,
        *,
        workers: int = 0,
        device: torch.device | str = "cpu",
        resident: bool = False,
    ) -> None:
        self.dataset, self.size, self.shard = dataset, size, shard or Shard()
        self.workers, self.device = workers, torch.device(device)
        self.table = DeviceFeatureTable(dataset.footage, self.device) if resident else None
        self._batches: Iterator[Batch] = iter(())
        self._next = -1  # the step, counted from the beginning of the run, that `_batches` yields next
        for what, many in (("videos", size), ("clips beside them", dataset.clips_per_batch or self.shard.ranks)):
            if many < self.shard.ranks:
                raise InputError(f"a batch of {many} {what} is too small for {self.shard.ranks} processes")
        if dataset.channel_permuted and _unpermuted(size) < self.shard.ranks:
            least = UNPERMUTED_EVERY * (self.shard.ranks - 1) + 1
            raise InputError(
                f"with training.channel_permuted only {_unpermuted(size)} of {size} videos surely have sentences, and "
                f"each of {self.shard.ranks} processes needs one; set training.batch_size to {least} or more"
            )
        if dataset.has_negatives and size < 2 * self.shard.ranks:
            raise InputError(
                f"a batch of {size} videos could consist of no-event videos alone; set training.batch_size higher"
            )

    def steps(self, epoch: int) -> int:
        """Number of batches in an epoch."""
        return max(1, len(self.dataset) // self.size)

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """Iterate over the batches of an epoch, on the device.

        Args:
            epoch: Number of the epoch, from 0.
            position: First batch, for a run that was interrupted.
        """
        first, last = (epoch * self.steps(epoch) + step for step in (position, self.steps(epoch)))
        if first != self._next:
            self._batches = self._begin(first)
        for step in range(first, last):
            self._next = step + 1
            yield self._gathered(next(self._batches).to(self.device))

    def _gathered(self, batch: Batch) -> Batch:
        """The batch with its features, if these lie on the device; those of its clips likewise."""
        if self.table is None or batch.rows is None:
            return batch
        clips = None if batch.clips is None else self._gathered(batch.clips)
        return replace(batch, features_BTF=self.table.gather(batch.rows), rows=None, clips=clips)

    def close(self) -> None:
        """Shut the workers down; later batches start new ones."""
        self._batches, self._next = iter(()), -1

    def _begin(self, step: int) -> Iterator[Batch]:
        """Batches from a step on, without end."""
        loader: DataLoader[list[Batch]] = DataLoader(
            CatchErrors(_SortedBatches(self.dataset, self.size, self.shard, with_features=self.table is None)),
            batch_size=None,
            sampler=_CountFrom(step // SORTED_TOGETHER),
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda" and torch.cuda.is_available(),
            generator=torch.Generator(),  # its own: a new DataLoader would advance the run's random numbers
            worker_init_fn=freeze_inherited,
            multiprocessing_context=START_METHOD if self.workers else None,
        )
        composed = (batch for group in raise_errors(loader) for batch in group)
        for _ in range(step % SORTED_TOGETHER):
            next(composed)
        return composed


def _unpermuted(size: int) -> int:
    """How many videos of a batch never have their channels permuted."""
    return -(-size // UNPERMUTED_EVERY)


@dataclass(frozen=True)
class _CountFrom:
    """A sampler that counts up from a number without end."""

    first: int

    def __iter__(self) -> Iterator[int]:
        return count(self.first)


class _SortedBatches(Dataset[list[Batch]]):
    """Groups of a few batches by index; the videos of a group are sorted by estimated length and divided again.

    All videos of all processes are sorted before a batch is sharded, so a step has the same videos for any number of
    processes, and the same length in all of them: the estimated length of its longest video. The few videos that turn
    out longer are cut, as at the window.
    """

    def __init__(self, dataset: TimelineDataset, size: int, shard: Shard, *, with_features: bool) -> None:
        self.dataset, self.size, self.shard, self.with_features = dataset, size, shard, with_features

    def __getitem__(self, group: int) -> list[Batch]:
        steps = range(group * SORTED_TOGETHER, (group + 1) * SORTED_TOGETHER)
        return [self._batch(videos, self._clips(step)) for videos, step in zip(self._videos(group), steps, strict=True)]

    def _videos(self, group: int) -> list[list[int]]:
        """The videos of each batch of a group, of all processes."""
        first, size = group * SORTED_TOGETHER * self.size, self.size
        by_length = sorted(range(first, first + SORTED_TOGETHER * size), key=self.dataset.estimated_steps)
        seed = (self.dataset.generator.seed, EVENT_DRAWS, first)
        places = np.random.default_rng(seed).permutation(SORTED_TOGETHER).tolist()
        return [by_length[place * size : (place + 1) * size] for place in places]

    def _shuffled(self, videos: list[int]) -> list[int]:
        """The videos of a batch in the order in which they are sharded: at random, negatives last.

        So no process has negatives alone. The first ones are never permuted, so that every process has sentences.
        """
        rng = np.random.default_rng((self.dataset.generator.seed, SHARD_DRAWS, min(videos)))
        shuffled = sorted(rng.permutation(videos).tolist(), key=self.dataset.is_negative)
        if self.dataset.is_negative(shuffled[self.shard.ranks - 1]):
            raise InputError(
                f"too many of the {len(videos)} videos of a batch have no events; "
                "set training.batch_size or training.negatives_every higher"
            )
        return shuffled

    def _clips(self, step: int) -> list[int]:
        size = self.dataset.clips_per_batch
        return list(range(step * size + self.shard.rank, (step + 1) * size, self.shard.ranks))

    def _batch(self, videos: list[int], clips: list[int]) -> Batch:
        dataset, with_features = self.dataset, self.with_features
        longest = dataset.estimated_steps(videos[-1])  # they are sorted
        window = self._padded_length(max(dataset.shortest_batch, longest), STEPS_APART)
        shuffled = self._shuffled(videos)
        unpermuted, own = set(shuffled[: _unpermuted(self.size)]), set(shuffled[self.shard.rank :: self.shard.ranks])
        samples = [
            dataset.video(index, max_steps=window, with_features=with_features, permute=index not in unpermuted)
            for index in videos
            if index in own
        ]
        batch, beside = collate(samples, window), [dataset.clip(index, with_features=with_features) for index in clips]
        if not beside:
            return batch
        beside.sort(key=lambda sample: sample.steps)  # so that those of similar lengths can be encoded together
        return replace(batch, clips=collate(beside, self._padded_length(beside[-1].steps, CLIP_STEPS_APART)))

    def _padded_length(self, steps: int, apart: int) -> int:
        """The next multiple of `apart`, at most the window."""
        return min(self.dataset.window, -(-steps // apart) * apart)
