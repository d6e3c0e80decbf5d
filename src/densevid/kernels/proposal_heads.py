"""The fast form of the proposal heads: the same numbers as their Conv1d and BatchNorm1d modules, in far fewer passes.

A head is: batch norm, long depthwise convolution, batch norm, pointwise product, batch norm, ReLU, batch norm,
pointwise product. Over all anchors of a large batch each of its tensors holds gigabytes, so what costs is how often
they are read and written. Here, while training:

- all heads read one tensor, so the statistics of the first batch norm are taken once and folded into the kernels;
- the second batch norm is folded into the pointwise product that follows it;
- the third and fourth are per-channel constants that later passes apply on the fly;
- backward, a batch norm needs two sums per channel; those of the last two follow from the sums of one pass, and those
  of the second from the gradient of the product itself, so no pass over the tensors is spent on them.

H heads stand side by side in everything that is small; rows are anchors, columns are channels. The passes themselves
(`Passes`) are plain torch on a CPU and Triton on a GPU. Where several ranks train together a batch norm has the rows of
all of them: what the passes sum per channel is summed over the ranks, and nothing large is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from densevid.kernels.head_passes import Passes, Rectified, TorchPasses, column, row_counts
from densevid.model.anchors import AnchorGrid
from densevid.model.proposal_decoder import AnchorHead
from densevid.model.rank_sums import rank_count, shared_mean, shared_moments, sum_type, summed


def passes_for(values: Tensor) -> Passes:
    """Triton where the tensor is on a GPU, torch elsewhere."""
    if values.is_cuda:
        from densevid.kernels.head_passes_triton import TritonPasses

        return TritonPasses()
    return TorchPasses()


class _Convolve(torch.autograd.Function):
    """Depthwise convolutions of all heads. A bias has no gradient: the batch norm that follows takes it away again."""

    @staticmethod
    def forward(
        ctx: Any, grid: AnchorGrid, passes: Passes, memory_BTD: Tensor, bias_HD: Tensor, *kernels: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(memory_BTD, *kernels)
        ctx.grid, ctx.passes = grid, passes
        return tuple(passes.convolve(memory_BTD, kernels, bias_HD, grid))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        memory_BTD, *kernels = ctx.saved_tensors
        memory_gradient, kernel_gradients = ctx.passes.convolve_back(memory_BTD, kernels, gradients, ctx.grid)
        return None, None, memory_gradient, None, *kernel_gradients


@dataclass(frozen=True)
class _HeadsState:
    """What the backward pass needs besides rows and weights; `share`, `first`, `second`: the means of `Rectified`."""

    hidden: list[Tensor]
    folded: list[Tensor]
    mean2: Tensor
    inverse2: Tensor
    norm: Rectified
    share: Tensor
    first: Tensor
    second: Tensor
    mean4: Tensor
    inverse4: Tensor


class _NormalisedHeads(torch.autograd.Function):
    """Batch norm, product, batch norm, ReLU, batch norm, product of H heads; also the moments of the three norms.

    Backward, with t and v as in `Rectified`, r = max(0, v), N rows, and g the gradient of the output rows:
      last product      dWo = g^T u, u = a r + c the fourth norm's output;  du = g Wo
      fourth norm       dr = a du + c0 + c1 t on the open rows, c0 and c1 from sum du and sum du (r - mean r)
      third norm        dy = gain / deviation ([v > 0] dr - mean(dv) - t mean(dv t)), the means from the same sums
      product           y = z W'^T, W' = W diag(s) with the second norm's s = gain / deviation:  dW = (dy^T z) s
      second norm       dz = dy W' - s / deviation^2 mean(dh z^) (z - mean), with sum dy = 0 and mean(dh z^) from dW
    N and all sums are those of all ranks. The gradient of a weight that follows from them is an equal share of it on
    every rank, since the ranks' gradients are averaged afterwards.
    """

    @staticmethod
    def forward(
        ctx: Any, eps: float, passes: Passes, heads: int, total_H1: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        rows, weights = tensors[:heads], tensors[heads:]
        count_H1 = row_counts(rows, total_H1.dtype)
        product_HDD, last_HRD, bias_HR, gain2, shift2, gain3, shift3, gain4, shift4 = weights
        mean2, variance2 = shared_moments(*passes.moments(rows), count_H1, total_H1)
        inverse2 = (variance2 + eps).rsqrt()
        scale2 = gain2 * inverse2
        folded = list((product_HDD * scale2[:, None]).to(rows[0].dtype))
        offset_HD = torch.einsum("hoi,hi->ho", product_HDD, shift2 - mean2 * scale2).to(rows[0].dtype)
        triples = zip(offset_HD, rows, folded, strict=True)
        hidden = [torch.addmm(offset_D, rows_ND, folded_DD.T) for offset_D, rows_ND, folded_DD in triples]

        mean3, variance3 = shared_moments(*passes.moments(hidden), count_H1, total_H1)
        norm = Rectified(mean3, (variance3 + eps).rsqrt(), gain3, shift3)
        share, first, second = shared_mean(torch.stack(passes.rectified_means(hidden, norm)), count_H1, total_H1)
        mean4 = gain3 * first + shift3 * share
        closed = 1 - share  # written so that nothing cancels where every row is open
        variance4 = gain3**2 * (second - first**2) + 2 * gain3 * shift3 * first * closed + shift3**2 * share * closed
        variance4 = variance4.clamp(min=0)
        inverse4 = (variance4 + eps).rsqrt()
        scale4 = gain4 * inverse4
        constant_HR = bias_HR + torch.einsum("hrd,hd->hr", last_HRD, shift4 - mean4 * scale4)
        outputs = passes.output(hidden, norm, last_HRD * scale4[:, None], constant_HR)

        ctx.save_for_backward(total_H1, *rows, *weights)
        ctx.passes, ctx.heads = passes, heads
        ctx.state = _HeadsState(hidden, folded, mean2, inverse2, norm, share, first, second, mean4, inverse4)
        moments = (mean2, variance2, mean3, variance3, mean4, variance4)
        ctx.mark_non_differentiable(*moments)
        return *outputs, *moments

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        total_H1, *saved = ctx.saved_tensors
        rows, weights = saved[: ctx.heads], saved[ctx.heads :]
        product_HDD, last_HRD, _, gain2, _, gain3, shift3, gain4, shift4 = weights
        state: _HeadsState = ctx.state
        share, first, second = state.share, state.first, state.second
        pulled = [gradient_NR.to(first.dtype).contiguous() for gradient_NR in gradients[: ctx.heads]]
        whole_HR1 = torch.stack([gradient_NR.sum(0) for gradient_NR in pulled])[..., None]
        sums = torch.cat((whole_HR1, *ctx.passes.output_sums(state.hidden, state.norm, pulled)), dim=-1)
        whole_HR1, open_HRD, tilted_HRD = summed(sums).split((1, first.shape[-1], first.shape[-1]), dim=-1)

        scale4 = gain4 * state.inverse4
        through_HRD = gain3[:, None] * tilted_HRD + shift3[:, None] * open_HRD  # gradient^T r
        centred_HRD = through_HRD - whole_HR1 * (gain3 * first + shift3 * share)[:, None]
        last_gradient = scale4[:, None] * through_HRD + whole_HR1 * (shift4 - state.mean4 * scale4)[:, None]
        shift4_gradient = (whole_HR1 * last_HRD).sum(1)
        gain4_gradient = state.inverse4 * (last_HRD * centred_HRD).sum(1)

        slope = -scale4 * state.inverse4 * gain4_gradient / total_H1
        c0 = slope * (shift3 * (1 - share) - gain3 * first) - scale4 * shift4_gradient / total_H1
        c1 = slope * gain3
        weight_HRD = last_HRD * scale4[:, None]
        shift3_gradient = (weight_HRD * open_HRD).sum(1) + total_H1 * (c0 * share + c1 * first)
        gain3_gradient = (weight_HRD * tilted_HRD).sum(1) + total_H1 * (c0 * first + c1 * second)
        constants = torch.stack((c0, c1, shift3_gradient / total_H1, gain3_gradient / total_H1))
        back = ctx.passes.output_back(state.hidden, state.norm, pulled, weight_HRD, constants)

        scale2 = gain2 * state.inverse2
        pairs = zip(back, rows, strict=True)
        correlation_HDD = torch.stack([back_ND.T @ rows_ND for back_ND, rows_ND in pairs]).to(scale2.dtype)
        gain2_gradient = state.inverse2 * (product_HDD * correlation_HDD).sum(1)
        pull = -scale2 * state.inverse2 * summed(gain2_gradient) / total_H1
        rows_gradients = [
            ctx.passes.scaled(head, rows_ND, pull, -pull * state.mean2).addmm_(back[head], state.folded[head])
            for head, rows_ND in enumerate(rows)
        ]
        norm2 = (gain2_gradient, torch.zeros_like(gain2_gradient))  # the third norm takes any shift away
        of_all = (last_gradient, whole_HR1[..., 0], gain3_gradient, shift3_gradient, gain4_gradient, shift4_gradient)
        last, bias, *later_norms = (gradient / rank_count() for gradient in of_all)
        product = correlation_HDD * scale2[:, None]
        return None, None, None, None, *rows_gradients, product, last, bias, *norm2, *later_norms


def fast_heads(
    memory_BTD: Tensor, heads: Sequence[AnchorHead], grid: AnchorGrid, valid_BT: Tensor | None = None
) -> list[Tensor]:
    """What `[head(memory) for head in heads]` gives in training mode, each B x R x A; running statistics move, too.

    Args:
        memory_BTD: The encoder's last layer.
        heads: The modules, whose weights are used.
        grid: Their kernel sizes and strides.
        valid_BT: The first steps of each video, which batch norms count; None: all. Anchors beyond them get zeros.
    """
    counted = None if valid_BT is None else _counted_rows(valid_BT, grid)
    if valid_BT is not None and counted is None:  # a head has too few rows for statistics
        memory_BDT = memory_BTD.transpose(1, 2)
        within = grid.within(valid_BT.sum(dim=1), valid_BT.shape[1])
        return [head(memory_BDT, valid_BT, within_BA) for head, within_BA in zip(heads, within, strict=True)]
    passes = passes_for(memory_BTD)
    rows = _convolved(memory_BTD, heads, grid, passes, valid_BT)
    norms = [[head.depthwise_norm, head.pointwise_norm, head.output_norm] for head in heads]
    parameters = [
        torch.stack([getattr(head_norms[place], name) for head_norms in norms])
        for place in range(3)
        for name in ("weight", "bias")
    ]
    flat = [rows_BAD.reshape(-1, rows_BAD.shape[-1]) for rows_BAD in rows]
    if counted is not None:
        flat = [rows_ND.index_select(0, index_N) for rows_ND, index_N in zip(flat, counted, strict=True)]
    total_H1 = summed(row_counts(flat, sum_type(memory_BTD)))
    outputs = _NormalisedHeads.apply(
        norms[0][0].eps,
        passes,
        len(heads),
        total_H1,
        *flat,
        torch.stack([head.pointwise.weight.squeeze(-1) for head in heads]),
        torch.stack([head.output.weight.squeeze(-1) for head in heads]),
        torch.stack([head.output.bias for head in heads if head.output.bias is not None]),
        *parameters,
    )
    moments = outputs[len(heads) :]
    for place in range(3):
        _move([head_norms[place] for head_norms in norms], moments[2 * place], moments[2 * place + 1], total_H1)
    whole = outputs[: len(heads)] if counted is None else _spread(outputs[: len(heads)], counted, rows)
    pairs = zip(whole, rows, strict=True)
    return [output_NR.view(*rows_BAD.shape[:2], -1).transpose(1, 2) for output_NR, rows_BAD in pairs]


def _spread(outputs: Sequence[Tensor], counted: Sequence[Tensor], rows: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of counted rows in their places among all B x A, zeros in the others."""
    blank = [
        output_NR.new_zeros(rows_BAD.shape[:2].numel(), output_NR.shape[1])
        for output_NR, rows_BAD in zip(outputs, rows, strict=True)
    ]
    triples = zip(blank, counted, outputs, strict=True)
    return [zeros_NR.index_copy(0, index_N, output_NR) for zeros_NR, index_N, output_NR in triples]


