"""The fast heads equal nn.Conv1d and nn.BatchNorm1d: outputs, every gradient, running statistics."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from densevid.model.anchors import AnchorGrid
from densevid.model.long_convolution import fast_heads
from densevid.model.proposal_decoder import AnchorHead


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


def compare(dtype: torch.dtype, device: str, tolerance: float, width: int = 6, steps: int = 40, batch: int = 3) -> None:
    """The fast heads in `dtype` on `device` against the plain modules in double precision."""
    grid = AnchorGrid.of([1, 2, 3, 7, 12, 33], 5)
    fast = heads_of(grid, width).to(device, dtype)
    plain = copy.deepcopy(fast).cpu().double()
    memory = torch.randn(batch, steps, width).to(dtype) * 2 + 1
    ours = memory.to(device, copy=True).requires_grad_()
    theirs = memory.double().requires_grad_()
    want = [head(theirs.transpose(1, 2)) for head in plain]
    got = fast_heads(ours, list(fast), grid)
    torch.manual_seed(1)
    gradients = [torch.randn_like(output) * (torch.rand_like(output[:, :1]) < 0.3) for output in want]
    torch.autograd.backward(want, gradients)
    torch.autograd.backward(got, [gradient.to(output) for gradient, output in zip(gradients, got, strict=True)])

    for ours_out, theirs_out in zip(got, want, strict=True):
        assert relative(ours_out, theirs_out) < tolerance
    assert relative(ours.grad, theirs.grad) < 10 * tolerance
    for (name, mine), (_, his) in zip(fast.named_parameters(), plain.named_parameters(), strict=True):
        scale = float(his.grad.norm())
        if scale > 1e-3:  # a shift that the next norm takes away has no gradient but rounding
            assert relative(mine.grad, his.grad) < 20 * tolerance, name
        else:
            assert mine.grad is None or float(mine.grad.norm()) < 1e-2, name
    for (name, mine), (_, his) in zip(fast.named_buffers(), plain.named_buffers(), strict=True):
        assert relative(mine, his) < 10 * tolerance, name


def test_equal_in_double_precision() -> None:
    compare(torch.float64, "cpu", 1e-9)


def test_equal_in_single_precision() -> None:
    compare(torch.float32, "cpu", 2e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_kernels_are_equal_on_a_gpu() -> None:
    compare(torch.float32, "cuda", 3e-4, width=128, steps=96, batch=5)
