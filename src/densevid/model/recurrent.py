"""The paper's recurrent baselines: a Bi-LSTM context encoder and an LSTM decoder with temporal attention.

They share the signatures of the self-attention encoder and decoder, so every mixture of the paper is configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from densevid.model.video_encoder import Memory


class BiLSTMEncoder(nn.Module):
    """A Bi-LSTM over the whole video; every decoder layer reads its output.

    Zero inputs would spoil the recurrent state, so an event mask is applied to the output only.
    """

    def __init__(self, layers: int, width: int, dropout: float) -> None:
        super().__init__()
        self.depth = layers
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, width // 2, layers, batch_first=True, dropout=between, bidirectional=True)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, embedded_BTD: Tensor, valid_BT: Tensor, event_mask_BT: Tensor | None = None, *, padded: bool = True
    ) -> Memory:
        """Read the valid steps forwards and backwards; the rest come out as zeros."""
        lengths_B = valid_BT.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(embedded_BTD, lengths_B, batch_first=True, enforce_sorted=False)
        output_BTD, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=embedded_BTD.shape[1])
        memory = Memory((self.dropout(output_BTD),) * self.depth, valid_BT, padded)
        return memory if event_mask_BT is None else memory.masked(event_mask_BT)


@dataclass
class RecurrentState:
    """The memory per layer with its keys, and the hidden and cell state of every layer."""

    memory: Memory
    keys: list[Tensor]
    hidden: list[Tensor]
    cell: list[Tensor]

    def branch(self, count: int) -> None:
        """Go on with `count` sentences of each event, side by side."""
        self.select(torch.arange(count * len(self.hidden[0]), device=self.hidden[0].device) // count)

    def select(self, index_P: Tensor) -> None:
        """Go on with these rows."""
        self.memory = self.memory.select(index_P)
        self.keys = [keys[index_P] for keys in self.keys]
        self.reorder(index_P)

    def reorder(self, index_P: Tensor) -> None:
        """Go on with the words of these rows, each of which must have read the same memory as the row it replaces."""
        self.hidden = [hidden[index_P] for hidden in self.hidden]
        self.cell = [cell[index_P] for cell in self.cell]


class TemporalAttention(nn.Module):
    """Additive attention over steps (Yao et al., 2015): weights = softmax(w . tanh(W h + U m_t))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)

    def forward(self, hidden_PD: Tensor, keys_PTD: Tensor, memory_PTD: Tensor, memory: Memory) -> Tensor:
        """The context: a weighted mean of one layer of the memory."""
        logits_PT = self.energy((self.query(hidden_PD)[:, None] + keys_PTD).tanh()).squeeze(-1)
        if memory.log_count_BT is not None:
            logits_PT = logits_PT + memory.log_count_BT
        weights_PT = logits_PT.masked_fill(~memory.valid_BT, float("-inf")).softmax(dim=-1).to(memory_PTD.dtype)
        return torch.einsum("pt,ptd->pd", weights_PT, memory_PTD)


class LSTMDecoder(nn.Module):
    """L LSTM layers, each attending to its layer of the memory; the word embedding is also the output matrix."""

    def __init__(self, layers: int, width: int, vocabulary_size: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.ModuleList(TemporalAttention(width) for _ in range(layers))
        self.cells = nn.ModuleList(nn.LSTMCell(2 * width, width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        self.words = nn.Linear(width, vocabulary_size)

    def begin(self, memory: Memory) -> RecurrentState:
        """Start from the mean of the memory over the event's steps, each counted as much as the mask lets through."""
        counted_PT = memory.valid_BT if memory.event_mask_BT is None else memory.valid_BT * memory.event_mask_BT
        steps_P1 = counted_PT.sum(dim=1, keepdim=True).clamp(min=1)
        means = [layer.sum(dim=1) / steps_P1.to(layer.dtype) for layer in memory.layers]
        keys = [
            attention.key(layer)  # type: ignore[operator]
            for attention, layer in zip(self.attention, memory.layers, strict=True)
        ]
        return RecurrentState(memory, keys, [mean.tanh() for mean in means], [mean.clone() for mean in means])

    def forward(self, words_PL: Tensor, state: RecurrentState) -> Tensor:
        """Logits P x L x V of the word after each given word; `state` moves on."""
        embedded_PLD = self.dropout(F.embedding(words_PL, self.words.weight))
        outputs = [self._step(word_PD, state) for word_PD in embedded_PLD.unbind(dim=1)]
        return self.words(self.dropout(torch.stack(outputs, dim=1)))

    def _step(self, input_PD: Tensor, state: RecurrentState) -> Tensor:
        for index, (attention, cell) in enumerate(zip(self.attention, self.cells, strict=True)):
            layer_memory = state.memory.layers[index]
            context_PD = attention(state.hidden[index], state.keys[index], layer_memory, state.memory)
            joined = torch.cat((input_PD, context_PD), dim=-1)
            state.hidden[index], state.cell[index] = cell(joined, (state.hidden[index], state.cell[index]))
            input_PD = self.dropout(state.hidden[index])
        return state.hidden[-1]