def _counted_rows(valid_BT: Tensor, grid: AnchorGrid) -> list[Tensor] | None:
    """The rows (of B x A) of the anchors within each video, one tensor per head; None where some rank has too few.

    It waits for the device once: how many rows there are decides the sizes of what follows.
    """
    counts = [grid.counts(length) for length in valid_BT.sum(dim=1).tolist()]
    enough = all(sum(of_head) > 1 for of_head in zip(*counts, strict=True))
    if rank_count() > 1:
        ranks = summed(torch.tensor(float(enough), device=valid_BT.device))
        enough = int(ranks.item()) == rank_count()
    if not enough:
        return None
    anchors = grid.counts(valid_BT.shape[1])
    return [
        torch.cat([torch.arange(own[head]) + row * anchors[head] for row, own in enumerate(counts)]).to(
            valid_BT.device, non_blocking=True
        )
        for head in range(len(anchors))
    ]


def _convolved(
    memory_BTD: Tensor, heads: Sequence[AnchorHead], grid: AnchorGrid, passes: Passes, valid_BT: Tensor | None
) -> tuple[Tensor, ...]:
    """The first batch norm, folded into the kernels, and the depthwise convolutions, each B x A x D."""
    precise = sum_type(memory_BTD)
    steps_ND = memory_BTD.flatten(0, 1) if valid_BT is None else memory_BTD[valid_BT]
    variance_D, mean_D = torch.var_mean(steps_ND.to(precise), dim=0, correction=0)
    count_11 = column((len(steps_ND),), memory_BTD.device, precise)
    total_11 = summed(count_11)
    mean_D, variance_D = shared_moments(mean_D, variance_D, count_11[0], total_11[0])
    gain_HD = torch.stack([head.input_norm.weight for head in heads])
    shift_HD = torch.stack([head.input_norm.bias for head in heads])
    scale_HD = gain_HD * (variance_D + heads[0].input_norm.eps).rsqrt()
    weights = torch.cat([head.depthwise.weight.squeeze(1).T for head in heads]).to(precise)
    owner = _owners(grid.kernels, memory_BTD.device)
    bias_HD = torch.zeros_like(scale_HD).index_add(0, owner, weights.detach())
    bias_HD = bias_HD * (shift_HD - mean_D * scale_HD).detach()
    kernels = (weights * scale_HD[owner]).split(grid.kernels)
    norms = [head.input_norm for head in heads]
    moments = (mean_D.detach().expand_as(scale_HD), variance_D.detach().expand_as(scale_HD))
    _move(norms, *moments, total_11)
    return _Convolve.apply(grid, passes, memory_BTD, bias_HD, *kernels)


@torch.no_grad()
def _move(norms: Sequence[nn.BatchNorm1d], mean_HD: Tensor, variance_HD: Tensor, total_H1: Tensor) -> None:
    """Update running statistics as nn.BatchNorm1d does, of all heads at once; `total_H1` rows (or 1 x 1) were seen."""
    means = [norm.running_mean for norm in norms if norm.running_mean is not None]
    variances = [norm.running_var for norm in norms if norm.running_var is not None]
    if len(means) != len(norms) or len(variances) != len(norms):
        return
    unbiased_HD = variance_HD * (total_H1 / (total_H1 - 1).clamp(min=1))
    torch._foreach_lerp_(means, list(mean_HD.to(means[0].dtype)), float(norms[0].momentum or 0))
    torch._foreach_lerp_(variances, list(unbiased_HD.to(means[0].dtype)), float(norms[0].momentum or 0))
    for norm in norms:
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)


@cache
def _owners(kernels: tuple[int, ...], device: torch.device) -> Tensor:
    """For every row of all kernels, one below the other, the head it belongs to; kept, so that no step copies it."""
    return torch.arange(len(kernels)).repeat_interleave(torch.tensor(kernels)).to(device)
