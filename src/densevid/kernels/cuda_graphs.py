"""Work of fixed sizes as CUDA graphs: launching kernels one by one can take longer than running them.

Work that is replayed reads from, and leaves its result in, tensors that stay where they are. A graph is captured the
second time its sizes are needed; where that fails, the work is launched as it is.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor

from densevid.inference.compat import PaperBehavior
from densevid.inference.search import Beams
from densevid.kernels.word_decoder import WordDecoder
from densevid.kernels.word_state import RaggedMemory

MOST_GRAPHS = 128
FEWEST_EVENTS = 16
Result = TypeVar("Result")


class Graphs:
    """Captured work by its kind and sizes; `enabled = False` launches everything.

    Graphs of one kind share a pool of memory, as only one of them runs at a time. Graphs of two kinds must not: what
    one leaves is read after the other has run. A graph that is captured later puts its result where an earlier one of
    its pool had its scratch, and that one, replayed, writes over it.
    """

    def __init__(self, *, enabled: bool) -> None:
        self.enabled, self.requests = enabled, Counter[Hashable]()
        self.graphs: dict[tuple[str, Hashable], tuple[torch.cuda.CUDAGraph, Any]] = {}
        self.failed: set[str] = set()
        self.pools: dict[str, Any] = {}
        self.stream: torch.cuda.Stream | None = None

    def __call__(self, kind: str, sizes: Hashable, work: Callable[[], Result]) -> Result:
        """Do work, by replaying its graph where there is one.

        Args:
            kind: What kind of work it is.
            sizes: All that its shapes depend on.
            work: Does it.

        Returns:
            Its result, which the next work of that kind overwrites, whatever its sizes.
        """
        key = (kind, sizes)
        self.requests[key] += 1
        if key not in self.graphs:
            possible = self.enabled and kind not in self.failed and len(self.graphs) < MOST_GRAPHS
            if not possible or self.requests[key] < 2:
                return work()
            try:
                self.graphs[key] = self.capture(kind, work)
            except RuntimeError as error:
                warnings.warn(f"cannot capture {kind} as a CUDA graph, which only costs time: {error}", stacklevel=2)
                self.failed.add(kind)
                return work()
        graph, result = self.graphs[key]
        graph.replay()
        return result

    def holds(self, kind: str, sizes: Hashable) -> bool:
        """Whether such work is replayed, so that its result always lies in the same place."""
        return (kind, sizes) in self.graphs

    def forget(self, *kinds: str) -> None:
        """Capture work of these kinds again: the tensors it reads have moved."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()  # one of them may be under way
        self.graphs = {key: graph for key, graph in self.graphs.items() if key[0] not in kinds}
        self.pools = {
            kind: pool for kind, pool in self.pools.items() if kind not in kinds
        }  # they end with their graphs

    def capture(self, kind: str, work: Callable[[], Result]) -> tuple[torch.cuda.CUDAGraph, Result]:
        """Run once to warm up, then record; not by `torch.cuda.graph`, which gives all unused memory back first."""
        stream = self.stream = self.stream or torch.cuda.Stream()  # one, as products keep scratch for every stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)
        if kind not in self.pools:
            self.pools[kind] = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=self.pools[kind], capture_error_mode="thread_local")
            try:
                result = work()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        return graph, result


class GraphedDecoder:
    """Generates the captions of events in one ragged memory, which stays in its place; the words are replayed.

    A graph belongs to a number of events, rounded up; how long they are is written where the graph reads it.

    Args:
        decoder: What gives the next word.
        behavior: How the paper or the release generates.
        graphs: Where the captured work is kept.
        most: The most rows that the memory may have; it grows to that as it is needed.
    """

    def __init__(self, decoder: WordDecoder, behavior: PaperBehavior, graphs: Graphs, most: int) -> None:
        self.decoder, self.behavior, self.graphs, self.most = decoder, behavior, graphs, most
        weight = decoder.words.weight
        self.like = weight.new_empty(0, weight.shape[1])
        self.layers, self.log_count_N = self._allocated(0)
        self.counts: dict[int, Tensor] = {}

    def memory(self, events: int, rows: int) -> RaggedMemory:
        """Where to write the memory of so many events with so many rows together."""
        if rows > self.most:
            return RaggedMemory(*self._allocated(rows), *self._counts(events))
        if rows > len(self.log_count_N):
            self.graphs.forget("words", "events")
            self.layers, self.log_count_N = (), self.log_count_N[:0]  # freed before the larger one is made
            self.layers, self.log_count_N = self._allocated(min(self.most, 1 << (rows - 1).bit_length()))
        size = rounded(events)
        if size not in self.counts:
            self.counts[size] = self._counts(size)
        return RaggedMemory(self.layers, self.log_count_N, *self.counts[size])

    def __call__(self, memory: RaggedMemory, events: int) -> Beams:
        """The candidate sentences of the first `events` events of the memory."""
        own = memory.log_count_N is self.log_count_N
        sizes = len(memory.first_P)
        beams = self.graphs("words", sizes, lambda: self.generate(memory)) if own else self.generate(memory)
        return beams.rows(slice(events))

    def generate(self, memory: RaggedMemory) -> Beams:
        """Without looking which sentences are finished, so that it can be replayed."""
        state = self.decoder.begin_ragged(memory)
        return self.behavior.generate(self.decoder, state, len(memory.first_P), allow_sync=False)

    def _allocated(self, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rows of zeros for every layer, each standing for one step."""
        layers = tuple(self.like.new_zeros(rows, self.like.shape[1]) for _ in self.decoder.layers)
        return layers, torch.zeros(rows, device=self.like.device)

    def _counts(self, events: int) -> Tensor:
        return torch.zeros(2, events, dtype=torch.int32, device=self.like.device)


def rounded(events: int) -> int:
    """At most an eighth more, so that few sizes are captured."""
    multiple = max(FEWEST_EVENTS, 1 << max(0, (events - 1).bit_length() - 4))
    return -(-events // multiple) * multiple
