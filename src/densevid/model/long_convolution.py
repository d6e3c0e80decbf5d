"""The fast form of the proposal heads: the same numbers as their Conv1d and BatchNorm1d modules, in far fewer passes.

A head is: batch norm, long depthwise convolution, batch norm, pointwise product, batch norm, ReLU, batch norm,
pointwise product. Over all anchors of a large batch each of its tensors holds gigabytes, so what costs is how often
they are read and written. Here, while training:

- all heads read one tensor, so the statistics of the first batch norm are taken once and folded into the kernels;
- the second batch norm is folded into the pointwise product that follows it;
- the third and fourth are per-channel constants that later passes apply on the fly;
- backward, a batch norm needs two sums per channel; those of the last two follow from the sums of one pass, and those
  of the second from the gradient of the product itself, so no pass over the tensors is spent on them.

Rows are anchors, columns are channels. The passes themselves (`Passes`) are plain torch on a CPU and Triton on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from densevid.model.anchors import AnchorGrid


@dataclass(frozen=True)
class Rectified:
    """Per-channel constants of v = gain (y - mean) inverse_deviation + shift, of which the head takes max(0, v)."""

    mean: Tensor
    inverse_deviation: Tensor
    gain: Tensor
    shift: Tensor

    def standardised(self, rows_ND: Tensor) -> Tensor:
        """t = (y - mean) inverse_deviation."""
        return (rows_ND.to(self.mean.dtype) - self.mean) * self.inverse_deviation


class Passes(Protocol):
    """Each method reads (and at most one writes) the large tensors once."""

    def convolve(
        self, memory_BTD: Tensor, kernels: Sequence[Tensor], biases: Sequence[Tensor], grid: AnchorGrid
    ) -> Any:
        """Depthwise convolutions of every head, each B x A x D."""

    def convolve_back(
        self, memory_BTD: Tensor, kernels: Sequence[Tensor], gradients: Sequence[Tensor], grid: AnchorGrid
    ) -> tuple[Tensor, list[Tensor]]:
        """Gradients of the memory and of every kernel (K x D)."""

    def moments(self, rows_ND: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and (biased) variance of every column."""

    def rectified_sums(self, rows_ND: Tensor, norm: Rectified) -> tuple[Tensor, Tensor, Tensor]:
        """Sums over the rows where v > 0 of 1, t and t^2."""

    def output(self, rows_ND: Tensor, norm: Rectified, weight_RD: Tensor, bias_R: Tensor) -> Tensor:
        """max(0, v) weight^T + bias."""

    def output_sums(self, rows_ND: Tensor, norm: Rectified, gradient_NR: Tensor) -> tuple[Tensor, Tensor]:
        """gradient^T [v > 0] and gradient^T [v > 0] t."""

    def output_back(
        self, rows_ND: Tensor, norm: Rectified, gradient_NR: Tensor, weight_RD: Tensor, constants: Sequence[Tensor]
    ) -> Tensor:
        """gain inverse_deviation ([v > 0] (gradient weight + c0 + c1 t) - c2 - c3 t); may overwrite the rows."""


