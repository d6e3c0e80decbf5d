"""Work of fixed sizes as CUDA graphs: launching kernels one by one can take longer than running them.

Whoever wants work replayed has it read from, and leave its result in, places that stay. A graph is captured the second
time its sizes are needed; where that fails, the work goes on as it is.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor

from densevid.inference.decoding import Sentences
from densevid.inference.word_decoder import WordDecoder
from densevid.inference.word_state import FlatMemory

MOST_GRAPHS = 128
FEWEST_EVENTS = 16
Result = TypeVar("Result")
Say = Callable[[FlatMemory], Sentences]


class Graphs:
    """Work by its sizes; all graphs share one pool of memory, as only one runs at a time."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled, self.asked = enabled, Counter[Hashable]()
        self.graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Any]] = {}
        self.failed: set[str] = set()
        self.pool: Any = None

    def __call__(self, kind: str, sizes: Hashable, work: Callable[[], Result]) -> Result:
        """The result of work of some kind, which the next of these sizes overwrites."""
        key = (kind, sizes)
        self.asked[key] += 1
        if key not in self.graphs:
            possible = self.enabled and kind not in self.failed and len(self.graphs) < MOST_GRAPHS
            if not possible or self.asked[key] < 2:
                return work()
            try:
                self.graphs[key] = self._captured(work)
            except RuntimeError as error:
                warnings.warn(f"{kind} are not replayed, which costs time alone: {error}", stacklevel=2)
                self.failed.add(kind)
                return work()
        graph, result = self.graphs[key]
        graph.replay()
        return result

    def _captured(self, work: Callable[[], Result]) -> tuple[torch.cuda.CUDAGraph, Result]:
        """Run once to warm up, then record."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            work()
        torch.cuda.current_stream().wait_stream(aside)
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            result = work()
        return graph, result


class FlatSentences:
    """Says sentences about events whose memory lies in one place, the same for all batches; the words are replayed.

    A graph belongs to a number of events, rounded up; how long they are is written where the graph reads it.
    """

    def __init__(self, decoder: WordDecoder, say: Say, graphs: Graphs, rows: int) -> None:
        self.say, self.graphs, self.rows = say, graphs, rows
        weight = decoder.words.weight
        self.layers, self.like = len(decoder.layers), weight.new_empty(0, weight.shape[1])
        self.buffers: tuple[Tensor, ...] = ()
        self.counts: dict[int, Tensor] = {}

    def memory(self, events: int, rows: int) -> FlatMemory:
        """Where to write the memory of so many events with so many rows together."""
        if rows > self.rows:
            return FlatMemory(*self._room(rows), *self._counts(events))
        if not self.buffers:
            layers, log_count_N = self._room(self.rows)
            self.buffers = (*layers, log_count_N)
        size = rounded(events)
        if size not in self.counts:
            self.counts[size] = self._counts(size)
        return FlatMemory(self.buffers[:-1], self.buffers[-1], *self.counts[size])

    def __call__(self, memory: FlatMemory, events: int) -> Sentences:
        """The sentences of the first `events` events."""
        own = bool(self.buffers) and memory.log_count_N is self.buffers[-1]
        said = self.graphs("words", len(memory.first_P), lambda: self.say(memory)) if own else self.say(memory)
        return Sentences(said.words_PL[:events].clone(), said.log_probability_P[:events].clone())

    def _room(self, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rows of zeros for every layer, each standing for one step."""
        layers = tuple(self.like.new_zeros(rows, self.like.shape[1]) for _ in range(self.layers))
        return layers, torch.zeros(rows, device=self.like.device)

    def _counts(self, events: int) -> Tensor:
        return torch.zeros(2, events, dtype=torch.int32, device=self.like.device)


def rounded(events: int) -> int:
    """At most an eighth more, so that few sizes are captured."""
    multiple = max(FEWEST_EVENTS, 1 << max(0, (events - 1).bit_length() - 4))
    return -(-events // multiple) * multiple
