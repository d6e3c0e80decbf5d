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
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.inference.fused import Fused, wide_product
from densevid.model.caption_decoder import DecoderLayer, SelfAttentionDecoder
from densevid.model.layers import MultiHeadAttention, sinusoids
from densevid.model.video_encoder import Memory


@dataclass
class WordState:
    """The memories of P events, those of equal length together; per layer keys and values of the words so far,
    P x H x L x D/H; and the position.
    """

    memories: list[Memory]
    keys: list[Tensor]
    values: list[Tensor]
    position_1: Tensor

    def select(self, index_P: Tensor) -> None:
        """Go on with these rows, which must be in order."""
        self.keys, self.values = ([layer[index_P] for layer in rows] for rows in (self.keys, self.values))
        counts = torch.tensor([0, *(len(memory.valid_BT) for memory in self.memories)], device=index_P.device)
        first = counts.cumsum(0)
        borders = torch.searchsorted(index_P, first).tolist()
        parts = zip(self.memories, pairwise(borders), first.tolist(), strict=False)
        chosen = [memory.select(index_P[own[0] : own[1]] - offset) for memory, own, offset in parts]
        self.memories = [memory for memory in chosen if len(memory.valid_BT)]


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
    """A self-attention decoder prepared for sentences of up to `max_words` words."""

    def __init__(self, decoder: SelfAttentionDecoder, max_words: int, fused: Fused) -> None:
        self.decoder, self.max_words, self.fused = decoder, max_words, fused
        self.layers: list[DecoderLayer] = list(decoder.layers)  # type: ignore[arg-type]
        self.cross = [CrossWeights.of(layer.cross_attention) for layer in self.layers]
        self.words, weight = decoder.words, decoder.words.weight
        position_L = torch.arange(max_words, device=weight.device)
        self.places_LD = sinusoids(position_L, weight.shape[1]).to(weight.dtype)
        self.said_LL = position_L <= position_L[:, None]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.words.weight.device

    def begin(self, memories: list[Memory]) -> WordState:
        """Nothing is said yet about the events of these memories, one after another."""
        heads, width = self.layers[0].self_attention.heads, self.words.in_features
        events = sum(len(memory.valid_BT) for memory in memories)
        shape = (events, heads, self.max_words, width // heads)
        keys, values = ([self.words.weight.new_zeros(shape) for _ in self.layers] for _ in range(2))
        return WordState(memories, keys, values, torch.zeros(1, dtype=torch.long, device=self.device))

    def next_words(self, words_P1: Tensor, state: WordState) -> Tensor:
        """Logits P x 1 x V of the word after the given one; `state` moves on."""
        embedded_PD = F.embedding(words_P1[:, 0], self.words.weight) * math.sqrt(self.words.in_features)
        output_PD = embedded_PD + self.places_LD[state.position_1]
        for index, layer in enumerate(self.layers):
            omega_PD = layer.self_attention_norm(self._words_so_far(index, output_PD, state), output_PD)
            phi_PD = layer.cross_attention_norm(self._event(index, omega_PD, state), omega_PD)
            output_PD = layer.feed_forward_norm(layer.feed_forward(phi_PD), phi_PD)
        state.position_1 += 1
        return wide_product(output_PD, self.words.weight.t()).add_(self.words.bias)[:, None]

    def _words_so_far(self, index: int, words_PD: Tensor, state: WordState) -> Tensor:
        """Attention to this word and those before it."""
        attention = self.layers[index].self_attention
        query, key, value = (
            part(words_PD).unflatten(-1, (attention.heads, 1, -1))
            for part in (attention.query, attention.key, attention.value)
        )
        state.keys[index].index_copy_(2, state.position_1, key)
        state.values[index].index_copy_(2, state.position_1, value)
        said_1L = self.said_LL[state.position_1]
        heads_PH1d = F.scaled_dot_product_attention(
            query, state.keys[index], state.values[index], attn_mask=said_1L, scale=attention.scale
        )
        return attention.output(heads_PH1d.flatten(1))

    def _event(self, index: int, words_PD: Tensor, state: WordState) -> Tensor:
        """Attention to the event's memory, which serves as keys and values of all heads."""
        attention, cross = self.layers[index].cross_attention, self.cross[index]
        query_HPd = attention.query(words_PD).unflatten(-1, (attention.heads, -1)).transpose(0, 1)
        query_PHD = torch.bmm(query_HPd, cross.keys_HdD).transpose(0, 1)
        queries = query_PHD.split([len(memory.valid_BT) for memory in state.memories])
        seen = [self.fused.attended(query, own, index) for query, own in zip(queries, state.memories, strict=True)]
        seen_PHD = seen[0] if len(seen) == 1 else torch.cat(seen)
        heads_HPd = torch.bmm(seen_PHD.transpose(0, 1), cross.values_HDd)
        return attention.output(heads_HPd.transpose(0, 1).flatten(1))