class TorchPasses:
    """The passes in plain torch: for a CPU, and to check the others."""

    def convolve(
        self, memory_BTD: Tensor, kernels: Sequence[Tensor], biases: Sequence[Tensor], grid: AnchorGrid
    ) -> list[Tensor]:
        """See `Passes`."""
        memory_BDT = memory_BTD.transpose(1, 2)
        rows = zip(kernels, biases, grid.strides, strict=True)
        return [_depthwise(memory_BDT, kernel, stride).transpose(1, 2) + bias for kernel, bias, stride in rows]

    def convolve_back(
        self, memory_BTD: Tensor, kernels: Sequence[Tensor], gradients: Sequence[Tensor], grid: AnchorGrid
    ) -> tuple[Tensor, list[Tensor]]:
        """See `Passes`."""
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in (memory_BTD, *kernels)]
            memory_BDT = leaves[0].transpose(1, 2)
            pairs = zip(leaves[1:], grid.strides, strict=True)
            outputs = [_depthwise(memory_BDT, kernel, stride).transpose(1, 2) for kernel, stride in pairs]
            back = torch.autograd.grad(outputs, leaves, list(gradients))
        return back[0], list(back[1:])

    def moments(self, rows_ND: Tensor) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        variance, mean = torch.var_mean(rows_ND.to(_wide(rows_ND)), dim=0, correction=0)
        return mean, variance

    def rectified_sums(self, rows_ND: Tensor, norm: Rectified) -> tuple[Tensor, Tensor, Tensor]:
        """See `Passes`."""
        standard_ND = norm.standardised(rows_ND)
        open_ND = _open(standard_ND, norm)
        return open_ND.sum(0), (open_ND * standard_ND).sum(0), (open_ND * standard_ND**2).sum(0)

    def output(self, rows_ND: Tensor, norm: Rectified, weight_RD: Tensor, bias_R: Tensor) -> Tensor:
        """See `Passes`."""
        return (norm.standardised(rows_ND) * norm.gain + norm.shift).relu() @ weight_RD.T + bias_R

    def output_sums(self, rows_ND: Tensor, norm: Rectified, gradient_NR: Tensor) -> tuple[Tensor, Tensor]:
        """See `Passes`."""
        standard_ND = norm.standardised(rows_ND)
        open_ND = _open(standard_ND, norm)
        gradient_RN = gradient_NR.to(standard_ND.dtype).T
        return gradient_RN @ open_ND, gradient_RN @ (open_ND * standard_ND)

    def output_back(
        self, rows_ND: Tensor, norm: Rectified, gradient_NR: Tensor, weight_RD: Tensor, constants: Sequence[Tensor]
    ) -> Tensor:
        """See `Passes`."""
        standard_ND = norm.standardised(rows_ND)
        c0, c1, c2, c3 = constants
        inner_ND = gradient_NR.to(standard_ND.dtype) @ weight_RD + c0 + c1 * standard_ND
        gradient_ND = _open(standard_ND, norm) * inner_ND - c2 - c3 * standard_ND
        return (norm.gain * norm.inverse_deviation * gradient_ND).to(rows_ND.dtype)


def _open(standard_ND: Tensor, norm: Rectified) -> Tensor:
    return (standard_ND * norm.gain + norm.shift > 0).to(standard_ND.dtype)


def _depthwise(memory_BDT: Tensor, kernel_KD: Tensor, stride: int) -> Tensor:
    return F.conv1d(memory_BDT, kernel_KD.T[:, None], stride=stride, groups=kernel_KD.shape[1])


def _wide(values: Tensor) -> torch.dtype:
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def passes_for(values: Tensor) -> Passes:
    """Triton where the tensor is on a GPU, torch elsewhere."""
    if values.is_cuda:
        from densevid.model.long_convolution_triton import TritonPasses

        return TritonPasses()
    return TorchPasses()


class _Convolve(torch.autograd.Function):
    """Depthwise convolutions of all heads. A bias has no gradient: the batch norm that follows takes it away again."""

    @staticmethod
    def forward(ctx: Any, memory_BTD: Tensor, grid: AnchorGrid, passes: Passes, *tensors: Tensor) -> tuple[Tensor, ...]:
        kernels, biases = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
        ctx.save_for_backward(memory_BTD, *kernels)
        ctx.grid, ctx.passes = grid, passes
        return tuple(passes.convolve(memory_BTD, kernels, biases, grid))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        memory_BTD, *kernels = ctx.saved_tensors
        memory_gradient, kernel_gradients = ctx.passes.convolve_back(memory_BTD, kernels, gradients, ctx.grid)
        return memory_gradient, None, None, *kernel_gradients, *(None for _ in kernels)


@dataclass(frozen=True)
class _HeadState:
    """What a head's backward pass needs besides its rows and weights.

    `share`, `first` and `second` are the means over all rows of [v > 0], [v > 0] t and [v > 0] t^2.
    """

    hidden_ND: Tensor
    folded_DD: Tensor
    mean2: Tensor
    inverse2: Tensor
    norm: Rectified
    share: Tensor
    first: Tensor
    second: Tensor
    mean4: Tensor
    inverse4: Tensor


