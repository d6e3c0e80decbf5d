"""The likelihood of given words, without the logits of all others at all positions.

Learning needs log p of the true word alone and, for label smoothing, the sum over the vocabulary. Logits of every word
at every position are hundreds of megabytes, which a CPU spends most of a step on moving. Here their log-sum-exp is
computed in slices that stay in the cache, in both directions, and everything else from dot products with the few words
that matter: the true one and those that the tags hold. The numbers are those of the logits, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SLICE = {"cpu": 512, "cuda": 16384}  # rows whose logits are in memory at once
MOST_LEFT_OUT = 1 - 1e-6  # of the probability
NO_COPY = 1e-30  # the probability of a word that no tag holds, before the logarithm


@dataclass(frozen=True)
class WordLikelihood:
    """Of N words: log p of each, the sum of log p over all V words in its place, and that of the words left out.

    `log_left_out_N` is the log probability that the first few words of the vocabulary have together.
    """

    log_p_N: Tensor
    sum_N: Tensor
    words: int
    log_left_out_N: Tensor | None = None

    @classmethod
    def of_logits(cls, logits_NV: Tensor, target_N: Tensor, left_out: int = 0) -> WordLikelihood:
        """From the logits of all words."""
        log_p_NV = logits_NV.float().log_softmax(dim=-1)
        left_out_N = log_p_NV[:, :left_out].logsumexp(dim=-1) if left_out else None
        return cls(log_p_NV.gather(1, target_N[:, None])[:, 0], log_p_NV.sum(dim=-1), log_p_NV.shape[1], left_out_N)

    def loss(self, smoothing: float = 0.0) -> Tensor:
        """The cross-entropy of each word, its label smoothed as in `torch.nn.functional.cross_entropy`."""
        return -(1 - smoothing) * self.log_p_N - smoothing / self.words * self.sum_N

    @property
    def log_p_of_the_rest_N(self) -> Tensor:
        """Log p of each word among those that are not left out."""
        assert self.log_left_out_N is not None
        return self.log_p_N - torch.log1p(-self.log_left_out_N.exp().clamp(max=MOST_LEFT_OUT))


@dataclass(frozen=True)
class CopiedWords:
    """What a pointer adds at N positions: S slots, the words in them, and how much attention each gets.

    `log_own_N` is the log share of the decoder's own words, `copied_NS` the share of each slot's word over all slots
    that hold it; `weight_NS` counts each word once, slots without one not at all.
    """

    log_own_N: Tensor
    copied_NS: Tensor
    weight_NS: Tensor
    word_NS: Tensor
    logits_NS: Tensor

    def mixed(self, own: WordLikelihood, normalizer_N: Tensor, target_N: Tensor) -> WordLikelihood:
        """The likelihood of words that are the decoder's own or copied."""
        holds_NS = (self.word_NS == target_N[:, None]) & (self.weight_NS > 0)
        share_N = (self.copied_NS * self.weight_NS * holds_NS).sum(dim=-1)
        log_p_N = torch.logaddexp(self.log_own_N + own.log_p_N, share_N.clamp(min=NO_COPY).log())
        own_NS = self.log_own_N[:, None] + self.logits_NS.float() - normalizer_N[:, None]
        gain_NS = torch.logaddexp(own_NS, self.copied_NS.clamp(min=NO_COPY).log()) - own_NS
        sum_N = own.words * self.log_own_N + own.sum_N + (gain_NS * self.weight_NS).sum(dim=-1)
        left_out_N = None if own.log_left_out_N is None else self.log_own_N + own.log_left_out_N
        return WordLikelihood(log_p_N, sum_N, own.words, left_out_N)


def counted_places(counted_PL: Tensor) -> Tensor:
    """The flat places that count; all of them on a GPU, which would have to wait to know how many there are."""
    if counted_PL.is_cuda:
        return torch.arange(counted_PL.numel(), device=counted_PL.device)
    return counted_PL.flatten().nonzero()[:, 0]


def likelihood(
    output_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, target_N: Tensor, left_out: int = 0
) -> tuple[WordLikelihood, Tensor]:
    """The likelihood of words by the softmax of their logits, and the log-sum-exp of these.

    Args:
        output_ND: What the logits are made of.
        weight_VD: The output matrix.
        bias_V: Its bias.
        target_N: The words.
        left_out: The first so many words of the vocabulary get a likelihood together.
    """
    output_ND, words = output_ND.float(), len(weight_VD)
    normalizer_N = _LogSumExp.apply(output_ND, weight_VD, bias_V)
    chosen_N = (output_ND * F.embedding(target_N, weight_VD)).sum(dim=-1) + bias_V[target_N]
    sum_N = (output_ND * weight_VD.sum(dim=0)).sum(dim=-1) + bias_V.sum()
    left_out_N = None
    if left_out:
        left_out_N = (output_ND @ weight_VD[:left_out].T + bias_V[:left_out]).float().logsumexp(dim=-1) - normalizer_N
    return WordLikelihood(chosen_N - normalizer_N, sum_N - words * normalizer_N, words, left_out_N), normalizer_N


class _LogSumExp(torch.autograd.Function):
    """log sum_v exp(output . weight_v + bias_v) of every row; the logits are computed again on the way back."""

    @staticmethod
    def forward(ctx: Any, output_ND: Tensor, weight_VD: Tensor, bias_V: Tensor) -> Tensor:
        kind = output_ND.device.type
        ctx.precision = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else output_ND.dtype
        weights = weight_VD.to(ctx.precision), bias_V.to(ctx.precision)
        parts = output_ND.to(ctx.precision).split(SLICE.get(kind, len(output_ND)))
        sums = [torch.addmm(weights[1], part, weights[0].T).float().logsumexp(dim=-1) for part in parts]
        normalizer_N = torch.cat(sums)
        ctx.save_for_backward(output_ND, weight_VD, bias_V, normalizer_N)
        return normalizer_N

    @staticmethod
    def backward(ctx: Any, gradient_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        output_ND, weight_VD, bias_V, normalizer_N = ctx.saved_tensors
        kind, to_output = output_ND.device.type, []
        weight, bias = weight_VD.to(ctx.precision), bias_V.to(ctx.precision)
        to_weight, to_bias = torch.zeros_like(weight_VD), torch.zeros_like(bias_V)
        with torch.autocast(kind, enabled=False):
            for part, total, gradient in zip(
                *(each.split(SLICE.get(kind, len(output_ND))) for each in (output_ND, normalizer_N, gradient_N)),
                strict=True,
            ):
                half = part.to(ctx.precision)
                share = torch.addmm(bias, half, weight.T).float().sub_(total[:, None]).exp_().mul_(gradient[:, None])
                to_bias += share.sum(dim=0)
                share = share.to(ctx.precision)
                to_output.append((share @ weight).to(output_ND.dtype))
                to_weight += share.T @ half
        return torch.cat(to_output), to_weight, to_bias
