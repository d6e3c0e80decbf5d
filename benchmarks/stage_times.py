"""Stage times: how long captioning spends in each stage, on the host and on the device.

Stages mark themselves with a `Stages`, which does nothing. A `StageTimer` in its place adds up the host's time in each
stage, and the time between marks on the device's queue, read only at the end, so that measuring waits for nothing.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from densevid.progress import Stages

Span = tuple[torch.cuda.Event, torch.cuda.Event]


@dataclass(frozen=True)
class StageTime:
    """What a stage took, in milliseconds: of the host, and on the device."""

    name: str
    host: float
    device: float


class StageTimer(Stages):
    """Adds up the time inside each stage."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.host: defaultdict[str, float] = defaultdict(float)
        self.spans: defaultdict[str, list[Span]] = defaultdict(list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """See `Stages`; what is being captured into a graph is not timed."""
        if self.on_gpu and torch.cuda.is_current_stream_capturing():
            yield
            return
        begun = time.perf_counter()
        first = self._mark()
        yield
        last = self._mark()
        if first is not None and last is not None:
            self.spans[name].append((first, last))
        self.host[name] += time.perf_counter() - begun

    def _mark(self) -> torch.cuda.Event | None:
        if not self.on_gpu:
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def times(self) -> list[StageTime]:
        """Of every stage, in the order in which they were first entered."""
        if self.on_gpu:
            torch.cuda.synchronize()
        return [
            StageTime(name, seconds * 1e3, sum(first.elapsed_time(last) for first, last in self.spans[name]))
            for name, seconds in self.host.items()
        ]
