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

from densevid.model.caption_decoder import DecoderLayer, SelfAttentionDecoder
from densevid.model.layers import MultiHeadAttention, sinusoids
from densevid.model.video_encoder import Memory


@dataclass
class WordState:
    """The memory of P events per layer, keys and values of the words so far (P x H x L x D/H), and the position."""

    memory: list[Tensor]
    log_count_P1S: Tensor | None
    keys: list[Tensor]
    values: list[Tensor]
    position_1: Tensor

    def select(self, index_P: Tensor) -> None:
        """Go on with these rows, repeated or reordered."""
        for rows in (self.memory, self.keys, self.values):
            rows[:] = [layer[index_P] for layer in rows]
        self.log_count_P1S = None if self.log_count_P1S is None else self.log_count_P1S[index_P]


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

    def __init__(self, decoder: SelfAttentionDecoder, max_words: int) -> None:
        self.decoder, self.max_words = decoder, max_words
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

    def begin(self, memory: Memory) -> WordState:
        """Nothing is said yet."""
        heads, width = self.layers[0].self_attention.heads, self.words.in_features
        shape = (len(memory.valid_BT), heads, self.max_words, width // heads)
        keys, values = ([layer.new_zeros(shape) for layer in memory.layers] for _ in range(2))
        count_PS = memory.log_count_BT
        position_1 = torch.zeros(1, dtype=torch.long, device=self.device)
        return WordState(list(memory.layers), None if count_PS is None else count_PS[:, None], keys, values, position_1)

    def next_words(self, words_P1: Tensor, state: WordState) -> Tensor:
        """Logits P x 1 x V of the word after the given one; `state` moves on."""
        embedded_PD = F.embedding(words_P1[:, 0], self.words.weight) * math.sqrt(self.words.in_features)
        output_PD = embedded_PD + self.places_LD[state.position_1]
        for index, layer in enumerate(self.layers):
            omega_PD = layer.self_attention_norm(self._words_so_far(index, output_PD, state), output_PD)
            phi_PD = layer.cross_attention_norm(self._event(index, omega_PD, state), omega_PD)
            output_PD = layer.feed_forward_norm(layer.feed_forward(phi_PD), phi_PD)
        state.position_1 += 1
        return _product(output_PD, self.words.weight.t()).add_(self.words.bias)[:, None]

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
        attention, cross, memory_PSD = self.layers[index].cross_attention, self.cross[index], state.memory[index]
        query_HPd = attention.query(words_PD).unflatten(-1, (attention.heads, -1)).transpose(0, 1)
        query_PHD = torch.bmm(query_HPd, cross.keys_HdD).transpose(0, 1)
        logits_PHS = _product(query_PHD, memory_PSD.transpose(1, 2))
        if state.log_count_P1S is not None:
            logits_PHS = logits_PHS + state.log_count_P1S
        seen_PHD = torch.bmm(logits_PHS.softmax(dim=-1).to(memory_PSD.dtype), memory_PSD)
        heads_HPd = torch.bmm(seen_PHD.transpose(0, 1), cross.values_HDd)
        return attention.output(heads_HPd.transpose(0, 1).flatten(1))


def _product(first: Tensor, second: Tensor) -> Tensor:
    """A product whose result is float32 whatever its factors: logits want more digits than bfloat16 has."""
    if first.dtype == torch.float32:
        return first @ second
    if first.is_cuda and hasattr(torch, "_grouped_mm"):  # torch 2.8 and later
        return (torch.mm if first.dim() == 2 else torch.bmm)(first, second, out_dtype=torch.float32)
    return (first @ second).float()
