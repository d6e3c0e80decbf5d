"""Loading: which segments make up each batch of an epoch, who of several processes loads which of them, and from where.

The order of an epoch follows from (seed, epoch) alone. Every step has a batch of all processes together, the same for
any number of them; each process takes its share of it. A run that stopped in an epoch goes on at a position in it.
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

from densevid.data.dataset import Batch, SegmentDataset, collate
from densevid.errors import InputError

# A forked process has the data at once; others would load torch anew and be sent everything.
LOADING = "fork" if "fork" in multiprocessing.get_all_start_methods() else None

Group = list[int]  # segments of one video that share a row of a batch


@dataclass(frozen=True)
class Share:
    """The part of every batch that one of several processes loads."""

    rank: int = 0
    ranks: int = 1

    def of(self, groups: Sequence[Group]) -> list[Group]:
        """Every `ranks`-th group, so that shares differ by one at most."""
        return list(groups[self.rank :: self.ranks])


@dataclass(frozen=True)
class Plan:
    """How an epoch is cut into batches of `size` videos (of all processes together)."""

    size: int
    seed: int
    segments_per_video: int = 1
    shuffled: bool = True

    def batches(self, dataset: SegmentDataset, epoch: int) -> list[list[Group]]:
        """All batches of an epoch, of nearly the same size and never more than `size`, unless one would be alone.

        Behind a kernel as long as the window a batch norm sees one value of each video, and needs two.
        """
        groups = self._groups(dataset, epoch)
        count = max(1, min(-(-len(groups) // self.size), len(groups) // 2))
        size, larger = divmod(len(groups), count)
        edges = np.cumsum([0, *[size + 1] * larger, *[size] * (count - larger)]).tolist()
        return [groups[start:end] for start, end in pairwise(edges)]

    def _groups(self, dataset: SegmentDataset, epoch: int) -> list[Group]:
        """The segments in the order of the epoch, those of a video taken together if they may be."""
        numbers = order(len(dataset), self.seed, epoch) if self.shuffled else list(range(len(dataset)))
        if self.segments_per_video == 1:
            return [[number] for number in numbers]
        number_N = np.array(numbers)
        number_N = number_N[np.argsort(dataset.video_N[number_N], kind="stable")]
        rank_N = np.arange(len(number_N)) - dataset.first_V[dataset.video_N[number_N]]
        groups = np.split(number_N, np.flatnonzero(rank_N % self.segments_per_video == 0)[1:])
        if self.shuffled:
            groups = [groups[index] for index in order(len(groups), self.seed, epoch)]
        return [group.tolist() for group in groups]


def order(count: int, seed: int, epoch: int) -> list[int]:
    """The order of the samples in an epoch: a function of seed and epoch alone."""
    permuted: list[int] = np.random.default_rng([seed, epoch]).permutation(count).tolist()
    return permuted


def batches(dataset: SegmentDataset, size: int, *, seed: int, epoch: int) -> Iterator[Batch]:
    """All samples of one epoch in its own order, loaded by this process."""
    return iter(Loader(dataset, Plan(size, seed)).batches(epoch))


class Loader:
    """The batches of a dataset, this process's share of each, read by `workers` other processes or by this one."""

    def __init__(
        self,
        dataset: SegmentDataset,
        plan: Plan,
        share: Share | None = None,
        *,
        workers: int = 0,
        device: torch.device | str = "cpu",
        resident: bool = False,
    ) -> None:
        self.dataset, self.plan, self.share = dataset, plan, share or Share()
        self.workers, self.device = workers, torch.device(device)
        self.features = ResidentFeatures(dataset, self.device) if resident else None
        self._planned = lru_cache(maxsize=2)(lambda epoch: self.plan.batches(self.dataset, epoch))
        self.sizes(0)

    def steps(self, epoch: int) -> int:
        """How many batches an epoch has."""
        return len(self._planned(epoch))

    def sizes(self, epoch: int) -> list[int]:
        """Videos in each batch, over all processes; an error if there are more processes than that."""
        sizes = [len(groups) for groups in self._planned(epoch)]
        if min(sizes) < self.share.ranks:
            reason = f"a batch of {min(sizes)} videos is too small for {self.share.ranks} processes"
            raise InputError(f"{reason}; raise training.batch_size or start fewer")
        return sizes

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from a position on, on the device."""
        groups = [self.share.of(batch) for batch in self._planned(epoch)[position:]]
        loader: DataLoader[Batch] = DataLoader(
            ErrorsHandedOver(_WholeBatches(self.dataset, with_features=self.features is None)),
            batch_size=None,
            sampler=groups,  # an index of the dataset is a list of groups
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda" and torch.cuda.is_available(),
            generator=torch.Generator(),  # of its own: a new loader must not move the run's random numbers
            worker_init_fn=leave_inherited,
            multiprocessing_context=LOADING if self.workers else None,
        )
        for batch in raising(loader):
            moved = batch.to(self.device)
            yield moved if self.features is None else self.features.fill(moved)

    def close(self) -> None:
        """Nothing stays open between epochs."""


def leave_inherited(worker: int) -> None:
    """A loading process must not collect garbage of its parent: tensors on a GPU can be freed there alone."""
    gc.freeze()


class ErrorsHandedOver(Dataset[Any]):
    """A dataset that gives what is wrong with an item in its place, for `raising` to raise.

    An error that leaves a loading process would arrive with the process's traceback as a part of its text.
    """

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __getitem__(self, index: Any) -> Any:
        try:
            return self.dataset[index]
        except (InputError, OSError) as error:
            return error


def raising(loaded: Iterable[Any]) -> Iterator[Any]:
    """What was loaded; an error that was handed over is raised here, as it was in the loading process."""
    for item in loaded:
        if isinstance(item, Exception):
            raise item
        yield item


class _WholeBatches(Dataset[Batch]):
    """A dataset whose index is the list of groups of a batch."""

    def __init__(self, dataset: SegmentDataset, *, with_features: bool) -> None:
        self.dataset, self.with_features = dataset, with_features

    def __getitem__(self, groups: list[Group]) -> Batch:
        samples = [self.dataset.sample(group, with_features=self.with_features) for group in groups]
        return collate(samples, self.dataset.window)


class ResidentFeatures:
    """The features of a whole dataset as one float16 table on the device, from which batches are gathered."""

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
        """The batch with its features."""
        row_B = torch.tensor([self.row[video] for video in batch.videos]).to(batch.valid_BT.device)
        return replace(batch, features_BTF=self._gather(row_B, batch.valid_BT))

    def _gather(self, row_B: Tensor, valid_BT: Tensor) -> Tensor:
        step_T = torch.arange(valid_BT.shape[1], device=valid_BT.device)
        place_BT = torch.where(valid_BT, self.first_V[row_B][:, None] + step_T, 0)
        return self.table_RF[place_BT] * valid_BT[..., None]
