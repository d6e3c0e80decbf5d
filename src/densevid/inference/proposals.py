"""Proposal generation: encode a batch of videos, propose an event for every anchor, select those that are captioned.

The first half of captioning; `generator.py` is the second. Everything is float32. `densevid.kernels` has a faster form
of `ProposalGenerator` for a GPU.

Anchors are numbered in the grid of each video's own steps. In a batch the grid reaches over the steps of the longest
video, which shifts the numbers of every kernel size but the first; those shared numbers do not leave this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from densevid.inference.batches import DeviceBatch
from densevid.inference.compat import PaperBehavior
from densevid.inference.nms import WHOLE_VIDEO, Lengths, Selection, SelectionAttempt
from densevid.inference.rescoring import refine_boundaries, rescore_by_contrast, similarity_space
from densevid.model.anchors import AnchorGrid
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.priors import WordPrior
from densevid.model.proposal_decoder import Proposals
from densevid.progress import Stages
from densevid.tracks import Clock


@dataclass(frozen=True)
class AnchorNumbers:
    """The number of every kernel size's first anchor: over the steps of a batch, and over each video's own."""

    shared_K: Tensor
    own_BK: Tensor

    def own(self, anchor_BN: Tensor) -> Tensor:
        """Numbers in each video's own grid for anchors of the batch; negative ones (no anchor) stay as they are."""
        kernel_BN = _kernel(self.shared_K, anchor_BN)
        return anchor_BN + (self.own_BK - self.shared_K).gather(1, kernel_BN)

    def shared(self, video_P: Tensor, anchor_P: Tensor) -> Tensor:
        """Numbers in the batch for anchors of some of its videos."""
        own_PK = self.own_BK[video_P]
        kernel_P1 = _kernel(own_PK, anchor_P[:, None])
        return anchor_P + (self.shared_K - own_PK).gather(1, kernel_P1)[:, 0]


