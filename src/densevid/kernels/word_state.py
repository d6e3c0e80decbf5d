"""The state of a `WordDecoder`: the memories of P events and the keys and values of the words so far, in two forms.

`GroupedState` holds the memories of events of one length together, as torch wants them. `RaggedState` holds the slots
of all events one below the other, each event with its first row and its number of rows, as our own kernel reads them:
whatever the lengths, a word is then the same launches, which a CUDA graph can replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from densevid.data.vocabulary import PAD
from densevid.model.video_encoder import Memory

if TYPE_CHECKING:
    from densevid.kernels.fused import Fused


@dataclass
class KeyValueCache:
    """Per layer keys and values of the words so far, P x H x L x D/H, and the position of the next word."""

    keys: list[Tensor]
    values: list[Tensor]
    position_1: Tensor

    def repeated(self, count: int) -> Tensor:
        """The number of each row, `count` times each."""
        return torch.arange(count * len(self.keys[0]), device=self.position_1.device) // count

    def select(self, index_P: Tensor) -> None:
        """Go on with these rows."""
        self.keys, self.values = ([layer[index_P] for layer in rows] for rows in (self.keys, self.values))


@dataclass
class GroupedState:
    """Memories one after another, and the words so far."""

    memories: list[Memory]
    cache: KeyValueCache

    def branch(self, count: int) -> None:
        """Go on with `count` sentences of each event, side by side."""
        self.select(self.cache.repeated(count))

    def select(self, index_P: Tensor) -> None:
        """Go on with these rows, which must be in order."""
        self.cache.select(index_P)
        counts = torch.tensor([0, *(len(memory.valid_BT) for memory in self.memories)], device=index_P.device)
        first = counts.cumsum(0)
        borders = torch.searchsorted(index_P, first).tolist()
        parts = zip(self.memories, pairwise(borders), first.tolist(), strict=False)
        selected = [memory.select(index_P[own[0] : own[1]] - offset) for memory, own, offset in parts]
        self.memories = [memory for memory in selected if len(memory.valid_BT)]

    def reorder(self, index_P: Tensor) -> None:
        """Go on with the words of these rows, each of the same event as the row it replaces."""
        self.cache.select(index_P)

    def observe(self, word_P: Tensor) -> None:
        """A finished sentence goes on reading."""

    def memory_attention(self, fused: Fused, query_PHD: Tensor, index: int) -> Tensor:
        """Attention to layer `index` of each event's memory, P x H x D."""
        queries = query_PHD.split([len(memory.valid_BT) for memory in self.memories])
        seen = [fused.memory_attention(query, own, index) for query, own in zip(queries, self.memories, strict=True)]
        return seen[0] if len(seen) == 1 else torch.cat(seen)


@dataclass(frozen=True)
class RaggedMemory:
    """Layers N x D and the log of how many steps each row stands for; event p has `slots_P` rows from `first_P` on."""

    layers: tuple[Tensor, ...]
    log_count_N: Tensor
    first_P: Tensor
    slots_P: Tensor

    def group(self, first: int, events: int, slots: int) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rows from `first` on as so many events of so many slots, to be written: layers, log counts."""
        own = slice(first, first + events * slots)
        layers = tuple(layer[own].view(events, slots, -1) for layer in self.layers)
        return layers, self.log_count_N[own].view(events, slots)

    def place_events(self, sizes: Sequence[tuple[int, int]]) -> None:
        """Write where the events of groups of (events, slots) lie; events left over read the first row alone."""
        events_G, slots_G = torch.tensor(sizes, dtype=torch.int32).T
        slots_E = slots_G.repeat_interleave(events_G)
        table_2P = torch.tensor([[0], [1]], dtype=torch.int32).repeat(1, len(self.first_P))
        table_2P[0, : len(slots_E)] = slots_E.cumsum(0) - slots_E
        table_2P[1, : len(slots_E)] = slots_E
        if self.first_P.is_cuda:
            table_2P = table_2P.pin_memory()
        self.first_P.copy_(table_2P[0], non_blocking=True)
        self.slots_P.copy_(table_2P[1], non_blocking=True)


@dataclass
class RaggedState:
    """A ragged memory, and the words so far. `skip_finished`: an event with a finished sentence reads one row."""

    memory: RaggedMemory
    cache: KeyValueCache
    skip_finished: bool = field(default=True)

    def branch(self, count: int) -> None:
        """Go on with `count` sentences of each event, side by side, which all read its rows where they are."""
        self.select(self.cache.repeated(count))

    def select(self, index_P: Tensor) -> None:
        """Go on with these events; their rows stay where they are."""
        self.cache.select(index_P)
        memory = self.memory
        self.memory = replace(memory, first_P=memory.first_P[index_P], slots_P=memory.slots_P[index_P])

    def reorder(self, index_P: Tensor) -> None:
        """Go on with the words of these rows, each of the same event as the row it replaces."""
        self.cache.select(index_P)

    def observe(self, word_P: Tensor) -> None:
        """After `<pad>` no word counts, so nothing needs to be read."""
        if self.skip_finished:
            slots_P = self.memory.slots_P.masked_fill(word_P == PAD, 1)
            self.memory = replace(self.memory, slots_P=slots_P)

    def memory_attention(self, fused: Fused, query_PHD: Tensor, index: int) -> Tensor:
        """Attention to layer `index` of each event's memory, P x H x D."""
        return fused.ragged_attention(query_PHD, self.memory, index)
