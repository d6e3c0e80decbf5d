"""The fast `ProposalGenerator`: folded proposal heads, suppression by one kernel, and few videos as a CUDA graph.

In use the statistics of a batch norm are constants, so it is x -> s x + t. The first of a proposal head goes into the
depthwise kernel, the second and third into the product between them, the fourth into the last product: three passes a
head instead of eight. The numbers differ from the modules' in the last digits alone; where those count (float32) the
modules are used. On a GPU few videos leave it idle between hundreds of small launches, so the whole of encoding,
proposing and selecting is replayed as one graph for every number of steps, and the host looks at the result once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from densevid.inference.batches import DeviceBatch
from densevid.inference.compat import PaperBehavior
from densevid.inference.nms import Selection
from densevid.inference.proposals import ProposalBatch, ProposalGenerator
from densevid.intervals import suppress
from densevid.kernels.cuda_graphs import Graphs
from densevid.kernels.fused import has_triton
from densevid.kernels.proposal_heads import passes_for
from densevid.model.anchors import AnchorGrid
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.priors import WordPrior
from densevid.model.proposal_decoder import AnchorHead, ProposalDecoder, Proposals
from densevid.model.recurrent import BiLSTMEncoder

GRAPHED_VIDEOS = 2  # at most; more keep a GPU busy by themselves
GRAPHED_MULTIPLE = 32  # of steps, so that few lengths are captured
MOST_SUPPRESSED = 4096  # candidates of a video that one Triton program decides about


class GraphedProposalGenerator(ProposalGenerator):
    """`ProposalGenerator`, folded and replayed where digits beyond TF32's do not count.

    Args:
        model: The network, in float32.
        behavior: How the paper or the release selects.
        graphs: Where the captured work is kept.
        folded: Whether to fold the batch norms of the proposal heads.
        word_prior: The model's word prior.
    """

    def __init__(
        self,
        model: MaskedTransformer,
        behavior: PaperBehavior,
        graphs: Graphs,
        *,
        folded: bool,
        word_prior: WordPrior | None = None,
    ) -> None:
        super().__init__(model, behavior, word_prior=word_prior)
        self.graphs = graphs
        self.propose = folded_proposals(model.proposal_decoder) if folded else model.proposal_decoder
        self.allow_sync = model.device.type != "cuda" or not has_triton()
        fixed = isinstance(self.propose, FoldedHeads) and not isinstance(model.encoder, BiLSTMEncoder)
        self.replays = graphs.enabled and fixed and not self.allow_sync
        self.inputs: dict[tuple[int, ...], DeviceBatch] = {}

    def padding_multiple(self, videos: int) -> int:
        """See `ProposalGenerator`."""
        return GRAPHED_MULTIPLE if self.replays and videos <= GRAPHED_VIDEOS else 1

    def __call__(self, batch: DeviceBatch) -> tuple[ProposalBatch, Selection]:
        """See `ProposalGenerator`."""
        found = self._replayed(batch)
        selection = found.attempt.selection.copied() if self.replays else found.attempt.selection
        if not self.allow_sync and not bool(found.attempt.enough_1):
            compared_BTC = self.similarity_space(batch.features_BTF)
            selection = self.completed(self.behavior.select(found.proposals, found.lengths), compared_BTC, found)
        return found, selection

    def _replayed(self, batch: DeviceBatch) -> ProposalBatch:
        if not self.replays or len(batch.features_BTF) > GRAPHED_VIDEOS:
            return self.generate(batch)
        sizes = (*batch.features_BTF.shape, int(batch.padded))
        if sizes not in self.inputs:
            empty = (torch.empty_like(batch.features_BTF), torch.empty_like(batch.lengths_3B))
            self.inputs[sizes] = DeviceBatch(*empty, batch.padded)
        inputs = self.inputs[sizes]
        inputs.features_BTF.copy_(batch.features_BTF)
        inputs.lengths_3B.copy_(batch.lengths_3B)
        with self.stages("find"):
            found = self.graphs("proposals", sizes, lambda: self.generate(inputs))
        return replace(found, graph_sizes=sizes if self.graphs.holds("proposals", sizes) else None)


def fast_suppress(overlapping_BCC: Tensor) -> Tensor:
    """`intervals.suppress` on a GPU: one kernel that walks from candidate to candidate, where Triton is there."""
    usable = 0 < overlapping_BCC.shape[1] <= MOST_SUPPRESSED and has_triton()
    return triton_suppress(overlapping_BCC) if usable else suppress(overlapping_BCC)


def triton_suppress(overlapping_BCC: Tensor) -> Tensor:
    """`intervals.suppress` by Triton."""
    from densevid.kernels import event_triton

    videos, candidates = overlapping_BCC.shape[:2]
    keep_BC = torch.empty(videos, candidates, dtype=torch.int8, device=overlapping_BCC.device)
    block = 1 << (candidates - 1).bit_length()
    event_triton.suppress[(videos,)](
        overlapping_BCC.contiguous().view(torch.int8), keep_BC, candidates, BLOCK=block, num_warps=max(1, block // 512)
    )
    return keep_BC.bool()


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
        """The decoder's prediction for every anchor."""
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


def folded_proposals(decoder: ProposalDecoder) -> Callable[[Tensor], Proposals]:
    """The folded form of a decoder, or the decoder itself where its heads have none (ProcNets)."""
    return FoldedHeads(decoder) if all(isinstance(head, AnchorHead) for head in decoder.heads) else decoder