class AnchorNumbering:
    """Numbers the anchors of a grid on a device; nothing is sent there, so a CUDA graph can hold it."""

    def __init__(self, grid: AnchorGrid, device: torch.device) -> None:
        self.kernel_K, self.stride_K = (torch.tensor(sizes, device=device) for sizes in (grid.kernels, grid.strides))

    def __call__(self, shared_steps: int, own_steps_B: Tensor) -> AnchorNumbers:
        """The numbers for a batch of `shared_steps` steps, of whose videos `own_steps_B` steps are read."""
        own_B1 = own_steps_B.long()[:, None]
        return AnchorNumbers(self._first(torch.full_like(own_B1[0], shared_steps)), self._first(own_B1))

    def _first(self, steps: Tensor) -> Tensor:
        """As `AnchorGrid.counts` has it, summed over the kernel sizes before each."""
        counts = (((steps - self.kernel_K) // self.stride_K) + 1).clamp(min=0)
        return counts.cumsum(dim=-1) - counts


def _kernel(first: Tensor, anchor: Tensor) -> Tensor:
    """The kernel size of each anchor: the last that begins no later, as a size without anchors begins with the next."""
    return (torch.searchsorted(first, anchor.contiguous(), right=True) - 1).clamp(min=0)


@dataclass(frozen=True)
class ProposalBatch:
    """Videos that were encoded together, the proposals of every anchor, and the selection made of them.

    `numbers` turns the selection's anchor numbers into those of the proposals; None: they are the same, as no video is
    padded. Where a CUDA graph made all this, `graph_sizes` are its sizes, and every tensor stays where it is.
    """

    video: EncodedVideo
    lengths: Lengths
    proposals: Proposals
    attempt: SelectionAttempt
    numbers: AnchorNumbers | None
    graph_sizes: tuple[int, ...] | None = None

    def rows(self, row_R: Tensor, *, layers: bool = True) -> ProposalBatch:
        """Some of its videos, copied; without `layers` those of the memory are left out."""
        proposals, lengths, numbers = self.proposals, self.lengths, self.numbers
        video = self.video if layers else replace(self.video, memory=replace(self.video.memory, layers=()))
        moved, trust = (
            None if values is None else values[row_R] for values in (proposals.moved_BA2, proposals.trust_BA)
        )
        return replace(
            self,
            video=video.select(row_R),
            lengths=Lengths(lengths.steps_B[row_R], lengths.read_B[row_R], lengths.end_B[row_R]),
            proposals=replace(
                proposals,
                logits_BA=proposals.logits_BA[row_R],
                offsets_BA2=proposals.offsets_BA2[row_R],
                moved_BA2=moved,
                trust_BA=trust,
            ),
            numbers=None if numbers is None else replace(numbers, own_BK=numbers.own_BK[row_R]),
            graph_sizes=None,
        )


@dataclass(frozen=True)
class ProposedBatch:
    """Videos of a batch, encoded and proposed in, and the selection of proposals that is to be captioned.

    What it holds may be overwritten by the next `Captioner.propose`; `rows` copies all but the features, which
    `Captioner.with_features` brings back.
    """

    clocks: list[Clock]
    steps: list[int]
    uploaded: DeviceBatch | None
    found: ProposalBatch
    selection: Selection

    def rows(self, rows: Sequence[int], *, layers: bool = True) -> ProposedBatch:
        """Some of its videos, copied without features and, unless `layers`, without the layers of the memory."""
        row_R = torch.tensor(rows, dtype=torch.long, device=self.selection.kept_BK.device)
        return ProposedBatch(
            [self.clocks[row] for row in rows],
            [self.steps[row] for row in rows],
            None,
            self.found.rows(row_R, layers=layers),
            self.selection.mapped(lambda values: values[row_R]),
        )

    @property
    def kept_bytes(self) -> int:
        """The memory it takes, about."""
        video, proposals = self.found.video, self.found.proposals
        tensors = (video.embedded_BTD, *video.memory.layers, proposals.offsets_BA2)
        return sum(values.nbytes for values in tensors)


class ProposalGenerator:
    """Encodes a batch of videos, proposes events and selects those to caption.

    Args:
        model: The network, in float32.
        behavior: How the paper or the release selects.
        word_prior: The model's word prior, which gives rescoring its similarity space.
    """

    allow_sync = True  # whether the selection may wait for the device to see how many candidates it takes

    def __init__(
        self, model: MaskedTransformer, behavior: PaperBehavior, *, word_prior: WordPrior | None = None
    ) -> None:
        self.model, self.behavior = model, behavior
        self.similarity_space = similarity_space(word_prior, behavior.config.inference)
        self.propose: Callable[[Tensor], Proposals] = model.proposal_decoder
        self.numbering = AnchorNumbering(model.proposal_decoder.grid, model.device)
        self.stages = Stages()

    def padding_multiple(self, videos: int) -> int:
        """Pad the steps of a batch of so many videos to a multiple of this."""
        return 1

    def __call__(self, batch: DeviceBatch) -> tuple[ProposalBatch, Selection]:
        """Generate proposals and select events, at least one per video.

        Args:
            batch: Features on the device.

        Returns:
            The proposals, valid until the next call, and the selection, which stays valid.
        """
        found = self.generate(batch)
        return found, found.attempt.selection

    def encode(self, batch: DeviceBatch) -> EncodedVideo:
        """Encode the videos without proposing anything."""
        features_BTF, lengths = batch.features_BTF, batch.lengths
        valid_BT = torch.arange(features_BTF.shape[1], device=features_BTF.device) < lengths.read_B[:, None]
        return self.model.encode(features_BTF, valid_BT, padded=batch.padded)

    def generate(self, batch: DeviceBatch) -> ProposalBatch:
        """Encode, propose, refine boundaries, select and rescore."""
        lengths = batch.lengths
        with self.stages("encode"):
            video = self.encode(batch)
        with self.stages("propose"):
            proposals = self.propose(video.memory.last_BTD)
            compared_BTC = self.similarity_space(batch.features_BTF)
            proposals = refine_boundaries(proposals, compared_BTC, lengths.steps_B, self.behavior.config.inference)
        with self.stages("select"):
            attempt = self.behavior.attempt(proposals, lengths, allow_sync=self.allow_sync)
            numbers = self.numbering(proposals.steps, lengths.read_B) if batch.padded else None
            found = ProposalBatch(video, lengths, proposals, attempt, numbers)
            selection = self.completed(attempt.selection, compared_BTC, found)
        return replace(found, attempt=replace(attempt, selection=selection))

    def completed(self, selection: Selection, compared_BTC: Tensor, found: ProposalBatch) -> Selection:
        """The selection rescored, with at least one event per video, in the anchor numbers of each video."""
        settings, lengths, numbers = self.behavior.config.inference, found.lengths, found.numbers
        window, weight = self.behavior.config.model.window, settings.contrast_weight
        selection = rescore_by_contrast(selection, compared_BTC, lengths.steps_B, window, weight)
        filled = selection.at_least_one(lengths, settings.score_threshold)
        return filled if numbers is None else replace(filled, anchor_BK=numbers.own(filled.anchor_BK))


def event_masks(model: MaskedTransformer, found: ProposalBatch, video_P: Tensor, anchor_P: Tensor) -> Tensor:
    """The event mask of selected proposals.

    Args:
        model: The network that proposed them.
        found: The proposals of its batch.
        video_P: The row of each event's video.
        anchor_P: The anchor of each event, or `WHOLE_VIDEO`, whose mask is all steps that are read.

    Returns:
        The masks, P x T.
    """
    proposals, valid_BT = found.proposals, found.video.memory.valid_BT
    whole_P1 = (anchor_P == WHOLE_VIDEO)[:, None]
    if not len(proposals.anchors_A2):
        return valid_BT[video_P].float()
    limit_P = found.lengths.limit_B[video_P].to(proposals.offsets_BA2.dtype)
    if found.numbers is not None:
        anchor_P = found.numbers.shared(video_P, anchor_P)
    picked = proposals.pick(video_P, anchor_P.clamp(min=0))
    mask_PT = model.event_mask(picked, proposals.steps, limit_P).mask_PT
    return torch.where(whole_P1, valid_BT[video_P].to(mask_PT.dtype), mask_PT)
