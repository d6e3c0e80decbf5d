"""All words of a few events as one CUDA graph: for a single video, launching kernels takes longer than running them.

A graph belongs to a number of events and of slots, both rounded up, and is captured the second time they are needed.
All graphs read their memory from the same place. Larger batches keep a GPU busy by themselves and are not captured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from densevid.inference.decoding import Sentences
from densevid.inference.word_decoder import WordDecoder
from densevid.model.video_encoder import Memory

MOST_SLOTS = 192 * 512
EVENTS_MULTIPLE, SLOTS_MULTIPLE = 16, 32
MOST_GRAPHS = 16

Say = Callable[[list[Memory]], Sentences]


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    memory: Memory
    said: Sentences


class CapturedSentences:
    """Says sentences about few events by replaying graphs; None where there are too many, or it is the first time."""

    def __init__(self, decoder: WordDecoder, say: Say) -> None:
        self.say, self.asked = say, Counter[tuple[int, int]]()
        self.layers, weight = len(decoder.layers), decoder.words.weight
        self.width, self.dtype, self.device = weight.shape[1], weight.dtype, weight.device
        self.graphs: dict[tuple[int, int], _Captured] = {}
        self.buffers: list[Tensor] = []

    def __call__(self, memories: list[Memory]) -> Sentences | None:
        """Sentences of the events of these memories, one after another."""
        events = sum(len(memory.valid_BT) for memory in memories)
        slots = max(memory.valid_BT.shape[1] for memory in memories)
        size = (_up(events, EVENTS_MULTIPLE), _up(slots, SLOTS_MULTIPLE))
        if size[0] * size[1] > MOST_SLOTS:
            return None
        self.asked[size] += 1
        if size not in self.graphs:
            if self.asked[size] < 2 or len(self.graphs) >= MOST_GRAPHS:
                return None
            self.graphs[size] = self._captured(*size)
        captured = self.graphs[size]
        _fill(captured.memory, memories)
        captured.graph.replay()
        said = captured.said
        return Sentences(said.words_PL[:events].clone(), said.log_probability_P[:events].clone())

    def _captured(self, events: int, slots: int) -> _Captured:
        """Run once to warm up, then record."""
        if not self.buffers:
            self.buffers = [
                torch.zeros(MOST_SLOTS, self.width, dtype=self.dtype, device=self.device) for _ in range(self.layers)
            ]
        layers = tuple(buffer[: events * slots].view(events, slots, -1) for buffer in self.buffers)
        log_count_PS = torch.zeros(events, slots, device=self.device)
        memory = Memory(layers, torch.ones_like(log_count_PS, dtype=torch.bool), False, None, log_count_PS)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self.say([memory])
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            said = self.say([memory])
        return _Captured(graph, memory, said)


def _fill(whole: Memory, memories: list[Memory]) -> None:
    """Write memories one below the other; slots and events that are left over hold zeros."""
    assert whole.log_count_BT is not None
    first = 0
    whole.log_count_BT.zero_()
    for layer in whole.layers:
        layer.zero_()
    for memory in memories:
        count, slots = memory.valid_BT.shape
        last = first + count
        for ours, theirs in zip(whole.layers, memory.layers, strict=True):
            ours[first:last, :slots] = theirs
        whole.log_count_BT[first:last] = -torch.inf
        whole.log_count_BT[first:last, :slots] = 0 if memory.log_count_BT is None else memory.log_count_BT
        first = last


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
