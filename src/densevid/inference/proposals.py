"""What an anchor is called: by its number in the grid of its video's own steps, whatever company the video has.

In a batch the grid reaches over the steps of the longest video, and the anchors of every kernel size but the first are
counted from further on. Those numbers do not leave `finder.py`: what is selected, chosen and reported has its own.

From features to the proposals that are captioned: encode, propose, select. Float32 throughout.

On a GPU few videos leave it idle between hundreds of small launches: there the whole of it is replayed as one graph for
every number of steps (`captured.py`), and the host looks at the result once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from densevid.inference.batches import DeviceBatch
from densevid.inference.compat import PaperBehavior
from densevid.inference.nms import WHOLE_VIDEO, Lengths, Selection, SelectionAttempt
from densevid.inference.rescoring import at_changes, similarity_space, weighed
from densevid.inference.stage_times import Stages
from densevid.kernels.cuda_graphs import Graphs
from densevid.kernels.folded_heads import FoldedHeads, proposer
from densevid.kernels.fused import has_triton
from densevid.model.anchors import AnchorGrid
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.priors import WordPrior
from densevid.model.proposal_decoder import Proposals
from densevid.model.recurrent import BiLSTMEncoder


@dataclass(frozen=True)
class AnchorNumbers:
    """The number of every kernel size's first anchor: over the steps of a batch, and over each video's own."""

    shared_K: Tensor
    own_BK: Tensor

    def own(self, anchor_BN: Tensor) -> Tensor:
        """The own numbers of anchors of the batch; what is negative, and so no anchor, stays as it is."""
        kernel_BN = _kernel(self.shared_K, anchor_BN)
        return anchor_BN + (self.own_BK - self.shared_K).gather(1, kernel_BN)

    def shared(self, video_P: Tensor, anchor_P: Tensor) -> Tensor:
        """The numbers in the batch of anchors of some of its videos."""
        own_PK = self.own_BK[video_P]
        kernel_P1 = _kernel(own_PK, anchor_P[:, None])
        return anchor_P + (self.shared_K - own_PK).gather(1, kernel_P1)[:, 0]


class Counting:
    """Numbers the anchors of a grid on a device: nothing is sent there, so that it can be replayed."""

    def __init__(self, grid: AnchorGrid, device: torch.device) -> None:
        self.kernel_K, self.stride_K = (torch.tensor(sizes, device=device) for sizes in (grid.kernels, grid.strides))

    def __call__(self, shared_steps: int, own_steps_B: Tensor) -> AnchorNumbers:
        """For a batch of so many steps, and the steps that are read of each of its videos."""
        own_B1 = own_steps_B.long()[:, None]
        return AnchorNumbers(self._first(torch.full_like(own_B1[0], shared_steps)), self._first(own_B1))

    def _first(self, steps: Tensor) -> Tensor:
        """As `AnchorGrid.counts` has it, summed over the kernel sizes before each."""
        counts = (((steps - self.kernel_K) // self.stride_K) + 1).clamp(min=0)
        return counts.cumsum(dim=-1) - counts


def _kernel(first: Tensor, anchor: Tensor) -> Tensor:
    """Which kernel size an anchor is of: the last that begins no later, as one without anchors has the next's first."""
    return (torch.searchsorted(first, anchor.contiguous(), right=True) - 1).clamp(min=0)


REPLAYED_VIDEOS = 2  # at most; more keep a GPU busy by themselves
REPLAYED_MULTIPLE = 32  # of steps, so that few lengths are captured


@dataclass(frozen=True)
class ProposalBatch:
    """Videos that were encoded together, what was proposed in them, and what was selected of it.

    The selection calls anchors by the numbers of their video's own grid; `numbers` is None where no video is padded and
    those of the proposals are the same. What has `stays` lies where all of these sizes do.
    """

    video: EncodedVideo
    lengths: Lengths
    proposals: Proposals
    glance: SelectionAttempt
    numbers: AnchorNumbers | None
    stays: tuple[int, ...] | None = None


