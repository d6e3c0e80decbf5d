"""The caption decoder: masked memory and the words so far become logits of the next word."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from densevid.model.attention import FeedForward, KeysValues, MultiHeadAttention, ResidualNorm, sinusoids
from densevid.model.video_encoder import Memory


@dataclass
class DecodingState:
    """The memory's keys and values per layer, and those of the words so far.

    The sentences of one event stand side by side, as many for every event, and read one memory.
    """

    memory: list[KeysValues]
    attended: Tensor | None
    words: list[KeysValues | None]
    position: int = 0

    def branch(self, count: int) -> None:
        """Before the first word: go on with `count` sentences of each event. What was read is not copied."""

    def select(self, index_P: Tensor) -> None:
        """Go on with these events, of each of which there is one sentence."""
        self.memory = [memory.select(index_P) for memory in self.memory]
        self.attended = None if self.attended is None else self.attended[index_P]
        self.reorder(index_P)

    def reorder(self, index_P: Tensor) -> None:
        """Go on with the words of these rows, each of which must have read the same memory as the row it replaces."""
        self.words = [words and words.select(index_P) for words in self.words]


class DecoderLayer(nn.Module):
    """Omega: self-attention over the words so far; Phi: attention to the same layer's memory; then feed-forward."""

    def __init__(self, width: int, hidden: int, heads: int, dropout: float, *, released: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(width, heads, dropout, released=released)
        self.self_attention_norm = ResidualNorm(width, dropout, released=released)
        self.cross_attention = MultiHeadAttention(width, heads, dropout, released=released)
        self.cross_attention_norm = ResidualNorm(width, dropout, released=released)
        self.feed_forward = FeedForward(width, hidden)
        self.feed_forward_norm = ResidualNorm(width, dropout, released=released)

    def forward(
        self, words_PLD: Tensor, so_far: KeysValues, causal: Tensor, memory: KeysValues, attended: Tensor | None
    ) -> Tensor:
        """One layer over new words; `so_far` holds the earlier words and these."""
        omega_PLD = self.self_attention_norm(self.self_attention(words_PLD, so_far, causal), words_PLD)
        per_event = len(omega_PLD) // max(1, len(memory.keys))  # sentences
        query_EQD = omega_PLD.reshape(len(memory.keys), per_event * omega_PLD.shape[1], omega_PLD.shape[2])
        seen_PLD = self.cross_attention(query_EQD, memory, attended).view_as(omega_PLD)
        phi_PLD = self.cross_attention_norm(seen_PLD, omega_PLD)
        return self.feed_forward_norm(self.feed_forward(phi_PLD), phi_PLD)


class SelfAttentionDecoder(nn.Module):
    """L decoder layers, layer l attending to layer l of the memory; the word embedding is also the output matrix."""

    def __init__(
        self,
        layers: int,
        width: int,
        hidden: int,
        heads: int,
        vocabulary_size: int,
        dropout: float,
        *,
        released: bool = False,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(width, hidden, heads, dropout, released=released) for _ in range(layers)
        )
        self.dropout = nn.Dropout(dropout)
        self.words = nn.Linear(width, vocabulary_size)

    def begin(self, memory: Memory) -> DecodingState:
        """Project the memory once for all words of a sentence."""
        projected = [
            layer.cross_attention.project(layer_memory)  # type: ignore[union-attr, operator]
            for layer, layer_memory in zip(self.layers, memory.layers, strict=True)
        ]
        return DecodingState(projected, memory.attended, [None] * len(self.layers))

    def forward(self, words_PL: Tensor, state: DecodingState) -> Tensor:
        """Logits P x L x V of the word after each given word; `state` moves on, so words may come in any portions."""
        length = words_PL.shape[1]
        positions_L = torch.arange(state.position, state.position + length, device=words_PL.device)
        embedded_PLD = F.embedding(words_PL, self.words.weight) * math.sqrt(self.words.in_features)
        output_PLD = self.dropout(embedded_PLD + sinusoids(positions_L, self.words.in_features).to(embedded_PLD.dtype))
        causal_LS = torch.arange(state.position + length, device=words_PL.device) <= positions_L[:, None]
        for index, layer in enumerate(self.layers):
            new = layer.self_attention.project(output_PLD)  # type: ignore[union-attr, operator]
            earlier = state.words[index]
            so_far = new if earlier is None else earlier.extended(new)
            state.words[index] = so_far
            output_PLD = layer(output_PLD, so_far, causal_LS, state.memory[index], state.attended)
        state.position += length
        return self.words(output_PLD)
