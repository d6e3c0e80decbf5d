"""The proposal decoder with its batch norms folded into the layers around them: three passes a head instead of eight.

In use the statistics of a batch norm are constants, so it is x -> s x + t. The first goes into the depthwise kernel,
the second and third into the product between them, the fourth into the last product. The numbers differ from the
modules' in the last digits alone; where those count (float32) the modules are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from densevid.kernels.proposal_heads import passes_for
from densevid.model.anchors import AnchorGrid
from densevid.model.proposal_decoder import AnchorHead, ProposalDecoder, Proposals


@dataclass(frozen=True)
class FoldedHead:
    """Kernel K x D and bias of the convolution, then two products with a ReLU between them."""

    kernel_KD: Tensor
    bias_D: Tensor
    product_DD: Tensor
    shift_D: Tensor
    output_RD: Tensor
    output_bias_R: Tensor

    @classmethod
    def of(cls, head: AnchorHead) -> FoldedHead:
        """Fold the norms of a head."""
        (s1, t1), (s2, t2), (s3, t3), (s4, t4) = (
            _constants(norm) for norm in (head.input_norm, head.depthwise_norm, head.pointwise_norm, head.output_norm)
        )
        kernel_KD, pointwise_DD = head.depthwise.weight.squeeze(1).T, head.pointwise.weight.squeeze(-1)
        output_RD, bias_R = head.output.weight.squeeze(-1), head.output.bias
        assert bias_R is not None
        return cls(
            (kernel_KD * s1).contiguous(),
            kernel_KD.sum(dim=0) * t1,
            s3[:, None] * pointwise_DD * s2,
            s3 * (pointwise_DD @ t2) + t3,
            output_RD * s4,
            output_RD @ t4 + bias_R,
        )


class FoldedHeads:
    """All heads of a three-layer proposal decoder."""

    def __init__(self, decoder: ProposalDecoder) -> None:
        self.decoder, self.grid = decoder, decoder.grid
        with torch.no_grad():
            self.heads = [FoldedHead.of(head) for head in decoder.heads if isinstance(head, AnchorHead)]
            self.bias_HD = torch.stack([head.bias_D for head in self.heads])
        self.anchors: dict[int, Tensor] = {}

    def __call__(self, memory_BTD: Tensor) -> Proposals:
        """What the decoder predicts for every anchor."""
        steps, grid = memory_BTD.shape[1], self.grid
        fitting = [index for index, count in enumerate(grid.counts(steps)) if count]
        if not fitting:
            return self.decoder(memory_BTD)
        heads = [self.heads[index] for index in fitting]
        own = AnchorGrid(
            tuple(grid.kernels[index] for index in fitting), tuple(grid.strides[index] for index in fitting)
        )
        bias_HD = self.bias_HD if len(heads) == len(self.heads) else torch.stack([head.bias_D for head in heads])
        rows = passes_for(memory_BTD).convolve(memory_BTD, [head.kernel_KD for head in heads], bias_HD, own)
        outputs = [
            F.linear(F.linear(rows_BAD, head.product_DD, head.shift_D).relu_(), head.output_RD, head.output_bias_R)
            for head, rows_BAD in zip(heads, rows, strict=True)
        ]
        output_BAR = torch.cat(outputs, dim=1)
        logits, shift, log_stretch = (output_BAR[..., row] for row in self.decoder.rows)
        return Proposals(logits, torch.stack((shift, log_stretch), dim=-1), self._anchors(steps, logits.device), steps)

    def _anchors(self, steps: int, device: torch.device) -> Tensor:
        """The anchors over so many steps, kept: to make them is many small steps on the host, and a copy."""
        if steps not in self.anchors:
            self.anchors[steps] = self.grid.anchors(steps, device)
        return self.anchors[steps]


def _constants(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """s and t of x -> s x + t."""
    assert norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    return scale, norm.bias - norm.running_mean * scale


def proposer(decoder: ProposalDecoder, *, folded: bool) -> Callable[[Tensor], Proposals]:
    """The decoder itself, or its folded form if it has one."""
    if folded and all(isinstance(head, AnchorHead) for head in decoder.heads):
        return FoldedHeads(decoder)
    return decoder
