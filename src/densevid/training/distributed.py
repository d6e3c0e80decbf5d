"""Ranks: the processes that `torchrun` starts to train one model together.

DistributedDataParallel averages the gradients. Two things here make the result that of one process with the whole
batch: means are over what all ranks count (`share_of_count`), and batch norms see the rows of all ranks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

from densevid.model.rank_sums import rank_count, summed


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is."""

    rank: int = 0
    count: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which writes files and reports to the user."""
        return self.rank == 0


def local_rank() -> int:
    """Which of the processes of this machine this is."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def started_together() -> int:
    """How many processes `torchrun` started with this one; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """Join the process group if `torchrun` started this process; gives the rank of this process."""
    count = started_together()
    if count == 1:
        yield Ranks()
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), count)
    finally:
        dist.destroy_process_group()


def leave_at_once() -> NoReturn:
    """End this process with code 0, without finalizing the interpreter; everything must be written already.

    The threads of a process group outlive it (DistributedDataParallel keeps them). One that releases a tensor while the
    interpreter is finalized aborts the process, and a run that succeeded would be reported as failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def share_of_count(count: Tensor) -> Tensor:
    """What to divide a sum of this rank by, so that the mean of the ranks' quotients is the mean over all ranks."""
    return summed(count).clamp(min=1) / rank_count()


def mean_over_ranks(values: Tensor) -> Tensor:
    """The mean of a (detached) tensor over all ranks."""
    return summed(values) / rank_count()


def wait_for_all() -> None:
    """Wait until every rank has come here."""
    if rank_count() > 1:
        dist.barrier()


def gather(value: Any) -> list[Any]:
    """The values of all ranks, on every rank; for small values, rarely."""
    if rank_count() == 1:
        return [value]
    found: list[Any] = [None] * rank_count()
    dist.all_gather_object(found, value)
    return found


def with_synchronised_norms(model: nn.Module, device: torch.device) -> None:
    """Make every batch norm see the rows of all ranks: torch's module on GPUs, ours on CPUs, which torch lacks."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.BatchNorm1d:
                setattr(parent, name, _synchronised(child, device))


def _synchronised(norm: nn.BatchNorm1d, device: torch.device) -> nn.Module:
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(norm)
    converted = SynchronisedBatchNorm(norm.num_features, norm.eps, norm.momentum)
    converted.load_state_dict(norm.state_dict())
    return converted


class SynchronisedBatchNorm(nn.BatchNorm1d):
    """nn.BatchNorm1d over the rows of all ranks; mean first, then squares around it, each summed differentiably."""

    def forward(self, values: Tensor) -> Tensor:
        """Normalise every channel (axis 1)."""
        if not self.training or rank_count() == 1:
            return super().forward(values)
        axes = [axis for axis in range(values.dim()) if axis != 1]
        shape = [-1 if axis == 1 else 1 for axis in range(values.dim())]
        count = values.new_tensor(values.numel() / values.shape[1])
        dist.all_reduce(count)
        mean_D = summed(values.sum(axes)) / count
        centred = values - mean_D.view(shape)
        variance_D = summed(centred.square().sum(axes)) / count
        self._move(mean_D.detach(), variance_D.detach() * count / (count - 1))
        scale_D = self.weight * (variance_D + self.eps).rsqrt()
        return centred * scale_D.view(shape) + self.bias.view(shape)

    @torch.no_grad()
    def _move(self, mean_D: Tensor, variance_D: Tensor) -> None:
        """Running statistics, as nn.BatchNorm1d keeps them."""
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean_D, float(self.momentum or 0))
        self.running_var.lerp_(variance_D, float(self.momentum or 0))