class _NormalisedHead(torch.autograd.Function):
    """Batch norm, product, batch norm, ReLU, batch norm, product, over N rows; also the moments of the three norms.

    Backward, with t and v as in `Rectified`, r = max(0, v), N rows, and g the gradient of the output rows:
      last product      dWo = g^T u, u = a r + c the fourth norm's output;  du = g Wo
      fourth norm       dr = a du + c0 + c1 t on the open rows, c0 and c1 from sum du and sum du (r - mean r)
      third norm        dy = gain / deviation ([v > 0] dr - mean(dv) - t mean(dv t)), the means from the same sums
      product           y = z W'^T, W' = W diag(s) with the second norm's s = gain / deviation:  dW = (dy^T z) s
      second norm       dz = dy W' - s / deviation^2 mean(dh z^) (z - mean), with sum dy = 0 and mean(dh z^) from dW
    """

    @staticmethod
    def forward(ctx: Any, rows_ND: Tensor, eps: float, passes: Passes, *weights: Tensor) -> tuple[Tensor, ...]:
        product_DD, last_RD, bias_R, gain2, shift2, gain3, shift3, gain4, shift4 = weights
        mean2, variance2 = passes.moments(rows_ND)
        inverse2 = (variance2 + eps).rsqrt()
        scale2 = gain2 * inverse2
        folded_DD = (product_DD * scale2).to(rows_ND.dtype)
        offset_D = (product_DD @ (shift2 - mean2 * scale2)).to(rows_ND.dtype)
        hidden_ND = torch.addmm(offset_D, rows_ND, folded_DD.T)

        mean3, variance3 = passes.moments(hidden_ND)
        norm = Rectified(mean3, (variance3 + eps).rsqrt(), gain3, shift3)
        share, first, second = (total / len(rows_ND) for total in passes.rectified_sums(hidden_ND, norm))
        mean4 = gain3 * first + shift3 * share
        closed = 1 - share  # written so that nothing cancels where every row is open
        variance4 = gain3**2 * (second - first**2) + 2 * gain3 * shift3 * first * closed + shift3**2 * share * closed
        variance4 = variance4.clamp(min=0)
        inverse4 = (variance4 + eps).rsqrt()
        scale4 = gain4 * inverse4
        output_NR = passes.output(hidden_ND, norm, last_RD * scale4, bias_R + last_RD @ (shift4 - mean4 * scale4))

        ctx.save_for_backward(rows_ND, *weights)
        ctx.passes = passes
        ctx.state = _HeadState(hidden_ND, folded_DD, mean2, inverse2, norm, share, first, second, mean4, inverse4)
        moments = (mean2, variance2, mean3, variance3, mean4, variance4)
        ctx.mark_non_differentiable(*moments)
        return output_NR, *moments

    @staticmethod
    def backward(ctx: Any, gradient_NR: Tensor, *unused: Tensor) -> tuple[Any, ...]:
        rows_ND, product_DD, last_RD, _, gain2, _, gain3, shift3, gain4, shift4 = ctx.saved_tensors
        state: _HeadState = ctx.state
        share, first, second = state.share, state.first, state.second
        total = len(rows_ND)
        gradient_NR = gradient_NR.contiguous()
        whole_R1 = gradient_NR.to(first.dtype).sum(0)[:, None]
        open_RD, tilted_RD = ctx.passes.output_sums(state.hidden_ND, state.norm, gradient_NR)

        scale4 = gain4 * state.inverse4
        through_RD = gain3 * tilted_RD + shift3 * open_RD  # gradient^T r
        centred_RD = gain3 * (tilted_RD - whole_R1 * first) + shift3 * (open_RD - whole_R1 * share)
        last_gradient = scale4 * through_RD + whole_R1 * (shift4 - state.mean4 * scale4)
        shift4_gradient = (whole_R1 * last_RD).sum(0)
        gain4_gradient = state.inverse4 * (last_RD * centred_RD).sum(0)

        slope = -scale4 * state.inverse4 * gain4_gradient / total
        c0 = slope * (shift3 * (1 - share) - gain3 * first) - scale4 * shift4_gradient / total
        c1 = slope * gain3
        weight_RD = last_RD * scale4
        shift3_gradient = (weight_RD * open_RD).sum(0) + total * (c0 * share + c1 * first)
        gain3_gradient = (weight_RD * tilted_RD).sum(0) + total * (c0 * first + c1 * second)
        constants = (c0, c1, shift3_gradient / total, gain3_gradient / total)
        hidden_gradient = ctx.passes.output_back(state.hidden_ND, state.norm, gradient_NR, weight_RD, constants)

        scale2 = gain2 * state.inverse2
        correlation_DD = (hidden_gradient.T @ rows_ND).to(scale2.dtype)
        gain2_gradient = state.inverse2 * (product_DD * correlation_DD).sum(0)
        pull = -scale2 * state.inverse2 * gain2_gradient / total
        rows_gradient = torch.addcmul((-pull * state.mean2).to(rows_ND.dtype), rows_ND, pull.to(rows_ND.dtype))
        rows_gradient.addmm_(hidden_gradient, state.folded_DD)
        products = (correlation_DD * scale2, last_gradient, whole_R1[:, 0])
        norm2 = (gain2_gradient, torch.zeros_like(gain2_gradient))  # the third norm takes any shift away
        later_norms = (gain3_gradient, shift3_gradient, gain4_gradient, shift4_gradient)
        return rows_gradient, None, None, *products, *norm2, *later_norms


