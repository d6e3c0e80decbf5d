"""The caption decoder one word at a time: the numbers of `SelfAttentionDecoder`, with the least to read per word.

Every word of every event reads the event's memory, and that reading is what a word costs. So it is read as it is: the
key projection moves over to the query and the value projection behind the weighted sum, head by head,

    q . (K m_t) = (K^T q) . m_t,      sum_t w_t (V m_t) = V (sum_t w_t m_t),

and keys and values of the memory, as large as itself each, are never made. Keys and values of the words so far are
written into one tensor; a position is a number on the device, so that every word is the same work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.inference.search import plain_most_likely
from densevid.kernels.fused import Fused, has_triton, wide_product
from densevid.kernels.word_state import GroupedState, KeyValueCache, RaggedMemory, RaggedState
from densevid.model.attention import MultiHeadAttention, sinusoids
from densevid.model.caption_decoder import DecoderLayer, SelfAttentionDecoder
from densevid.model.video_encoder import Memory

LENGTH_MULTIPLE = 8  # of the words there is memory for: fast attention wants its masks aligned


@dataclass(frozen=True)
class CrossWeights:
    """Of one layer's attention to the memory: K and V^T per head, H x D/H x D and H x D x D/H, K with the scale."""

    keys_HdD: Tensor
    values_HDd: Tensor

    @classmethod
    def of(cls, attention: MultiHeadAttention) -> CrossWeights:
        """Split the two projections into heads."""
        keys_HdD = attention.key.weight.detach().unflatten(0, (attention.heads, -1)) * attention.scale
        values_HdD = attention.value.weight.detach().unflatten(0, (attention.heads, -1))
        return cls(keys_HdD.contiguous(), values_HdD.transpose(1, 2).contiguous())


class WordDecoder:
    """A self-attention decoder prepared for sentences of up to `max_words` words.

    Args:
        decoder: The decoder whose weights it uses.
        max_words: The longest sentence.
        fused: How the steps between matrix products are computed.
        skip_finished: Whether a sentence has ended where its word is `<pad>`, so that nothing needs to be read.
    """

    def __init__(
        self, decoder: SelfAttentionDecoder, max_words: int, fused: Fused, *, skip_finished: bool = True
    ) -> None:
        self.decoder, self.max_words, self.fused, self.skip_finished = decoder, max_words, fused, skip_finished
        self.layers: list[DecoderLayer] = list(decoder.layers)  # type: ignore[arg-type]
        parts = [(own.query, own.key, own.value) for own in (layer.self_attention for layer in self.layers)]
        self.projections = [torch.cat([part.weight for part in three]).detach() for three in parts]
        self.cross = [CrossWeights.of(layer.cross_attention) for layer in self.layers]
        self.words, weight = decoder.words, decoder.words.weight
        self.longest = -(-max_words // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
        position_L = torch.arange(self.longest, device=weight.device)
        self.positions_LD = sinusoids(position_L, weight.shape[1]).to(weight.dtype)
        self.causal_LL = position_L <= position_L[:, None]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.words.weight.device

    def begin(self, memories: list[Memory]) -> GroupedState:
        """The state before the first word about the events of these memories, one after another."""
        return GroupedState(memories, self._empty_cache(sum(len(memory.valid_BT) for memory in memories)))

    def begin_ragged(self, memory: RaggedMemory) -> RaggedState:
        """The state before the first word about the events of a ragged memory."""
        return RaggedState(memory, self._empty_cache(len(memory.first_P)), self.skip_finished)

    def _empty_cache(self, events: int) -> KeyValueCache:
        heads, width = self.layers[0].self_attention.heads, self.words.in_features
        shape = (events, heads, self.longest, width // heads)
        keys, values = ([self.words.weight.new_zeros(shape) for _ in self.layers] for _ in range(2))
        return KeyValueCache(keys, values, torch.zeros(1, dtype=torch.long, device=self.device))

    def next_words(self, words_P1: Tensor, state: GroupedState | RaggedState) -> Tensor:
        """Logits P x 1 x V of the word after the given one; `state` moves on."""
        fused = self.fused
        state.observe(words_P1[:, 0])
        embedded_PD = F.embedding(words_P1[:, 0], self.words.weight) * math.sqrt(self.words.in_features)
        output_PD = embedded_PD + self.positions_LD[state.cache.position_1]
        for index, layer in enumerate(self.layers):
            own_PD = self._self_attention(index, output_PD, state.cache)
            omega_PD = fused.residual_norm(layer.self_attention_norm.norm, own_PD, output_PD)
            seen_PD = self._cross_attention(index, omega_PD, state)
            phi_PD = fused.residual_norm(layer.cross_attention_norm.norm, seen_PD, omega_PD)
            hidden_PD = fused.linear_relu(layer.feed_forward.expand, phi_PD)
            output_PD = fused.residual_norm(
                layer.feed_forward_norm.norm, layer.feed_forward.contract(hidden_PD), phi_PD
            )
        state.cache.position_1 += 1
        return wide_product(output_PD, self.words.weight.t()).add_(self.words.bias)[:, None]

    def _self_attention(self, index: int, words_PD: Tensor, cache: KeyValueCache) -> Tensor:
        """Attention to this word and those before it."""
        attention = self.layers[index].self_attention
        projected_PE = F.linear(words_PD, self.projections[index])
        return attention.output(
            self.fused.causal_attention(projected_PE, cache, index, attention.scale, self.causal_LL)
        )

    def _cross_attention(self, index: int, words_PD: Tensor, state: GroupedState | RaggedState) -> Tensor:
        """Attention to the event's memory, which serves as keys and values of all heads."""
        attention, cross = self.layers[index].cross_attention, self.cross[index]
        query_HPd = attention.query(words_PD).unflatten(-1, (attention.heads, -1)).transpose(0, 1)
        query_PHD = torch.bmm(query_HPd, cross.keys_HdD).transpose(0, 1)
        seen_PHD = state.memory_attention(self.fused, query_PHD, index)
        heads_HPd = torch.bmm(seen_PHD.transpose(0, 1), cross.values_HDd)
        return attention.output(heads_HPd.transpose(0, 1).flatten(1))


def fast_most_likely(logits_PV: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """`search.most_likely` on a GPU: in one pass, where Triton is there."""
    return triton_most_likely(logits_PV, first) if has_triton() else plain_most_likely(logits_PV, first)


def triton_most_likely(logits_PV: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """The best word of each event from number `first` on, and its log-probability among those, by Triton."""
    from densevid.kernels import word_triton

    events, words = logits_PV.shape
    word_P = torch.empty(events, dtype=torch.long, device=logits_PV.device)
    log_P = torch.empty(events, device=logits_PV.device)
    block = min(4096, 1 << (words - 1).bit_length())
    word_triton.most_likely[(events,)](logits_PV.contiguous(), word_P, log_P, words, first, BLOCK=block)
    return word_P, log_P
