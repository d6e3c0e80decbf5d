"""The fast heads equal nn.Conv1d and nn.BatchNorm1d: outputs, every gradient, running statistics."""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import Tensor

from densevid.config import load_config
from densevid.kernels.proposal_heads import fast_heads
from densevid.model.anchors import AnchorGrid
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.proposal_decoder import AnchorHead
from densevid.training.distributed import leave_at_once


def heads_of(grid: AnchorGrid, width: int) -> torch.nn.ModuleList:
    torch.manual_seed(0)
    sizes = zip(grid.kernels, grid.strides, strict=True)
    heads = torch.nn.ModuleList(AnchorHead(width, kernel, stride, 4) for kernel, stride in sizes)
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # gains of any sign, shifts that are not zero
    return heads.train()


def relative(ours: Tensor, theirs: Tensor) -> float:
    ours, theirs = ours.detach().double().cpu(), theirs.detach().double().cpu()
    return float((ours - theirs).norm() / theirs.norm().clamp(min=1e-9))


SMALL_GRID = AnchorGrid.of([1, 2, 3, 7, 12, 33], 5)


def paper_grid() -> AnchorGrid:
    return MaskedTransformer.anchor_grid(load_config("activitynet").model)


def passed_through(
    heads: torch.nn.ModuleList, memory: Tensor, outputs: Callable[[Tensor], Sequence[Tensor]]
) -> dict[str, Tensor]:
    """Everything that is to be equal, by name: outputs, gradients and running statistics."""
    memory = memory.detach().clone().requires_grad_()
    ours = outputs(memory)
    torch.manual_seed(1)
    pulled = [torch.randn(one.shape) * (torch.rand(one[:, :1].shape) < 0.3) for one in ours]
    torch.autograd.backward(list(ours), [gradient.to(one) for gradient, one in zip(pulled, ours, strict=True)])
    assert memory.grad is not None
    gradients = {f"gradient of {name}": value.grad for name, value in heads.named_parameters()}
    return {
        **{f"output {number}": one.detach() for number, one in enumerate(ours)},
        "gradient of memory": memory.grad,
        **{name: gradient for name, gradient in gradients.items() if gradient is not None},
        **{f"statistic {name}": value for name, value in heads.named_buffers()},
    }


