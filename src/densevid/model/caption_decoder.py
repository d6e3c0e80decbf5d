"""The caption decoder: masked memory and the words so far become logits of the next word."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from densevid.model.attention import FeedForward, KeysValues, MultiHeadAttention, ResidualNorm, sinusoids
from densevid.model.tags import CopyHead, CopyKeys, TagEmbedding
from densevid.model.video_encoder import Memory
from densevid.model.word_likelihood import WordLikelihood, likelihood

MOST_TAG_WORDS = 8  # of a class name


@dataclass
class DecodingState:
    """The memory's keys and values per layer, those of the words so far, and the words of tags that can be copied.

    The sentences of one event stand side by side, as many for every event, and read one memory.
    """

    memory: list[KeysValues]
    attended: Tensor | None
    words: list[KeysValues | None]
    position: int = 0
    copied: CopyKeys | None = None

    def branch(self, count: int) -> None:
        """Before the first word: go on with `count` sentences of each event. What was read is not copied."""

    def select(self, index_P: Tensor) -> None:
        """Go on with these events, of each of which there is one sentence."""
        self.memory = [memory.select(index_P) for memory in self.memory]
        self.attended = None if self.attended is None else self.attended[index_P]
        self.copied = None if self.copied is None else self.copied.select(index_P)
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
        tag_streams: int = 0,
        copy_tags: bool = True,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(width, hidden, heads, dropout, released=released) for _ in range(layers)
        )
        self.dropout = nn.Dropout(dropout)
        self.words = nn.Linear(width, vocabulary_size)
        self.tag_embedding = TagEmbedding(width, tag_streams) if tag_streams else None
        self.copy_head = CopyHead(width, MOST_TAG_WORDS) if tag_streams and copy_tags else None

    def begin(self, memory: Memory) -> DecodingState:
        """Project the memory, and the tags behind its steps, once for all words of a sentence."""
        layers, attended, copied = memory.layers, memory.attended, None
        if self.tag_embedding is not None and memory.tags is not None:
            tag_PND = self.tag_embedding(memory.tags, self.words.weight).to(layers[0].dtype)
            layers = tuple(torch.cat((layer, tag_PND), dim=1) for layer in layers)
            attended = _with_tags(memory, memory.tags.valid_PN)
            if self.copy_head is not None:
                copied = self.copy_head.keys(memory.tags, tag_PND, self.words.weight)
        projected = [
            layer.cross_attention.project(layer_memory)  # type: ignore[union-attr, operator]
            for layer, layer_memory in zip(self.layers, layers, strict=True)
        ]
        return DecodingState(projected, attended, [None] * len(self.layers), copied=copied)

    def forward(self, words_PL: Tensor, state: DecodingState) -> Tensor:
        """Logits P x L x V of the word after each given word; `state` moves on, so words may come in any portions."""
        output_PLD = self._outputs(words_PL, state)
        logits_PLV: Tensor = self.words(output_PLD)
        if state.copied is None or self.copy_head is None:
            return logits_PLV
        return self.copy_head(output_PLD, logits_PLV, state.copied)

    def likelihood(
        self, words_PL: Tensor, state: DecodingState, target_PL: Tensor, place_N: Tensor, left_out: int = 0
    ) -> WordLikelihood:
        """The likelihood of the words that follow, at N places of the P x L: what `forward` gives, without all logits.

        Args:
            words_PL: The words before each.
            state: At the beginning of the sentences.
            target_PL: The words that follow.
            place_N: Which of the flat places count.
            left_out: The first so many words of the vocabulary get a likelihood together.
        """
        output_PLD = self._outputs(words_PL, state)
        output_ND, target_N = output_PLD.flatten(0, 1)[place_N], target_PL.flatten()[place_N]
        own, normalizer_N = likelihood(output_ND, self.words.weight, self.words.bias, target_N, left_out)
        if state.copied is None or self.copy_head is None:
            return own
        copied = self.copy_head.copied(output_PLD, state.copied, place_N, self.words)
        return copied.mixed(own, normalizer_N, target_N)

    def _outputs(self, words_PL: Tensor, state: DecodingState) -> Tensor:
        """What the logits are made of, P x L x D."""
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
        return output_PLD


def _with_tags(memory: Memory, valid_PN: Tensor) -> Tensor:
    """What attention may look at: the steps of the memory as before, then the tags."""
    if memory.log_count_BT is None:
        return torch.cat((memory.valid_BT, valid_PN), dim=1)[:, None, None, :]
    log_count_BT = memory.log_count_BT
    none_PN = torch.zeros_like(valid_PN, dtype=log_count_BT.dtype).masked_fill(~valid_PN, -torch.inf)
    return torch.cat((log_count_BT, none_PN), dim=1)[:, None, None, :]
