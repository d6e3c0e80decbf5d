"""SegmentLoader: the batches of an epoch, shuffled, sharded over processes and loaded by workers.

The order of an epoch depends on `(seed, epoch)` alone. A batch is the batch of all processes together and the same for
any number of them; each process loads its shard. A run resumed within an epoch continues at a position in it.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from densevid.data.batches import Batch, collate
from densevid.data.dataset import SegmentDataset
from densevid.errors import InputError

# A forked worker has the dataset at once; a spawned one would import torch again and be sent a copy.
START_METHOD = "fork" if "fork" in multiprocessing.get_all_start_methods() else None

Group = list[int]  # indices of segments of one video that share a row of a batch


@dataclass(frozen=True)
class Shard:
    """The part of every batch that process `rank` of `ranks` loads."""

    rank: int = 0
    ranks: int = 1

    def of(self, groups: Sequence[Group]) -> list[Group]:
        """Every `ranks`-th group, so that shards differ in size by one at most."""
        return list(groups[self.rank :: self.ranks])


@dataclass(frozen=True)
class BatchSampler:
    """Divides the segments of an epoch into batches.

    Attributes:
        size: Videos per batch, of all processes together.
        seed: Seed of the order.
        segments_per_video: Segments of one video that share a row of a batch, at most.
        shuffled: False keeps the order of the dataset.
    """

    size: int
    seed: int
    segments_per_video: int = 1
    shuffled: bool = True

    def batches(self, dataset: SegmentDataset, epoch: int) -> list[list[Group]]:
        """All batches of an epoch: of nearly equal size, at most `size`, but never of a single video.

        (After a kernel as long as the window, batch norm sees one value per video, and needs two.)
        """
        groups = self._groups(dataset, epoch)
        count = max(1, min(-(-len(groups) // self.size), len(groups) // 2))
        size, larger = divmod(len(groups), count)
        edges = np.cumsum([0, *[size + 1] * larger, *[size] * (count - larger)]).tolist()
        return [groups[start:end] for start, end in pairwise(edges)]

    def _groups(self, dataset: SegmentDataset, epoch: int) -> list[Group]:
        """The segments in the order of the epoch, those of one video grouped by `segments_per_video`."""
        numbers = epoch_order(len(dataset), self.seed, epoch) if self.shuffled else list(range(len(dataset)))
        if self.segments_per_video == 1:
            return [[number] for number in numbers]
        number_N = np.array(numbers)
        number_N = number_N[np.argsort(dataset.video_N[number_N], kind="stable")]
        rank_N = np.arange(len(number_N)) - dataset.first_V[dataset.video_N[number_N]]
        groups = np.split(number_N, np.flatnonzero(rank_N % self.segments_per_video == 0)[1:])
        if self.shuffled:
            groups = [groups[index] for index in epoch_order(len(groups), self.seed, epoch)]
        return [group.tolist() for group in groups]


def epoch_order(count: int, seed: int, epoch: int) -> list[int]:
    """A permutation of `range(count)` that depends on seed and epoch alone."""
    permuted: list[int] = np.random.default_rng([seed, epoch]).permutation(count).tolist()
    return permuted


def batches(dataset: SegmentDataset, size: int, *, seed: int, epoch: int) -> Iterator[Batch]:
    """The shuffled batches of one epoch, loaded by this process."""
    return iter(SegmentLoader(dataset, BatchSampler(size, seed)).batches(epoch))


class SegmentLoader:
    """The batches of a `SegmentDataset`.

    Args:
        dataset: The segments.
        sampler: Divides an epoch into batches.
        shard: The part of each batch that this process loads; all of it by default.
        workers: Loader processes; 0 loads in this process.
        device: Where batches are moved to.
        resident: Keep all features on the device as one float16 table and gather batches there.

    Raises:
        InputError: A batch has fewer videos than there are processes, or features do not fit into float16.
    """

    def __init__(
        self,
        dataset: SegmentDataset,
        sampler: BatchSampler,
        shard: Shard | None = None,
        *,
        workers: int = 0,
        device: torch.device | str = "cpu",
        resident: bool = False,
    ) -> None:
        self.dataset, self.sampler, self.shard = dataset, sampler, shard or Shard()
        self.workers, self.device = workers, torch.device(device)
        self.features = ResidentFeatures(dataset, self.device) if resident else None
        self._planned = lru_cache(maxsize=2)(lambda epoch: self.sampler.batches(self.dataset, epoch))
        self.sizes(0)

    def steps(self, epoch: int) -> int:
        """Number of batches in an epoch."""
        return len(self._planned(epoch))

    def sizes(self, epoch: int) -> list[int]:
        """Videos in each batch of an epoch, over all processes.

        Raises:
            InputError: There are more processes than videos in a batch.
        """
        sizes = [len(groups) for groups in self._planned(epoch)]
        if min(sizes) < self.shard.ranks:
            reason = f"a batch of {min(sizes)} videos is too small for {self.shard.ranks} processes"
            raise InputError(f"{reason}; raise training.batch_size or start fewer")
        return sizes

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """Iterate over the batches of an epoch, on the device.

        Args:
            epoch: Number of the epoch, from 0.
            position: First batch, for a run that was interrupted.
        """
        groups = [self.shard.of(batch) for batch in self._planned(epoch)[position:]]
        loader: DataLoader[Batch] = DataLoader(
            CatchErrors(_WholeBatches(self.dataset, with_features=self.features is None)),
            batch_size=None,
            sampler=groups,  # an index of this dataset is the list of groups of a batch
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda" and torch.cuda.is_available(),
            generator=torch.Generator(),  # its own: a new DataLoader would advance the run's random numbers
            worker_init_fn=freeze_inherited,
            multiprocessing_context=START_METHOD if self.workers else None,
        )
        for batch in raise_errors(loader):
            moved = batch.to(self.device)
            yield moved if self.features is None else self.features.fill(moved)

    def close(self) -> None:
        """Does nothing: no worker outlives an epoch."""


def freeze_inherited(worker: int) -> None:
    """`worker_init_fn` that keeps a forked worker from collecting its parent's garbage, which may hold GPU tensors."""
    gc.freeze()


