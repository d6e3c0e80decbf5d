"""The fast `CaptionGenerator`: packed events, a decoder that reads each memory once per word, CUDA graphs.

Events are packed and encoded (`packed_events.py`) and captioned, bounded numbers of steps at a time.
On a GPU with our kernels the encoder writes straight to the ragged memory that the words are generated from.

One video by itself is a special case on a GPU, which there waits for the host between some two hundred small launches.
Where a mask is nowhere zero, all events of a video without padding are as long as it is, so nothing has to be sorted by
length; all that is left to look at is how many events there are, and whether the masks really have no zero. Masks and
the encoding of events are then one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from densevid.inference.compat import PaperBehavior
from densevid.inference.generator import CaptionGenerator, GeneratorLimits
from densevid.inference.proposals import ProposalBatch, ProposalGenerator, event_masks
from densevid.inference.search import Beams, is_greedy
from densevid.kernels.cuda_graphs import GraphedDecoder, Graphs, rounded
from densevid.kernels.fused import KERNELS, Attention, Kernel, fits_ragged, fused_for
from densevid.kernels.packed_events import (
    EventEncoder,
    PackedEvents,
    Packing,
    RecurrentEventEncoder,
    SharedSteps,
    distinct_windows,
    pack,
)
from densevid.kernels.proposal_generator import GraphedProposalGenerator
from densevid.kernels.word_decoder import WordDecoder
from densevid.kernels.word_state import RaggedMemory
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.priors import WordPrior
from densevid.model.tags import Tags
from densevid.model.video_encoder import Memory
from densevid.progress import ProgressCallback, no_progress

ENCODING = 0.9  # its share of the time that captions take on a CPU, about
MOST_SENTENCES = 4096  # generated together: beyond that a word costs no less each


@dataclass(frozen=True)
class PackedLimits(GeneratorLimits):
    """What bounds memory, and how events are packed and captioned.

    Args:
        allowance: How many empty slots never matter.
        aligned: What packed lengths are a multiple of.
        cuda_graphs: Whether a GPU replays words, and the proposals of few videos.
        kernels: The steps between matrix products that are computed by our own kernels.
        attention: Whose attention the encoder uses.
        packed_beams: Whether `WordDecoder` does beam search, too: it pays where all sentences of an event can read one
            memory, as our kernel does.
    """

    allowance: int = 0
    aligned: int = 1
    cuda_graphs: bool = True
    kernels: tuple[Kernel, ...] = KERNELS
    attention: Attention = "default"
    packed_beams: bool = False

    @classmethod
    def of(cls, device: torch.device) -> PackedLimits:
        """What suits a device."""
        sizes = GeneratorLimits.of(device)
        encoded, decoded = sizes.encoded_steps, sizes.decoded_steps
        if device.type != "cuda":
            return cls(encoded, decoded, allowance=1 << 6)
        allowance = 1 << 13 if encoded >= 1 << 17 else 1 << 12
        return cls(encoded, decoded, allowance, aligned=16, packed_beams=True)


@dataclass
class _Share:
    """How much of all slots is encoded; the words of the last are still to be generated then."""

    slots: int
    on_progress: ProgressCallback
    done: int = 0

    def add(self, part: PackedEvents, memory: Memory) -> Memory:
        self.done += part.mask_PS.numel()
        self.on_progress("sentences", ENCODING * self.done / self.slots)
        return memory


class PackedCaptionGenerator(CaptionGenerator):
    """`CaptionGenerator` over packed events.

    Args:
        model: The network, in the precision that captions are computed in.
        behavior: How the paper or the release generates.
        limits: What bounds memory, and how events are packed.
    """

    limits: PackedLimits

    def __init__(self, model: MaskedTransformer, behavior: PaperBehavior, limits: PackedLimits) -> None:
        super().__init__(model, behavior, limits)
        self.packing = Packing(limits.encoded_steps, limits.allowance, limits.aligned, behavior.mask_floor)
        fused = fused_for(model.device, limits.kernels, limits.attention)
        self.encode: EventEncoder | RecurrentEventEncoder
        self.encode = EventEncoder(model, fused) if model.encodes_again else RecurrentEventEncoder(self.dtype)
        inference, network = behavior.config.inference, behavior.config.model
        self.graphs = Graphs(enabled=limits.cuda_graphs and model.device.type == "cuda")
        self.decoder: WordDecoder | None = None
        self.graphed: GraphedDecoder | None = None
        self.single_video: SingleVideo | None = None
        greedy = is_greedy(inference)
        copies = model.tagger is not None  # which `WordDecoder` cannot
        if (greedy or limits.packed_beams) and isinstance(model.caption_decoder, SelfAttentionDecoder) and not copies:
            skip = greedy and network.compat == "paper"  # a beam's sentences change places
            self.decoder = WordDecoder(model.caption_decoder, inference.max_words, fused, skip_finished=skip)
            if fused.ragged and fits_ragged(network.heads, network.width, self.dtype):
                self.graphed = GraphedDecoder(self.decoder, behavior, self.graphs, limits.decoded_steps)

    def caption_proposals(
        self,
        found: ProposalBatch,
        video_P: Tensor,
        anchor_P: Tensor,
        masks: Callable[[], Tensor],
        on_progress: ProgressCallback = no_progress,
    ) -> Beams:
        """See `CaptionGenerator`; a single video as one graph, where that is possible."""
        beams = None if self.single_video is None else self.single_video(found, anchor_P)
        return self(found.video, masks(), video_P, on_progress) if beams is None else beams

    def __call__(
        self, video: EncodedVideo, mask_PT: Tensor, video_P: Tensor, on_progress: ProgressCallback = no_progress
    ) -> Beams:
        """See `CaptionGenerator`."""
        events = len(mask_PT)
        beams = Beams.empty(events, self.behavior.config.inference, mask_PT.device)
        if not events:
            return beams
        if self.behavior.config.model.mask == "discrete":
            one_Q, number_P = distinct_windows(mask_PT, video_P)
            if len(one_Q) < events:
                return self(video, mask_PT[one_Q], video_P[one_Q], on_progress).rows(number_P)
        with self.stages("pack"):
            shared = self.encode.share(video)
            valid_PT = video.memory.valid_BT[video_P]
            tags = self.model.tags(video, mask_PT * valid_PT, video_P)
            packed = pack(mask_PT * valid_PT, video_P, valid_PT.sum(dim=1), self.packing)
        encoded = _Share(sum(part.mask_PS.numel() for part in packed), on_progress)
        for group in self._captioned_together(packed):
            event_P = torch.cat([part.event_P for part in group])
            if self.graphed is None:
                own_tags = None if tags is None else tags.select(event_P)
                beams.put(event_P, self._grouped(shared, group, encoded, own_tags))
            else:
                beams.put(event_P, self._ragged(self.graphed, shared, group))
        return beams

    def _grouped(self, shared: SharedSteps, group: list[PackedEvents], encoded: _Share, tags: Tags | None) -> Beams:
        """Encode the events, then generate their captions from memories one after another."""
        with self.stages("events"):
            memories = [encoded.add(part, self.encode(shared, part)) for part in group]
        with self.stages("words"):
            events = sum(len(memory.valid_BT) for memory in memories)
            if self.decoder is not None:
                return self.behavior.generate(self.decoder, self.decoder.begin(memories), events)
            (memory,) = memories
            state = self.model.caption_decoder.begin(replace(memory, tags=tags))
            return self.behavior.generate(self.model, state, events)

    def _ragged(self, graphed: GraphedDecoder, shared: SharedSteps, group: list[PackedEvents]) -> Beams:
        """The same where the encoder writes straight to the ragged memory."""
        sizes = [(part.row_PS.shape[0], part.row_PS.shape[1]) for part in group]
        events, first = sum(count for count, _ in sizes), 0
        with self.stages("events"):
            memory = graphed.memory(events, sum(count * slots for count, slots in sizes))
            memory.place_events(sizes)
            for part, (count, slots) in zip(group, sizes, strict=True):
                layers, log_count_PS = memory.group(first, count, slots)
                self.encode(shared, part, layers)
                log_count_PS.copy_(part.log_count_PS) if part.log_count_PS is not None else log_count_PS.zero_()
                first += count * slots
        with self.stages("words"):
            return graphed(memory, events)

    def _captioned_together(self, packed: list[PackedEvents]) -> Iterator[list[PackedEvents]]:
        """As many as the memory holds: a word costs the decoder's weights once, however many events share it."""
        group: list[PackedEvents] = []
        events = slots = 0
        most = max(1, MOST_SENTENCES // self.behavior.config.inference.beam)
        for part in packed:
            events, slots = events + len(part.mask_PS), slots + part.mask_PS.numel()
            if group and (slots > self.limits.decoded_steps or events > most or self.decoder is None):
                yield group
                group, events, slots = [], len(part.mask_PS), part.mask_PS.numel()
            group.append(part)
        if group:
            yield group


class SingleVideo:
    """Captions the events of one video, from its selection on, with masks and encoding as one CUDA graph.

    Args:
        proposals: What selected them.
        generator: Where the memory of the events lies.
    """

    def __init__(self, proposals: GraphedProposalGenerator, generator: PackedCaptionGenerator) -> None:
        self.proposals, self.generator = proposals, generator
        self.anchors: dict[tuple[int, int], Tensor] = {}

    def __call__(self, found: ProposalBatch, anchor_P: Tensor) -> Beams | None:
        """The candidate sentences of every event, given by its anchor; None where it is not that simple."""
        graphed, events = self.generator.graphed, len(anchor_P)
        if graphed is None or not self._is_simple(graphed, found, events):
            return None
        steps, size = found.proposals.steps, rounded(events)
        with self.generator.stages("events"):
            memory = graphed.memory(size, size * steps)
            memory.place_events([(events, steps)])
            place_Q = self._placed(steps, size, anchor_P)
            if found.graph_sizes is None:
                whole_1 = self._encoded(found, place_Q, memory)
            else:
                sizes = (found.graph_sizes, size)
                whole_1 = self.generator.graphs("events", sizes, lambda: self._encoded(found, place_Q, memory))
        if not bool(whole_1):
            return None
        with self.generator.stages("words"):
            return graphed(memory, events)

    def _is_simple(self, graphed: GraphedDecoder, found: ProposalBatch, events: int) -> bool:
        """One video without padding, masks that leave out nothing, and memory for all events at once."""
        behavior, videos = self.generator.behavior, len(found.video.memory.valid_BT)
        most = min(graphed.most, self.generator.limits.encoded_steps)
        dense = behavior.config.model.mask != "discrete" and behavior.mask_floor == 0
        alone = self.proposals.replays and videos == 1 and found.numbers is None
        fits = 0 < rounded(max(1, events)) * found.proposals.steps <= most
        return dense and alone and events > 0 and fits and isinstance(self.generator.encode, EventEncoder)

    def _placed(self, steps: int, size: int, anchor_P: Tensor) -> Tensor:
        """Where the graph reads the anchors; those left over are some of an earlier video of that length."""
        if (steps, size) not in self.anchors:
            self.anchors[steps, size] = anchor_P.new_zeros(size)
        place_Q = self.anchors[steps, size]
        place_Q[: len(anchor_P)].copy_(anchor_P)
        return place_Q

    def _encoded(self, found: ProposalBatch, anchor_Q: Tensor, memory: RaggedMemory) -> Tensor:
        """Encode the events into the memory; whether their masks leave out no step."""
        steps = found.proposals.steps
        video_Q = torch.zeros_like(anchor_Q)
        mask_QT = event_masks(self.proposals.model, found, video_Q, anchor_Q)
        row_QT = torch.arange(steps, device=mask_QT.device).expand(len(mask_QT), -1)
        part = PackedEvents(video_Q, row_QT, mask_QT, None)
        layers, log_count_QT = memory.group(0, len(mask_QT), steps)
        encode = self.generator.encode
        encode(encode.share(found.video), part, layers)
        log_count_QT.zero_()
        return (mask_QT != 0).all()


def build_fast_generators(
    model: MaskedTransformer,
    caption_model: MaskedTransformer,
    behavior: PaperBehavior,
    limits: GeneratorLimits | None,
    word_prior: WordPrior | None,
) -> tuple[ProposalGenerator, CaptionGenerator]:
    """The fast forms of both stages; see `generator.build_generators`."""
    if limits is None:
        limits = PackedLimits.of(model.device)
    elif not isinstance(limits, PackedLimits):
        limits = PackedLimits(limits.encoded_steps, limits.decoded_steps)
    generator = PackedCaptionGenerator(caption_model, behavior, limits)
    folded = caption_model is not model
    proposals = GraphedProposalGenerator(model, behavior, generator.graphs, folded=folded, word_prior=word_prior)
    generator.single_video = SingleVideo(proposals, generator)
    return proposals, generator
