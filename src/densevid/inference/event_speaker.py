"""Masks of many events of many videos become sentences: pack, encode, say, a bounded number of steps at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.data.vocabulary import PAD
from densevid.inference.decoding import Sentences, Speaker, State, plain_greedy
from densevid.inference.event_encoder import EventEncoder, RecurrentEventEncoder
from densevid.inference.fused import Fused
from densevid.inference.packed_events import PackedEvents, Packing, joined, pack
from densevid.inference.rules import PaperRules
from densevid.inference.word_decoder import WordDecoder
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.recurrent import BiLSTMEncoder
from densevid.model.video_encoder import Memory


@dataclass(frozen=True)
class SpeakerLimits:
    """What bounds memory, in steps: of events encoded together, and of events spoken of together.

    `worth_joining` is how many empty steps are worth one batch fewer; `compiled` compiles the steps between products.
    """

    encoded: int
    spoken: int
    worth_joining: int
    compiled: bool = False

    @classmethod
    def of(cls, device: torch.device, *, compiled: bool | None = None) -> SpeakerLimits:
        """What suits a device: large batches for a GPU, cache-sized ones for a CPU."""
        if device.type == "cuda":
            return cls(1 << 17, 1 << 20, 1 << 13, bool(compiled))
        return cls(1 << 12, 1 << 16, 0, bool(compiled))


class EventSpeaker:
    """Says what happens in events, with one model and its rules."""

    def __init__(self, model: MaskedTransformer, rules: PaperRules, limits: SpeakerLimits) -> None:
        self.model, self.rules, self.limits = model, rules, limits
        self.dtype = model.caption_decoder.words.weight.dtype
        self.packing = Packing(limits.encoded, limits.worth_joining, rules.mask_floor)
        self.encode: EventEncoder | RecurrentEventEncoder
        if isinstance(model.encoder, BiLSTMEncoder):
            self.encode = RecurrentEventEncoder(self.dtype)
        else:
            self.encode = EventEncoder(model, Fused(compiled=limits.compiled))
        inference = rules.config.inference
        self.decoder: WordDecoder | None = None
        if plain_greedy(inference) and isinstance(model.caption_decoder, SelfAttentionDecoder):
            self.decoder = WordDecoder(model.caption_decoder, inference.max_words)

    def __call__(self, video: EncodedVideo, mask_PT: Tensor, video_P: Tensor) -> Sentences:
        """The sentence of every event, given by its mask and the row of its video."""
        events, most = len(mask_PT), self.rules.config.inference.max_words
        words_PL = torch.full((events, most), PAD, device=mask_PT.device)
        log_P = torch.zeros(events, device=mask_PT.device)
        if not events:
            return Sentences(words_PL, log_P)
        shared = self.encode.share(video)
        valid_PT = video.memory.valid_BT[video_P]
        packed = pack(mask_PT * valid_PT, video_P, valid_PT.sum(dim=1), self.packing)
        for group in self._spoken_together(packed):
            memory = joined([self.encode(shared, part) for part in group])
            event_P = torch.cat([part.event_P for part in group])
            said = self._say(memory)
            words_PL[event_P] = F.pad(said.words_PL, (0, most - said.words_PL.shape[1]), value=PAD)
            log_P[event_P] = said.log_probability_P
        return Sentences(words_PL, log_P)

    def _say(self, memory: Memory) -> Sentences:
        state: State
        if self.decoder is not None:
            speaker: Speaker = self.decoder
            state = self.decoder.begin(memory)
        else:
            speaker, state = self.model, self.model.caption_decoder.begin(memory)
        return self.rules.say(speaker, state, len(memory.valid_BT))

    def _spoken_together(self, packed: list[PackedEvents]) -> Iterator[list[PackedEvents]]:
        """Batches to speak of together: all get the slots of the longest, so if there are many none is much shorter."""
        group: list[PackedEvents] = []
        events = 0
        for part in packed:
            count, slots = part.mask_PS.shape
            longest = group[0].mask_PS.shape[1] if group else slots
            together = (events + count) * longest
            wasteful = 2 * slots < longest and together > self.limits.spoken // 4
            if group and (together > self.limits.spoken or wasteful):
                yield group
                group, events = [], 0
            group.append(part)
            events += count
        if group:
            yield group