class CatchErrors(Dataset[Any]):
    """Wraps a dataset so that an item that fails is returned as its exception, for `raise_errors` to raise.

    A `DataLoader` worker that raises would put its traceback into the message.
    """

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __getitem__(self, index: Any) -> Any:
        try:
            return self.dataset[index]
        except (InputError, OSError) as error:
            return error


def raise_errors(loaded: Iterable[Any]) -> Iterator[Any]:
    """Iterate over loaded items and raise those that are exceptions (see `CatchErrors`)."""
    for item in loaded:
        if isinstance(item, Exception):
            raise item
        yield item


class _WholeBatches(Dataset[Batch]):
    """Adapts a dataset to batches: an index is the list of groups of a batch, an item is the collated batch."""

    def __init__(self, dataset: SegmentDataset, *, with_features: bool) -> None:
        self.dataset, self.with_features = dataset, with_features

    def __getitem__(self, groups: list[Group]) -> Batch:
        samples = [self.dataset.sample(group, with_features=self.with_features) for group in groups]
        return collate(samples, self.dataset.window)


class ResidentFeatures:
    """All features of a dataset as one float16 table on the device, from which batches are gathered."""

    def __init__(self, dataset: SegmentDataset, device: torch.device) -> None:
        steps_V = torch.from_numpy(dataset.steps_V)
        self.first_V = (steps_V.cumsum(0) - steps_V).to(device)
        self.row = {video: row for row, video in enumerate(dataset.videos)}
        width = sum(width for _, width in dataset.source.streams)
        self.table_RF = torch.zeros(int(steps_V.sum()), width, dtype=torch.float16, device=device)
        for video, part_TF in zip(dataset.videos, self.table_RF.split(steps_V.tolist()), strict=True):
            with np.errstate(over="ignore"):
                values = dataset.source.track(video).values[: len(part_TF)].astype(np.float16)
            if not np.isfinite(values).all():
                reason = "its features exceed what float16 can hold"
                raise InputError(f"{video}: {reason}; set training.features_on_device = false")
            part_TF.copy_(torch.from_numpy(values))

    def fill(self, batch: Batch) -> Batch:
        """Gather the features of a batch."""
        row_B = torch.tensor([self.row[video] for video in batch.videos]).to(batch.valid_BT.device)
        return replace(batch, features_BTF=self._gather(row_B, batch.valid_BT))

    def _gather(self, row_B: Tensor, valid_BT: Tensor) -> Tensor:
        step_T = torch.arange(valid_BT.shape[1], device=valid_BT.device)
        place_BT = torch.where(valid_BT, self.first_V[row_B][:, None] + step_T, 0)
        return self.table_RF[place_BT] * valid_BT[..., None]