class ProposalGenerator:
    """Finds the events of a batch; `folded` and replayed where digits beyond TF32's do not count."""

    def __init__(
        self,
        model: MaskedTransformer,
        rules: PaperBehavior,
        graphs: Graphs,
        *,
        folded: bool,
        expected: WordPrior | None = None,
    ) -> None:
        self.model, self.rules, self.graphs = model, rules, graphs
        self.compared = similarity_space(expected, rules.config.inference)
        self.propose: Callable[[Tensor], Proposals] = proposer(model.proposal_decoder, folded=folded)
        self.counting = Counting(model.proposal_decoder.grid, model.device)
        self.stages = Stages()
        self.looks = model.device.type != "cuda" or not has_triton()
        fixed = isinstance(self.propose, FoldedHeads) and not isinstance(model.encoder, BiLSTMEncoder)
        self.replays = graphs.enabled and fixed and not self.looks
        self.places: dict[tuple[int, ...], DeviceBatch] = {}

    def multiple(self, videos: int) -> int:
        """What the steps of so many videos are padded to a multiple of."""
        return REPLAYED_MULTIPLE if self.replays and videos <= REPLAYED_VIDEOS else 1

    def __call__(self, uploaded: DeviceBatch) -> tuple[ProposalBatch, Selection]:
        """What was found, until the next call, and the selection to keep, with at least one event a video."""
        found = self._found(uploaded)
        selection = found.glance.selection.copied() if self.replays else found.glance.selection
        if not self.looks and not bool(found.glance.enough_1):
            compared_BTC = self.compared(uploaded.features_BTF)
            selection = self._settled(self.rules.select(found.proposals, found.lengths), compared_BTC, found)
        return found, selection

    def encode(self, uploaded: DeviceBatch) -> EncodedVideo:
        """The videos alone."""
        features_BTF, lengths = uploaded.features_BTF, uploaded.lengths
        valid_BT = torch.arange(features_BTF.shape[1], device=features_BTF.device) < lengths.read_B[:, None]
        return self.model.encode(features_BTF, valid_BT, padded=uploaded.padded)

    def _found(self, uploaded: DeviceBatch) -> ProposalBatch:
        if not self.replays or len(uploaded.features_BTF) > REPLAYED_VIDEOS:
            return self._work(uploaded)
        sizes = (*uploaded.features_BTF.shape, int(uploaded.padded))
        if sizes not in self.places:
            empty = (torch.empty_like(uploaded.features_BTF), torch.empty_like(uploaded.lengths_3B))
            self.places[sizes] = DeviceBatch(*empty, uploaded.padded)
        place = self.places[sizes]
        place.features_BTF.copy_(uploaded.features_BTF)
        place.lengths_3B.copy_(uploaded.lengths_3B)
        with self.stages("find"):
            found = self.graphs("proposals", sizes, lambda: self._work(place))
        return replace(found, stays=sizes if self.graphs.holds("proposals", sizes) else None)

    def _work(self, uploaded: DeviceBatch) -> ProposalBatch:
        lengths = uploaded.lengths
        with self.stages("encode"):
            video = self.encode(uploaded)
        with self.stages("propose"):
            proposals = self.propose(video.memory.last_BTD)
            compared_BTC = self.compared(uploaded.features_BTF)
            proposals = at_changes(proposals, compared_BTC, lengths.steps_B, self.rules.config.inference)
        with self.stages("select"):
            glance = self.rules.glance(proposals, lengths, looks=self.looks)
            numbers = self.counting(proposals.steps, lengths.read_B) if uploaded.padded else None
            found = ProposalBatch(video, lengths, proposals, glance, numbers)
            settled = self._settled(glance.selection, compared_BTC, found)
        return replace(found, glance=replace(glance, selection=settled))

    def _settled(self, selection: Selection, compared_BTC: Tensor, found: ProposalBatch) -> Selection:
        """Weighed, with at least one event a video, and anchors called by its own numbers."""
        settings, lengths, numbers = self.rules.config.inference, found.lengths, found.numbers
        window, weight = self.rules.config.model.window, settings.contrast_weight
        selection = weighed(selection, compared_BTC, lengths.steps_B, window, weight)
        filled = selection.at_least_one(lengths, settings.score_threshold)
        return filled if numbers is None else replace(filled, anchor_BK=numbers.own(filled.anchor_BK))


def event_masks(model: MaskedTransformer, found: ProposalBatch, video_P: Tensor, anchor_P: Tensor) -> Tensor:
    """The mask of every chosen proposal; all that is read of a video where no anchor proposed the event."""
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
