"""From features to the proposals that are captioned: encode, propose, select. Float32 throughout.

On a GPU few videos leave it idle between hundreds of small launches: there the whole of it is replayed as one graph for
every number of steps (`captured.py`), and the host looks at the result once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from densevid.inference.anchor_numbers import AnchorNumbers, Counting
from densevid.inference.borders import at_changes
from densevid.inference.captured import Graphs
from densevid.inference.compared import compared_by
from densevid.inference.contrast import weighed
from densevid.inference.folded_heads import FoldedHeads, proposer
from densevid.inference.fused import has_triton
from densevid.inference.rules import PaperRules
from densevid.inference.selection import WHOLE_VIDEO, Glance, Lengths, Selection
from densevid.inference.stages import Stages
from densevid.inference.uploads import Uploaded
from densevid.model.expected_words import ExpectedWords
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.proposal_decoder import Proposals
from densevid.model.recurrent import BiLSTMEncoder

REPLAYED_VIDEOS = 2  # at most; more keep a GPU busy by themselves
REPLAYED_MULTIPLE = 32  # of steps, so that few lengths are captured


@dataclass(frozen=True)
class Found:
    """Videos that were encoded together, what was proposed in them, and what was selected of it.

    The selection calls anchors by the numbers of their video's own grid; `numbers` is None where no video is padded and
    those of the proposals are the same. What has `stays` lies where all of these sizes do.
    """

    video: EncodedVideo
    lengths: Lengths
    proposals: Proposals
    glance: Glance
    numbers: AnchorNumbers | None
    stays: tuple[int, ...] | None = None


class Finder:
    """Finds the events of a batch; `folded` and replayed where digits beyond TF32's do not count."""

    def __init__(
        self,
        model: MaskedTransformer,
        rules: PaperRules,
        graphs: Graphs,
        *,
        folded: bool,
        expected: ExpectedWords | None = None,
    ) -> None:
        self.model, self.rules, self.graphs = model, rules, graphs
        self.compared = compared_by(expected, rules.config.inference)
        self.propose: Callable[[Tensor], Proposals] = proposer(model.proposal_decoder, folded=folded)
        self.counting = Counting(model.proposal_decoder.grid, model.device)
        self.stages = Stages()
        self.looks = model.device.type != "cuda" or not has_triton()
        fixed = isinstance(self.propose, FoldedHeads) and not isinstance(model.encoder, BiLSTMEncoder)
        self.replays = graphs.enabled and fixed and not self.looks
        self.places: dict[tuple[int, ...], Uploaded] = {}

    def multiple(self, videos: int) -> int:
        """What the steps of so many videos are padded to a multiple of."""
        return REPLAYED_MULTIPLE if self.replays and videos <= REPLAYED_VIDEOS else 1

    def __call__(self, uploaded: Uploaded) -> tuple[Found, Selection]:
        """What was found, until the next call, and the selection to keep, with at least one event a video."""
        found = self._found(uploaded)
        selection = found.glance.selection.copied() if self.replays else found.glance.selection
        if not self.looks and not bool(found.glance.enough_1):
            compared_BTC = self.compared(uploaded.features_BTF)
            selection = self._settled(self.rules.select(found.proposals, found.lengths), compared_BTC, found)
        return found, selection

    def encode(self, uploaded: Uploaded) -> EncodedVideo:
        """The videos alone."""
        features_BTF, lengths = uploaded.features_BTF, uploaded.lengths
        valid_BT = torch.arange(features_BTF.shape[1], device=features_BTF.device) < lengths.read_B[:, None]
        return self.model.encode(features_BTF, valid_BT, padded=uploaded.padded)

    def _found(self, uploaded: Uploaded) -> Found:
        if not self.replays or len(uploaded.features_BTF) > REPLAYED_VIDEOS:
            return self._work(uploaded)
        sizes = (*uploaded.features_BTF.shape, int(uploaded.padded))
        if sizes not in self.places:
            empty = (torch.empty_like(uploaded.features_BTF), torch.empty_like(uploaded.lengths_3B))
            self.places[sizes] = Uploaded(*empty, uploaded.padded)
        place = self.places[sizes]
        place.features_BTF.copy_(uploaded.features_BTF)
        place.lengths_3B.copy_(uploaded.lengths_3B)
        with self.stages("find"):
            found = self.graphs("proposals", sizes, lambda: self._work(place))
        return replace(found, stays=sizes if self.graphs.holds("proposals", sizes) else None)

    def _work(self, uploaded: Uploaded) -> Found:
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
            found = Found(video, lengths, proposals, glance, numbers)
            settled = self._settled(glance.selection, compared_BTC, found)
        return replace(found, glance=replace(glance, selection=settled))

    def _settled(self, selection: Selection, compared_BTC: Tensor, found: Found) -> Selection:
        """Weighed, with at least one event a video, and anchors called by its own numbers."""
        settings, lengths, numbers = self.rules.config.inference, found.lengths, found.numbers
        window, weight = self.rules.config.model.window, settings.contrast_weight
        selection = weighed(selection, compared_BTC, lengths.steps_B, window, weight)
        filled = selection.at_least_one(lengths, settings.score_threshold)
        return filled if numbers is None else replace(filled, anchor_BK=numbers.own(filled.anchor_BK))


def event_masks(model: MaskedTransformer, found: Found, video_P: Tensor, anchor_P: Tensor) -> Tensor:
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