class Head(Protocol):
    """The modules of a proposal head, in the order in which they are applied."""

    input_norm: nn.BatchNorm1d
    depthwise: nn.Conv1d
    depthwise_norm: nn.BatchNorm1d
    pointwise: nn.Conv1d
    pointwise_norm: nn.BatchNorm1d
    output_norm: nn.BatchNorm1d
    output: nn.Conv1d


def fast_heads(memory_BTD: Tensor, heads: Sequence[Head], grid: AnchorGrid) -> list[Tensor]:
    """What `[head(memory) for head in heads]` gives in training mode, each B x R x A; running statistics move, too."""
    passes, wide = passes_for(memory_BTD), _wide(memory_BTD)
    variance, mean = torch.var_mean(memory_BTD.to(wide), dim=(0, 1), correction=0)
    kernels, biases = [], []
    for head in heads:
        scale = head.input_norm.weight * (variance + head.input_norm.eps).rsqrt()
        weight_KD = head.depthwise.weight.squeeze(1).T.to(wide)
        kernels.append((weight_KD * scale).contiguous())
        biases.append((weight_KD.sum(0) * (head.input_norm.bias - mean * scale)).detach())
        _move(head.input_norm, mean.detach(), variance.detach(), memory_BTD.shape[0] * memory_BTD.shape[1])
    rows = _Convolve.apply(memory_BTD, grid, passes, *kernels, *biases)
    return [_normalised_head(head, rows_BAD, passes) for head, rows_BAD in zip(heads, rows, strict=True)]


def _normalised_head(head: Head, rows_BAD: Tensor, passes: Passes) -> Tensor:
    norms = (head.depthwise_norm, head.pointwise_norm, head.output_norm)
    batch, anchors, width = rows_BAD.shape
    output_NR, *moments = _NormalisedHead.apply(
        rows_BAD.reshape(-1, width),
        norms[0].eps,
        passes,
        head.pointwise.weight.squeeze(-1),
        head.output.weight.squeeze(-1),
        head.output.bias,
        *(parameter for norm in norms for parameter in (norm.weight, norm.bias)),
    )
    for norm, mean, variance in zip(norms, moments[::2], moments[1::2], strict=True):
        _move(norm, mean, variance, batch * anchors)
    return output_NR.view(batch, anchors, -1).transpose(1, 2)


@torch.no_grad()
def _move(norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, count: int) -> None:
    """Update running statistics as nn.BatchNorm1d does."""
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    unbiased = variance * (count / max(1, count - 1))
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), float(norm.momentum or 0))
    norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), float(norm.momentum or 0))
