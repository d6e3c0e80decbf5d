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

from densevid.inference.compat import PaperBehavior
from densevid.inference.search import Beams
from densevid.kernels.word_decoder import WordDecoder
from densevid.kernels.word_state import FlatMemory

MOST_GRAPHS = 128
FEWEST_EVENTS = 16
Result = TypeVar("Result")


class Graphs:
    """Work by its sizes. Graphs of one kind share a pool of memory, as only one of them runs at a time.

    Graphs of two kinds must not: what one leaves is read after the other has run. A graph that is captured later puts
    its result where an earlier one of its pool had its scratch, and that one, replayed, writes over it.
    """

    def __init__(self, *, enabled: bool) -> None:
        self.enabled, self.asked = enabled, Counter[Hashable]()
        self.graphs: dict[tuple[str, Hashable], tuple[torch.cuda.CUDAGraph, Any]] = {}
        self.failed: set[str] = set()
        self.pools: dict[str, Any] = {}
        self.aside: torch.cuda.Stream | None = None

    def __call__(self, kind: str, sizes: Hashable, work: Callable[[], Result]) -> Result:
        """The result of work of some kind, which the next of that kind overwrites, whatever its sizes."""
        key = (kind, sizes)
        self.asked[key] += 1
        if key not in self.graphs:
            possible = self.enabled and kind not in self.failed and len(self.graphs) < MOST_GRAPHS
            if not possible or self.asked[key] < 2:
                return work()
            try:
                self.graphs[key] = self._captured(kind, work)
            except RuntimeError as error:
                warnings.warn(f"{kind} are not replayed, which costs time alone: {error}", stacklevel=2)
                self.failed.add(kind)
                return work()
        graph, result = self.graphs[key]
        graph.replay()
        return result

    def holds(self, kind: str, sizes: Hashable) -> bool:
        """Whether such work is replayed, so that its result always lies in the same place."""
        return (kind, sizes) in self.graphs

    def forget(self, *kinds: str) -> None:
        """Work of these kinds has a new place, and must be captured again."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()  # one of them may be under way
        self.graphs = {key: graph for key, graph in self.graphs.items() if key[0] not in kinds}
        self.pools = {
            kind: pool for kind, pool in self.pools.items() if kind not in kinds
        }  # they end with their graphs

    def _captured(self, kind: str, work: Callable[[], Result]) -> tuple[torch.cuda.CUDAGraph, Result]:
        """Run once to warm up, then record; not by `torch.cuda.graph`, which gives all unused memory back first."""
        aside = self.aside = self.aside or torch.cuda.Stream()  # one, as products keep scratch for every stream
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            work()
        torch.cuda.current_stream().wait_stream(aside)
        if kind not in self.pools:
            self.pools[kind] = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.stream(aside):
            graph.capture_begin(pool=self.pools[kind], capture_error_mode="thread_local")
            try:
                result = work()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(aside)
        return graph, result


class FlatSentences:
    """Says sentences about events whose memory lies in one place, the same for all batches; the words are replayed.

    A graph belongs to a number of events, rounded up; how long they are is written where the graph reads it. The place
    has room for `most` rows, but grows to that only as it is needed.
    """

    def __init__(self, decoder: WordDecoder, rules: PaperBehavior, graphs: Graphs, most: int) -> None:
        self.decoder, self.rules, self.graphs, self.most = decoder, rules, graphs, most
        weight = decoder.words.weight
        self.like = weight.new_empty(0, weight.shape[1])
        self.layers, self.log_count_N = self._room(0)
        self.counts: dict[int, Tensor] = {}

    def memory(self, events: int, rows: int) -> FlatMemory:
        """Where to write the memory of so many events with so many rows together."""
        if rows > self.most:
            return FlatMemory(*self._room(rows), *self._counts(events))
        if rows > len(self.log_count_N):
            self.graphs.forget("words", "events")
            self.layers, self.log_count_N = (), self.log_count_N[:0]  # the old makes room for the new
            self.layers, self.log_count_N = self._room(min(self.most, 1 << (rows - 1).bit_length()))
        size = rounded(events)
        if size not in self.counts:
            self.counts[size] = self._counts(size)
        return FlatMemory(self.layers, self.log_count_N, *self.counts[size])

    def __call__(self, memory: FlatMemory, events: int) -> Beams:
        """The sentences of the first `events` events."""
        own = memory.log_count_N is self.log_count_N
        said = self.graphs("words", len(memory.first_P), lambda: self.say(memory)) if own else self.say(memory)
        return said.rows(slice(events))

    def say(self, memory: FlatMemory) -> Beams:
        """Without a look at who has finished, so that it can be replayed."""
        return self.rules.say(self.decoder, self.decoder.begin_flat(memory), len(memory.first_P), looks=False)

    def _room(self, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rows of zeros for every layer, each standing for one step."""
        layers = tuple(self.like.new_zeros(rows, self.like.shape[1]) for _ in self.decoder.layers)
        return layers, torch.zeros(rows, device=self.like.device)

    def _counts(self, events: int) -> Tensor:
        return torch.zeros(2, events, dtype=torch.int32, device=self.like.device)


def rounded(events: int) -> int:
    """At most an eighth more, so that few sizes are captured."""
    multiple = max(FEWEST_EVENTS, 1 << max(0, (events - 1).bit_length() - 4))
    return -(-events // multiple) * multiple
