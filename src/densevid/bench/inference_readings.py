"""How our kernel should read the memories of events: every candidate of `inference/reading.py`, timed on a GPU.

One line each, the best of a number of events last: milliseconds of one reading, the rate, and how it differs from the
torch form. The calls are replayed as a graph, as words are, so that launching them costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from densevid.inference.fused import Fused, TritonFused
from densevid.inference.reading import candidates, reading_for
from densevid.inference.word_state import FlatMemory

EVENTS = (10, 186, 640, 2976)  # the best of one video, all of one, the best of 64, all of sixteen
STEPS, HEADS, CALLS, REPLAYS = 480, 8, 10, 3


def print_readings(width: int, device: torch.device) -> None:
    """A table for every number of events."""
    for events in EVENTS:
        print(f"{events} events of {STEPS} slots, width {width}: ms, TB/s, largest difference, reading", flush=True)
        print("\n".join(reading_lines(events, width, device)), flush=True)


@torch.inference_mode()
def reading_lines(events: int, width: int, device: torch.device) -> list[str]:
    """The slowest first; what a GPU cannot run says why."""
    query, memory = _subject(events, width, device)
    few = FlatMemory(memory.layers, memory.log_count_N, memory.first_P[:10], memory.slots_P[:10])
    exact = Fused().attended_flat(query[:10], few, 0).float()
    tried: list[tuple[float, str]] = []
    for reading in dict.fromkeys((reading_for(events), *candidates(events))):
        fused = TritonFused(reading=reading)
        try:
            far = float((fused.attended_flat(query, memory, 0)[:10].float() - exact).abs().max())
            seconds = _replayed(partial(fused.attended_flat, query, memory, 0))
        except Exception as error:  # Triton's own errors have no common kind
            tried.append((1e9, f"       -        - {reading}: {str(error).splitlines()[0][:80]}"))
            continue
        rate = events * STEPS * width * 2 / seconds / 1e12
        now = "  (in use)" if reading == reading_for(events) else ""
        tried.append((seconds, f"{seconds * 1e3:8.4f} {rate:8.2f} {far:8.4f}  {reading}{now}"))
    return [line for _, line in sorted(tried, key=lambda one: -one[0])]


def _subject(events: int, width: int, device: torch.device) -> tuple[Tensor, FlatMemory]:
    """Queries and a memory of events of full length."""
    rows_ND = torch.randn(events * STEPS, width, device=device, dtype=torch.bfloat16)
    query_HPD = torch.randn(HEADS, events, width, device=device, dtype=torch.bfloat16) / 8
    slots_P = torch.full((events,), STEPS, dtype=torch.int32, device=device)
    first_P = slots_P.cumsum(0, dtype=torch.int32) - slots_P
    return query_HPD.transpose(0, 1), FlatMemory((rows_ND,), torch.zeros(len(rows_ND), device=device), first_P, slots_P)


def _replayed(work: Callable[[], object]) -> float:
    """Seconds of one call, the best of some replays of several."""
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            work()
    marks = []
    for _ in range(REPLAYS + 1):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        graph.replay()
        last.record()
        marks.append((first, last))
    torch.cuda.synchronize()
    return min(first.elapsed_time(last) for first, last in marks[1:]) / 1e3 / CALLS
