"""The parts of encoding events and generating words, each alone on a GPU: ours and torch's, with the rate each reaches.

`part_lines`: sizes are those of a batch of events in captioning. A line has the milliseconds that a video of 186 events
and 480 steps would spend in the part (all layers and words), and the rate of one run.

`print_readings`: every candidate tiling of the kernel that reads events' memories (`kernels/fused.py`). A line has the
milliseconds of one reading, the rate, and the difference from torch's result; the best comes last. Calls are replayed
as a CUDA graph, as in generation, so that launching them costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from densevid.checkpoint import LoadedModel
from densevid.config import ModelConfig
from densevid.kernels.fused import Attention, Fused, TritonFused, candidates, has_triton, tiling_for, wide_product
from densevid.kernels.word_state import RaggedMemory
from densevid.model.video_encoder import Memory

EVENTS, STEPS, WORDS = 186, 480, 20
RUNS = 5


@dataclass(frozen=True)
class Part:
    """Some work over `tokens` steps, done `times` a video; `size` is its arithmetic, or the bytes it must move."""

    name: str
    work: Callable[[], object]
    times: float
    size: float
    unit: str


def part_lines(loaded: LoadedModel, device: torch.device, events: int = 256) -> list[str]:
    """A line for each part."""
    lines = [f"parts alone, {events} events of {STEPS} steps: ms a video, rate, part"]
    with torch.inference_mode():
        for part in parts(loaded.config.model, device, events):
            try:
                seconds = _seconds(part.work)
                scale = EVENTS / events * part.times
                lines.append(f"{seconds * scale * 1e3:8.3f} {part.size / seconds / 1e12:8.1f} {part.unit}  {part.name}")
            except RuntimeError as error:
                lines.append(f"       -        - {part.unit}  {part.name}: {str(error).splitlines()[0][:60]}")
    return lines


def parts(model: ModelConfig, device: torch.device, events: int) -> Iterator[Part]:
    """Yield the parts one after another, so that few tensors are in memory together."""
    width, layers = model.width, model.layers
    tokens, torchs = events * STEPS, Fused()
    kinds: list[tuple[str, Fused]] = [("torch", torchs)] + ([("ours", TritonFused())] if has_triton() else [])

    def bf16(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device, dtype=torch.bfloat16)

    steps, mask = bf16(events, STEPS, width), bf16(events, STEPS, 1)
    qkv, pf = bf16(3 * width, width), nn.Linear(width, model.hidden, device=device, dtype=torch.bfloat16)
    back = nn.Linear(model.hidden, width, device=device, dtype=torch.bfloat16)
    norm = nn.LayerNorm(width, device=device, dtype=torch.bfloat16)
    flop, each = 2.0 * tokens * width, 2.0 * tokens * width  # of a product by one column; bytes of one tensor
    yield Part("queries, keys, values", lambda: F.linear(steps, qkv), layers - 1, flop * 3 * width, "TFLOP/s")
    yield Part("output product", lambda: F.linear(steps, qkv[:width]), layers, flop * width, "TFLOP/s")
    for kind, fused in kinds:
        yield Part(
            f"expand and ReLU, {kind}", _call(fused.linear_relu, pf, steps), layers, flop * model.hidden, "TFLOP/s"
        )
    yield Part("contract", _call(back, pf(steps)), layers, flop * model.hidden, "TFLOP/s")
    for kind, fused in kinds:
        yield Part(f"norm, {kind}", _call(fused.residual_norm, norm, steps, steps), layers, 3 * each, "TB/s")
        yield Part(
            f"norm and mask, {kind}", _call(fused.residual_norm, norm, steps, steps, mask), layers, 3 * each, "TB/s"
        )
    shared, row = bf16(8 * STEPS, 3 * width), torch.arange(tokens, device=device).view(events, STEPS) % (8 * STEPS)
    for kind, fused in kinds:
        yield Part(f"masked rows, {kind}", _call(fused.masked_rows, shared, row, mask), 1, 3 * each, "TB/s")
    projected = bf16(events, STEPS, 3 * width)
    for name in get_args(Attention):
        work = _call(Fused(name).self_attention, projected, model.heads, 0.1, None)
        yield Part(f"self-attention, {name}", work, layers, flop * 2 * STEPS, "TFLOP/s")
    bias = torch.zeros(events, 1, 1, STEPS, device=device, dtype=torch.bfloat16)
    work = _call(torchs.self_attention, projected, model.heads, 0.1, bias)
    yield Part("self-attention with a bias", work, layers, flop * 2 * STEPS, "TFLOP/s")
    query = bf16(model.heads, events, width).transpose(0, 1)
    memory = Memory((steps,), mask[..., 0] > 0, False)
    read = layers * WORDS
    yield Part("reading a memory, torch", _call(torchs.memory_attention, query, memory, 0), read, each, "TB/s")
    count = torch.full((events,), STEPS, dtype=torch.int32, device=device)
    first = count.cumsum(0, dtype=torch.int32) - count
    flat = RaggedMemory((steps.flatten(0, 1),), torch.zeros(tokens, device=device), first, count)
    for _, fused in kinds[1:]:
        yield Part("reading a memory, ours", _call(fused.ragged_attention, query, flat, 0), read, each, "TB/s")
    words, table = bf16(2048, width), bf16(4004, width)
    size, times = 2.0 * words.shape[0] * table.shape[0] * width, WORDS * events / words.shape[0]
    yield Part("word logits", lambda: wide_product(words, table.t()), times, size, "TFLOP/s")


def _call(function: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: function(*arguments)


def _seconds(work: Callable[[], object]) -> float:
    """The best of some runs, after one to warm up."""
    work()
    marks = []
    for _ in range(RUNS):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        work()
        last.record()
        marks.append((first, last))
    torch.cuda.synchronize()
    return min(first.elapsed_time(last) for first, last in marks) / 1e3


EVENT_COUNTS = (10, 186, 640, 2976)  # the best of one video, all of one, the best of 64, all of sixteen
HEADS, CALLS, REPLAYS = 8, 10, 3


def print_readings(width: int, device: torch.device) -> None:
    """A table for every number of events."""
    for events in EVENT_COUNTS:
        print(f"{events} events of {STEPS} slots, width {width}: ms, TB/s, largest difference, reading", flush=True)
        print("\n".join(reading_lines(events, width, device)), flush=True)


@torch.inference_mode()
def reading_lines(events: int, width: int, device: torch.device) -> list[str]:
    """The slowest first; a line for what the GPU cannot run has the error."""
    query, memory = _subject(events, width, device)
    few = RaggedMemory(memory.layers, memory.log_count_N, memory.first_P[:10], memory.slots_P[:10])
    exact = Fused().ragged_attention(query[:10], few, 0).float()
    tried: list[tuple[float, str]] = []
    for reading in dict.fromkeys((tiling_for(events), *candidates(events))):
        fused = TritonFused(tiling=reading)
        try:
            far = float((fused.ragged_attention(query, memory, 0)[:10].float() - exact).abs().max())
            seconds = _replayed(partial(fused.ragged_attention, query, memory, 0))
        except Exception as error:  # Triton's own errors have no common kind
            tried.append((1e9, f"       -        - {reading}: {str(error).splitlines()[0][:80]}"))
            continue
        rate = events * STEPS * width * 2 / seconds / 1e12
        now = "  (in use)" if reading == tiling_for(events) else ""
        tried.append((seconds, f"{seconds * 1e3:8.4f} {rate:8.2f} {far:8.4f}  {reading}{now}"))
    return [line for _, line in sorted(tried, key=lambda one: -one[0])]


def _subject(events: int, width: int, device: torch.device) -> tuple[Tensor, RaggedMemory]:
    """Queries and a memory of events of full length."""
    rows_ND = torch.randn(events * STEPS, width, device=device, dtype=torch.bfloat16)
    query_HPD = torch.randn(HEADS, events, width, device=device, dtype=torch.bfloat16) / 8
    slots_P = torch.full((events,), STEPS, dtype=torch.int32, device=device)
    first_P = slots_P.cumsum(0, dtype=torch.int32) - slots_P
    return query_HPD.transpose(0, 1), RaggedMemory(
        (rows_ND,), torch.zeros(len(rows_ND), device=device), first_P, slots_P
    )


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