def of_all_heads(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same things of all heads as one vector each: of hundreds of sums that nearly cancel, some are unlucky."""
    together = defaultdict[str, list[Tensor]](list)
    for name, value in values.items():
        together[re.sub(r" \d+\.?", " ", name).strip()].append(value.detach().double().flatten())
    return {name: torch.cat(some) for name, some in together.items()}


def compare(
    dtype: torch.dtype,
    device: str,
    tolerance: float,
    width: int = 6,
    steps: int = 40,
    batch: int = 3,
    grid: AnchorGrid = SMALL_GRID,
    as_plain: float = 0.0,
) -> None:
    """The fast heads on `device`, fed in `dtype`, against the plain modules in double precision.

    Where thousands of rectifiers stand, rounding turns some of them over in any implementation: `as_plain` also lets
    the fast heads, all taken together, be so many times as far off as the plain modules are in the same precision.
    """
    fast = heads_of(grid, width).to(device, dtype if dtype != torch.bfloat16 else torch.float32)
    same, double = copy.deepcopy(fast), copy.deepcopy(fast).double()
    memory = (torch.randn(batch, steps, width).to(dtype) * 2 + 1).to(device)
    got = passed_through(fast, memory, lambda rows: fast_heads(rows, list(fast), grid))
    want = passed_through(double, memory.double(), lambda rows: [head(rows.transpose(1, 2)) for head in double])
    with torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16):
        plain = passed_through(same, memory, lambda rows: [head(rows.transpose(1, 2)) for head in same])
    if as_plain:
        got, want, plain = of_all_heads(got), of_all_heads(want), of_all_heads(plain)

    for name, exact in want.items():
        factor = 1 if name.startswith("output") else 20 if name.startswith("gradient") else 10
        if "gradient" in name and float(exact.norm()) < 1e-3:  # a shift that the next norm takes away: rounding alone
            assert name not in got or float(got[name].norm()) < 1e-2, name
            continue
        off, plain_off = relative(got[name], exact), relative(plain[name], exact)
        assert off < max(factor * tolerance, as_plain * plain_off), f"{name}: {off:.2g}, plain {plain_off:.2g}"


def test_equal_in_double_precision() -> None:
    compare(torch.float64, "cpu", 1e-9)


def test_equal_in_single_precision() -> None:
    compare(torch.float32, "cpu", 2e-4)


def compare_masked(dtype: torch.dtype, device: str, tolerance: float, lengths: tuple[int, ...]) -> None:
    """Videos of several lengths, only whose own rows the norms count: the fast heads against the plain modules."""
    fast = heads_of(SMALL_GRID, 16).to(device, dtype)
    plain = copy.deepcopy(fast).double()
    valid = torch.arange(40, device=device) < torch.tensor(lengths, device=device)[:, None]
    memory = (torch.randn(len(lengths), 40, 16, device=device, dtype=dtype) * 2 + 1) * valid[..., None]
    within = SMALL_GRID.within(valid.sum(dim=1), 40)

    def kept(outputs: Sequence[Tensor]) -> list[Tensor]:  # rows that are beyond a video stand in no loss
        return [torch.where(rows[:, None], one, 0) for one, rows in zip(outputs, within, strict=True)]

    got = passed_through(fast, memory, lambda rows: kept(fast_heads(rows, list(fast), SMALL_GRID, valid)))
    want = passed_through(
        plain,
        memory.double(),
        lambda rows: kept([head(rows.transpose(1, 2), valid, own) for head, own in zip(plain, within, strict=True)]),
    )
    assert got.keys() <= want.keys()
    for name, exact in want.items():
        if "gradient" in name and float(exact.norm()) < 1e-3:  # a shift that the next norm takes away: rounding alone
            assert name not in got or float(got[name].norm()) < 1e-2, name
            continue
        factor = 1 if name.startswith("output") else 20 if name.startswith("gradient") else 10
        assert relative(got[name], exact) < factor * tolerance, name


@pytest.mark.parametrize("lengths", [(40, 34, 37), (40, 40, 40), (40, 39, 1), (20, 9, 3)])
def test_masked_norms_are_equal(lengths: tuple[int, ...]) -> None:
    """In the last case the longest kernel has no row within a video."""
    compare_masked(torch.float64, "cpu", 1e-9, lengths)


def test_masked_norms_are_equal_in_single_precision() -> None:
    compare_masked(torch.float32, "cpu", 2e-4, (40, 34, 37))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_masked_norms_are_equal_on_a_gpu() -> None:
    compare_masked(torch.float32, "cuda", 3e-4, (40, 34, 37))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_kernels_are_equal_on_a_gpu() -> None:
    compare(torch.float32, "cuda", 3e-4, width=128, steps=96, batch=5)


def compare_one_rank(rank: int, meeting: str, device: str, tolerance: float, masked: str = "") -> None:
    """Runs in a process of its own: this rank's rows of five against the plain modules with all of them."""
    torch.set_num_threads(1)
    grid, own = AnchorGrid.of([1, 2, 3, 7], 5), (slice(0, 3), slice(3, 5))[rank]
    plain = heads_of(grid, 16).double()
    fast = copy.deepcopy(plain).to(device)
    if device == "cuda":
        fast = fast.float()
    memory = torch.randn(5, 20, 16).double() * 2 + 1
    theirs, ours = memory.clone().requires_grad_(), memory[own].to(next(fast.parameters())).requires_grad_()
    lengths = torch.tensor([20, 14, 9, 20, 20] if masked else [20] * 5)  # the second rank's two have no padding
    valid, within = torch.arange(20) < lengths[:, None], grid.within(lengths, 20)
    pairs = zip(plain, within, strict=True)
    want = [head(theirs.transpose(1, 2), *((valid, rows) if masked else ())) for head, rows in pairs]
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    try:
        if masked == "plain":
            pairs = zip(fast, within, strict=True)
            got = [head(ours.transpose(1, 2), valid[own], rows[own]) for head, rows in pairs]
        else:
            got = fast_heads(ours, list(fast), grid, valid[own].to(ours.device) if masked else None)
        want, got = (
            [torch.where(rows[part, None].to(one.device), one, 0) for one, rows in zip(some, within, strict=True)]
            for some, part in ((want, slice(None)), (got, own))
        )
        torch.manual_seed(1)
        gradients = [torch.randn_like(output) for output in want]
        torch.autograd.backward(want, gradients)
        torch.autograd.backward(got, [gradient[own].to(got[0]) for gradient in gradients])

        for mine, his in zip(got, want, strict=True):
            assert relative(mine, his[own]) < tolerance
        assert relative(ours.grad, theirs.grad[own]) < 10 * tolerance
        for (name, one), (_, whole) in zip(fast.named_parameters(), plain.named_parameters(), strict=True):
            if one.grad is not None and float(whole.grad.norm()) > 1e-3:
                total = one.grad.cpu()
                dist.all_reduce(total)
                assert relative(total, whole.grad) < 20 * tolerance, name
        for (name, one), (_, whole) in zip(fast.named_buffers(), plain.named_buffers(), strict=True):
            assert relative(one, whole) < 10 * tolerance, name
    finally:
        dist.destroy_process_group()
    leave_at_once()


def test_two_ranks_with_uneven_shares_are_one(tmp_path: Path) -> None:
    processes.spawn(compare_one_rank, args=(str(tmp_path / "meeting"), "cpu", 1e-9), nprocs=2)


@pytest.mark.parametrize("masked", ["plain", "fast"])
def test_two_ranks_with_masked_norms_are_one(masked: str, tmp_path: Path) -> None:
    processes.spawn(compare_one_rank, args=(str(tmp_path / "meeting"), "cpu", 1e-9, masked), nprocs=2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_two_ranks_on_a_gpu(tmp_path: Path) -> None:
    processes.spawn(compare_one_rank, args=(str(tmp_path / "meeting"), "cuda", 3e-4), nprocs=2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-4), (torch.bfloat16, 2e-2)])
def test_the_papers_heads_are_equal_on_a_gpu(dtype: torch.dtype, tolerance: float) -> None:
    """What is timed: the paper's 18 kernels, 1024 wide, 480 steps."""
    compare(dtype, "cuda", tolerance, width=1024, steps=480, batch=3, grid=paper_grid(), as_plain=1.5)
