"""Masks of many events of many videos become sentences: pack, encode, say, a bounded number of steps at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.data.vocabulary import PAD
from densevid.inference.captured import CapturedSentences
from densevid.inference.decoding import Sentences, plain_greedy
from densevid.inference.event_encoder import EventEncoder, RecurrentEventEncoder
from densevid.inference.fused import Passes, fused_for
from densevid.inference.packed_events import PackedEvents, Packing, distinct_windows, pack
from densevid.inference.rules import PaperRules
from densevid.inference.word_decoder import WordDecoder
from densevid.model.caption_decoder import SelfAttentionDecoder
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.video_encoder import Memory


@dataclass(frozen=True)
class SpeakerLimits:
    """What bounds memory, in steps: of events encoded together, and of events spoken of together.

    `allowance` is how many empty steps never matter, `aligned` what packed lengths are a multiple of. On a GPU
    `captured` replays the words of few events, `passes` are the steps between products, `attention` one more of them.
    """

    encoded: int
    spoken: int
    allowance: int = 0
    aligned: int = 1
    captured: bool = True
    passes: Passes = "triton"
    attention: bool = False

    @classmethod
    def of(cls, device: torch.device) -> SpeakerLimits:
        """What suits a device: large batches for a GPU, cache-sized ones for a CPU."""
        if device.type == "cuda":
            return cls(1 << 17, 1 << 20, 1 << 13, 16)
        return cls(1 << 12, 1 << 16)


class EventSpeaker:
    """Says what happens in events, with one model and its rules."""

    def __init__(self, model: MaskedTransformer, rules: PaperRules, limits: SpeakerLimits) -> None:
        self.model, self.rules, self.limits = model, rules, limits
        self.dtype = model.caption_decoder.words.weight.dtype
        self.packing = Packing(limits.encoded, limits.allowance, limits.aligned, rules.mask_floor)
        fused = fused_for(model.device, passes=limits.passes, attention=limits.attention)
        self.encode: EventEncoder | RecurrentEventEncoder
        self.encode = EventEncoder(model, fused) if model.encodes_again else RecurrentEventEncoder(self.dtype)
        inference = rules.config.inference
        self.decoder: WordDecoder | None = None
        if plain_greedy(inference) and isinstance(model.caption_decoder, SelfAttentionDecoder):
            self.decoder = WordDecoder(model.caption_decoder, inference.max_words, fused)
        self.captured: CapturedSentences | None = None
        if limits.captured and self.decoder is not None and model.device.type == "cuda":
            self.captured = CapturedSentences(self.decoder, self._say_all)

    def __call__(self, video: EncodedVideo, mask_PT: Tensor, video_P: Tensor) -> Sentences:
        """The sentence of every event, given by its mask and the row of its video."""
        events, most = len(mask_PT), self.rules.config.inference.max_words
        words_PL = torch.full((events, most), PAD, device=mask_PT.device)
        log_P = torch.zeros(events, device=mask_PT.device)
        if not events:
            return Sentences(words_PL, log_P)
        if self.rules.config.model.mask == "discrete":
            one_Q, number_P = distinct_windows(mask_PT, video_P)
            if len(one_Q) < events:
                told = self(video, mask_PT[one_Q], video_P[one_Q])
                return Sentences(told.words_PL[number_P], told.log_probability_P[number_P])
        shared = self.encode.share(video)
        valid_PT = video.memory.valid_BT[video_P]
        packed = pack(mask_PT * valid_PT, video_P, valid_PT.sum(dim=1), self.packing)
        for group in self._spoken_together(packed):
            event_P = torch.cat([part.event_P for part in group])
            said = self._say([self.encode(shared, part) for part in group])
            words_PL[event_P] = F.pad(said.words_PL, (0, most - said.words_PL.shape[1]), value=PAD)
            log_P[event_P] = said.log_probability_P
        return Sentences(words_PL, log_P)

    def _say(self, memories: list[Memory]) -> Sentences:
        events = sum(len(memory.valid_BT) for memory in memories)
        if self.decoder is not None:
            said = self.captured and self.captured(memories)
            return said or self.rules.say(self.decoder, self.decoder.begin(memories), events)
        (memory,) = memories
        return self.rules.say(self.model, self.model.caption_decoder.begin(memory), events)

    def _say_all(self, memories: list[Memory]) -> Sentences:
        """Without a look at who has finished, so that it can be captured."""
        assert self.decoder is not None
        events = sum(len(memory.valid_BT) for memory in memories)
        return self.rules.say(self.decoder, self.decoder.begin(memories), events, looks=False)

    def _spoken_together(self, packed: list[PackedEvents]) -> Iterator[list[PackedEvents]]:
        """As many as the memory holds: a word costs the decoder's weights once, however many events share it."""
        group: list[PackedEvents] = []
        slots = 0
        for part in packed:
            slots += part.mask_PS.numel()
            if group and (slots > self.limits.spoken or self.decoder is None):
                yield group
                group, slots = [], part.mask_PS.numel()
            group.append(part)
        if group:
            yield group
