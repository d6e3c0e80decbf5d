"""Masks of many events of many videos become sentences: pack, encode, say, a bounded number of steps at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.inference.compat import PaperBehavior
from densevid.inference.search import Beams, plain_greedy
from densevid.inference.stage_times import Stages
from densevid.kernels.cuda_graphs import FlatSentences, Graphs
from densevid.kernels.fused import KERNELS, Attention, Kernel, fits_flat, fused_for
from densevid.kernels.packed_encoder import EventEncoder, RecurrentEventEncoder, SharedSteps
from densevid.kernels.packed_events import PackedEvents, Packing, distinct_windows, pack
from densevid.kernels.word_decoder import WordDecoder
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.video_encoder import Memory
from densevid.progress import ProgressCallback, no_progress

LARGE_MEMORY = 40e9  # bytes; memories of 2^20 steps take four of them in the paper's configuration
ENCODING = 0.9  # its share of the time that sentences take on a CPU, about
SENTENCES_SPOKEN = 4096  # at most so many together: beyond that a word costs no less each


@dataclass(frozen=True)
class GeneratorLimits:
    """What bounds memory, in steps: of events encoded together, and of events spoken of together.

    `allowance` is how many empty steps never matter, `aligned` what packed lengths are a multiple of. On a GPU
    `captured` replays words, and the proposing of few videos; `kernels` are the steps between products that are our
    own; `attention` is whose attention the encoder uses. `beams` lets the word decoder say beams, too: it pays where
    all sentences of an event can read one memory, as our kernel does.
    """

    encoded: int
    spoken: int
    allowance: int = 0
    aligned: int = 1
    captured: bool = True
    kernels: tuple[Kernel, ...] = KERNELS
    attention: Attention = "usual"
    beams: bool = False

    @classmethod
    def of(cls, device: torch.device) -> GeneratorLimits:
        """What suits a device: large batches for a GPU, cache-sized ones for a CPU."""
        if device.type != "cuda":
            return cls(1 << 12, 1 << 16, 1 << 6)
        large = torch.cuda.get_device_properties(device).total_memory > LARGE_MEMORY
        sizes = (1 << 17, 1 << 20, 1 << 13, 16) if large else (1 << 15, 1 << 18, 1 << 12, 16)
        return cls(*sizes, beams=True)


@dataclass
class _Share:
    """How much of all slots is encoded; the words of the last are still to be said then."""

    slots: int
    on_progress: ProgressCallback
    done: int = 0

    def add(self, part: PackedEvents, memory: Memory) -> Memory:
        self.done += part.mask_PS.numel()
        self.on_progress("sentences", ENCODING * self.done / self.slots)
        return memory


class CaptionGenerator:
    """Says what happens in events, with one model and its rules."""

    def __init__(self, model: MaskedTransformer, rules: PaperBehavior, limits: GeneratorLimits) -> None:
        self.model, self.rules, self.limits = model, rules, limits
        self.dtype = model.caption_decoder.words.weight.dtype
        self.stages = Stages()
        self.packing = Packing(limits.encoded, limits.allowance, limits.aligned, rules.mask_floor)
        fused = fused_for(model.device, limits.kernels, limits.attention)
        self.encode: EventEncoder | RecurrentEventEncoder
        self.encode = EventEncoder(model, fused) if model.encodes_again else RecurrentEventEncoder(self.dtype)
        inference, network = rules.config.inference, rules.config.model
        self.graphs = Graphs(enabled=limits.captured and model.device.type == "cuda")
        self.decoder: WordDecoder | None = None
        self.flat: FlatSentences | None = None
        greedy = plain_greedy(inference)
        if (greedy or limits.beams) and isinstance(model.caption_decoder, SelfAttentionDecoder):
            rests = greedy and network.compat == "paper"  # a beam's sentences change places
            self.decoder = WordDecoder(model.caption_decoder, inference.max_words, fused, rests=rests)
            if fused.flat and fits_flat(network.heads, network.width, self.dtype):
                self.flat = FlatSentences(self.decoder, rules, self.graphs, limits.spoken)

    def __call__(
        self, video: EncodedVideo, mask_PT: Tensor, video_P: Tensor, on_progress: ProgressCallback = no_progress
    ) -> Beams:
        """What might be said of every event, given by its mask and the row of its video."""
        events = len(mask_PT)
        told = Beams.room(events, self.rules.config.inference, mask_PT.device)
        if not events:
            return told
        if self.rules.config.model.mask == "discrete":
            one_Q, number_P = distinct_windows(mask_PT, video_P)
            if len(one_Q) < events:
                return self(video, mask_PT[one_Q], video_P[one_Q], on_progress).rows(number_P)
        with self.stages("pack"):
            shared = self.encode.share(video)
            valid_PT = video.memory.valid_BT[video_P]
            packed = pack(mask_PT * valid_PT, video_P, valid_PT.sum(dim=1), self.packing)
        encoded = _Share(sum(part.mask_PS.numel() for part in packed), on_progress)
        for group in self._spoken_together(packed):
            event_P = torch.cat([part.event_P for part in group])
            if self.flat is None:
                said = self._told(shared, group, encoded)
            else:
                said = self._told_flat(self.flat, shared, group)
            told.put(event_P, said)
        return told

    def _told(self, shared: SharedSteps, group: list[PackedEvents], encoded: _Share) -> Beams:
        """Encode the events, then say what happens in them."""
        with self.stages("events"):
            memories = [encoded.add(part, self.encode(shared, part)) for part in group]
        with self.stages("words"):
            events = sum(len(memory.valid_BT) for memory in memories)
            if self.decoder is not None:
                return self.rules.say(self.decoder, self.decoder.begin(memories), events)
            (memory,) = memories
            return self.rules.say(self.model, self.model.caption_decoder.begin(memory), events)

    def _told_flat(self, flat: FlatSentences, shared: SharedSteps, group: list[PackedEvents]) -> Beams:
        """The same where the encoder writes straight to the place that the words are said from."""
        sizes = [(part.row_PS.shape[0], part.row_PS.shape[1]) for part in group]
        events, first = sum(count for count, _ in sizes), 0
        with self.stages("events"):
            memory = flat.memory(events, sum(count * slots for count, slots in sizes))
            memory.tell(sizes)
            for part, (count, slots) in zip(group, sizes, strict=True):
                layers, log_count_PS = memory.group(first, count, slots)
                self.encode(shared, part, layers)
                log_count_PS.copy_(part.log_count_PS) if part.log_count_PS is not None else log_count_PS.zero_()
                first += count * slots
        with self.stages("words"):
            return flat(memory, events)

    def _spoken_together(self, packed: list[PackedEvents]) -> Iterator[list[PackedEvents]]:
        """As many as the memory holds: a word costs the decoder's weights once, however many events share it."""
        group: list[PackedEvents] = []
        events = slots = 0
        most = max(1, SENTENCES_SPOKEN // self.rules.config.inference.beam)
        for part in packed:
            events, slots = events + len(part.mask_PS), slots + part.mask_PS.numel()
            if group and (slots > self.limits.spoken or events > most or self.decoder is None):
                yield group
                group, events, slots = [], len(part.mask_PS), part.mask_PS.numel()
            group.append(part)
        if group:
            yield group
