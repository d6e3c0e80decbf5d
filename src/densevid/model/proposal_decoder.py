"""The proposal decoder: the encoder's last layer becomes a score and two offsets for every anchor.

While training on a GPU its heads are computed together where a fast form of them is registered (`TRAINING_HEADS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from densevid.fast_forms import FastForm
from densevid.model.anchors import AnchorGrid, apply_offsets
from densevid.model.rank_sums import sum_type, summed


@dataclass(frozen=True)
class Proposals:
    """Every anchor over `steps` steps with its prediction; `offsets` are (center shift / length, log stretch).

    Boundary refinement (`inference/rescoring.py`) puts `moved_BA2` in the place of the intervals that the offsets give,
    and multiplies the scores by `trust_BA` to select among them. Event masks are gated by the network's own scores.
    """

    logits_BA: Tensor
    offsets_BA2: Tensor
    anchors_A2: Tensor
    steps: int
    moved_BA2: Tensor | None = None
    trust_BA: Tensor | None = None

    @property
    def scores_BA(self) -> Tensor:
        """How good every proposal is, 0 to 1: what chooses among them."""
        score_BA = self.logits_BA.sigmoid()
        return score_BA if self.trust_BA is None else score_BA * self.trust_BA

    @property
    def intervals_BA2(self) -> Tensor:
        """Start and end of every proposal, in steps."""
        return apply_offsets(self.anchors_A2, self.offsets_BA2) if self.moved_BA2 is None else self.moved_BA2

    def pick(self, video_P: Tensor, anchor_P: Tensor) -> PickedProposals:
        """The proposals of given anchors of given videos, one row each."""
        anchors_P2 = self.anchors_A2[anchor_P]
        if self.moved_BA2 is None:
            intervals_P2 = apply_offsets(anchors_P2, self.offsets_BA2[video_P, anchor_P])
        else:
            intervals_P2 = self.moved_BA2[video_P, anchor_P]
        return PickedProposals(self.logits_BA[video_P, anchor_P], intervals_P2, anchors_P2)


@dataclass(frozen=True)
class PickedProposals:
    """P proposals, each with the anchor it came from."""

    logits_P: Tensor
    intervals_P2: Tensor
    anchors_P2: Tensor

    def detach(self) -> PickedProposals:
        """The same numbers without a way back for gradients."""
        return PickedProposals(self.logits_P.detach(), self.intervals_P2.detach(), self.anchors_P2)


class AnchorHead(nn.Module):
    """Three 1-D convolutions with batch norms for one kernel size: depthwise of that size, pointwise, pointwise."""

    def __init__(self, width: int, kernel: int, stride: int, outputs: int) -> None:
        super().__init__()
        self.input_norm = nn.BatchNorm1d(width)
        self.depthwise = nn.Conv1d(width, width, kernel, stride, groups=width, bias=False)
        self.depthwise_norm = nn.BatchNorm1d(width)
        self.pointwise = nn.Conv1d(width, width, 1, bias=False)
        self.pointwise_norm = nn.BatchNorm1d(width)
        self.output_norm = nn.BatchNorm1d(width)
        self.output = nn.Conv1d(width, outputs, 1)

    def forward(self, memory_BDT: Tensor, valid_BT: Tensor | None = None, within_BA: Tensor | None = None) -> Tensor:
        """B x D x T -> B x outputs x anchors of this kernel size.

        Args:
            memory_BDT: The encoder's last layer.
            valid_BT: The steps that the first batch norm counts while training; None: all.
            within_BA: The anchors that the others count, those within the valid steps; None: all.
        """
        seen_BDA = self.depthwise(batch_norm(self.input_norm, memory_BDT, valid_BT))
        hidden_BDA = self.pointwise(batch_norm(self.depthwise_norm, seen_BDA, within_BA))
        open_BDA = batch_norm(self.pointwise_norm, hidden_BDA, within_BA).relu()
        return self.output(batch_norm(self.output_norm, open_BDA, within_BA))


def batch_norm(norm: nn.BatchNorm1d, values_BDT: Tensor, counted_BT: Tensor | None) -> Tensor:
    """`norm(values_BDT)` with the statistics of counted columns alone while training.

    The other columns are normalised with the same statistics. Ranks that train together share them. With fewer than two
    counted columns there is no spread, so the running statistics serve, and stay. Nothing here waits for the device.
    """
    if counted_BT is None or not norm.training or norm.running_mean is None or norm.running_var is None:
        return norm(values_BDT)
    precise_BDT = values_BDT.to(sum_type(values_BDT))
    counted_B1T = counted_BT[:, None].to(precise_BDT.dtype)
    total = summed(counted_B1T.sum())
    mean_D = summed((precise_BDT * counted_B1T).sum(dim=(0, 2))) / total.clamp(min=1)
    centred_BDT = precise_BDT - mean_D[:, None]
    variance_D = summed((centred_BDT.square() * counted_B1T).sum(dim=(0, 2))) / total.clamp(min=1)
    enough = total > 1
    mean_D, variance_D = (
        torch.where(enough, batch_D, running_D.to(batch_D.dtype))
        for batch_D, running_D in ((mean_D, norm.running_mean), (variance_D, norm.running_var))
    )
    with torch.no_grad():
        unbiased_D = torch.where(enough, variance_D * (total / (total - 1).clamp(min=1)), variance_D)
        norm.running_mean.lerp_(mean_D.to(norm.running_mean.dtype), float(norm.momentum or 0))
        norm.running_var.lerp_(unbiased_D.to(norm.running_var.dtype), float(norm.momentum or 0))
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    scale_D = norm.weight * (variance_D + norm.eps).rsqrt()
    return ((precise_BDT - mean_D[:, None]) * scale_D[:, None] + norm.bias[:, None]).to(values_BDT.dtype)


# (memory B x T x D, heads, grid, valid steps B x T or None for all) -> what every head gives in training mode,
# B x rows x A, zeros for anchors that are not within the valid steps; running statistics move, too.
TrainingHeads = Callable[[Tensor, Sequence[AnchorHead], AnchorGrid, Tensor | None], list[Tensor]]
TRAINING_HEADS: FastForm[TrainingHeads] = FastForm()


class ProposalDecoder(nn.Module):
    """One head per kernel size, all reading the same memory, their outputs side by side in the order of the grid.

    `procnets` gives each size a single full convolution instead. Rows of a head's output: score logit, center shift,
    log stretch; the release writes score logit, an unused overlap logit, log stretch, center shift.
    """

    def __init__(self, grid: AnchorGrid, width: int, *, procnets: bool = False, released: bool = False) -> None:
        super().__init__()
        self.grid = grid
        self.fast = not procnets  # use `TRAINING_HEADS` while training on a GPU, where that is registered
        self.rows = (0, 3, 2) if released else (0, 1, 2)
        self.outputs = outputs = 4 if released else 3
        sizes = list(zip(grid.kernels, grid.strides, strict=True))
        self.heads = nn.ModuleList(
            nn.Conv1d(width, outputs, kernel, stride) if procnets else AnchorHead(width, kernel, stride, outputs)
            for kernel, stride in sizes
        )

    def forward(self, memory_BTD: Tensor, valid_BT: Tensor | None = None) -> Proposals:
        """Predict for every anchor over the steps of the memory.

        Args:
            memory_BTD: The encoder's last layer.
            valid_BT: The steps that the batch norms count while training; None: all.
        """
        return self.proposals(self.anchor_outputs(memory_BTD, valid_BT), memory_BTD.shape[1])

    def proposals(self, output_BRA: Tensor, steps: int) -> Proposals:
        """The proposals that raw rows B x rows x A stand for, over so many steps."""
        logits, shift, log_stretch = (output_BRA[:, row] for row in self.rows)
        anchors_A2 = self.grid.anchors(steps, output_BRA.device)
        return Proposals(logits, torch.stack((shift, log_stretch), dim=-1), anchors_A2, steps)

    def anchor_outputs(self, memory_BTD: Tensor, valid_BT: Tensor | None = None) -> Tensor:
        """The raw rows of all heads, B x rows x A; kernels longer than the video give no anchor, so A may be 0.

        `valid_BT` is as in `forward`; a fast form leaves the rows of anchors beyond the valid steps zero.
        """
        counts = self.grid.counts(memory_BTD.shape[1])
        usable = self.fast and self.training and memory_BTD.is_cuda and all(counts)
        if usable and (training_heads := TRAINING_HEADS.find()) is not None:
            with torch.autocast(memory_BTD.device.type, enabled=False):
                heads: list[AnchorHead] = list(self.heads)  # type: ignore[arg-type]
                return torch.cat(training_heads(memory_BTD, heads, self.grid, valid_BT), dim=2)
        memory_BDT = memory_BTD.transpose(1, 2).contiguous()
        outputs = [head(memory_BDT) for head in self._counting(valid_BT, memory_BTD.shape[1])]
        return torch.cat(outputs, dim=2) if outputs else memory_BTD.new_empty(len(memory_BTD), self.outputs, 0)

    def _counting(self, valid_BT: Tensor | None, steps: int) -> list[Callable[[Tensor], Tensor]]:
        """The heads that have anchors over so many steps, each knowing what its batch norms count."""
        used = [index for index, count in enumerate(self.grid.counts(steps)) if count]
        if valid_BT is None or not isinstance(self.heads[0], AnchorHead):
            return [self.heads[index] for index in used]
        within = self.grid.within(valid_BT.sum(dim=1), steps)
        return [partial(self.heads[index], valid_BT=valid_BT, within_BA=within[index]) for index in used]
