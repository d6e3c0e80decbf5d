"""One video by itself, from its selection to its sentences: masks and the encoding of events are one CUDA graph.

For one video a GPU waits for the host between some two hundred small launches. Where a mask is nowhere zero all events
of a video without padding are as long as itself, so nothing has to be sorted by length, and the only questions left are
how many events there are and whether the masks really have no zero. Anything else goes the usual way
(`event_speaker.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from densevid.inference.generator import CaptionGenerator
from densevid.inference.proposals import ProposalBatch, ProposalGenerator, event_masks
from densevid.inference.search import Beams
from densevid.kernels.cuda_graphs import FlatSentences, rounded
from densevid.kernels.packed_encoder import EventEncoder
from densevid.kernels.packed_events import PackedEvents
from densevid.kernels.word_state import FlatMemory


class OneVideo:
    """Says what happens in the events of one video, with what a finder found and a speaker's place for memories."""

    def __init__(self, finder: ProposalGenerator, speaker: CaptionGenerator) -> None:
        self.finder, self.speaker = finder, speaker
        self.anchors: dict[tuple[int, int], Tensor] = {}

    def __call__(self, found: ProposalBatch, anchor_P: Tensor) -> Beams | None:
        """What might be said of every event, given by its anchor; None where it is not that simple."""
        flat, events = self.speaker.flat, len(anchor_P)
        if flat is None or not self._simple(flat, found, events):
            return None
        steps, size = found.proposals.steps, rounded(events)
        with self.speaker.stages("events"):
            memory = flat.memory(size, size * steps)
            memory.tell([(events, steps)])
            place_Q = self._place(steps, size, anchor_P)
            if found.stays is None:
                whole_1 = self._encoded(found, place_Q, memory)
            else:
                sizes = (found.stays, size)
                whole_1 = self.speaker.graphs("events", sizes, lambda: self._encoded(found, place_Q, memory))
        if not bool(whole_1):
            return None
        with self.speaker.stages("words"):
            return flat(memory, events)

    def _simple(self, flat: FlatSentences, found: ProposalBatch, events: int) -> bool:
        """One video without padding, masks that leave out nothing, and room for all events at once."""
        rules, videos = self.speaker.rules, len(found.video.memory.valid_BT)
        most = min(flat.most, self.speaker.limits.encoded)
        dense = rules.config.model.mask != "discrete" and rules.mask_floor == 0
        alone = self.finder.replays and videos == 1 and found.numbers is None
        fits = 0 < rounded(max(1, events)) * found.proposals.steps <= most
        return dense and alone and events > 0 and fits and isinstance(self.speaker.encode, EventEncoder)

    def _place(self, steps: int, size: int, anchor_P: Tensor) -> Tensor:
        """Where the graph finds the anchors; those left over are some of an earlier video of that length."""
        if (steps, size) not in self.anchors:
            self.anchors[steps, size] = anchor_P.new_zeros(size)
        place_Q = self.anchors[steps, size]
        place_Q[: len(anchor_P)].copy_(anchor_P)
        return place_Q

    def _encoded(self, found: ProposalBatch, anchor_Q: Tensor, memory: FlatMemory) -> Tensor:
        """Encode the events into the memory; whether their masks leave out no step."""
        steps = found.proposals.steps
        video_Q = torch.zeros_like(anchor_Q)
        mask_QT = event_masks(self.finder.model, found, video_Q, anchor_Q)
        row_QT = torch.arange(steps, device=mask_QT.device).expand(len(mask_QT), -1)
        part = PackedEvents(video_Q, row_QT, mask_QT, None)
        layers, log_count_QT = memory.group(0, len(mask_QT), steps)
        encode = self.speaker.encode
        encode(encode.share(found.video), part, layers)
        log_count_QT.zero_()
        return (mask_QT != 0).all()
