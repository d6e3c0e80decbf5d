"""METEOR's entry point: statistics of many pairs, each distinct pair aligned once, on all cores, cached on disk."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from types import TracebackType
from typing import Self

import numpy as np

from densevid.evaluation.meteor.cache import StatisticsCache
from densevid.evaluation.meteor.paraphrases import paraphrase_table
from densevid.evaluation.meteor.resources import METEOR_JAR, PARAPHRASES, package_file
from densevid.evaluation.meteor.statistics import STATISTICS, Pair, Statistics, as_read_by_jar, statistics
from densevid.evaluation.meteor.worker import MeteorWorker
from densevid.progress import PatientProgress

VERSION = 1  # increase it when a statistic changes: the cache then forgets the old ones
OPTIONS = (
    "-",
    "-",
    "-stdio",
    "-l",
    "en",
    "-norm",
)  # of the official wrapper; part of the cache key
LETTERS_PER_BATCH = 250_000  # small enough to keep all processes busy to the end


class MeteorScorer:
    """Statistics of (hypothesis, references) pairs of tokenized captions.

    Every result is kept in memory and, with `cache`, on disk. Large requests are spread over several processes;
    `submit` starts them while the caller does something else. Close it, or use it in a `with` block.

    Args:
        cache: Read and keep results in the cache folder.
        workers: Processes for large requests; by default one a core.
    """

    def __init__(self, *, cache: bool = True, workers: int | None = None) -> None:
        self.computed = 0  # distinct pairs that were neither in memory nor on disk
        self._known: dict[Pair, Statistics] = {}
        self._pending: deque[tuple[list[Pair], Future[Statistics]]] = deque()
        self._pending_pairs: set[Pair] = set()
        self._cache = StatisticsCache(_identity()) if cache else None
        self._threads = ThreadPoolExecutor(workers or os.cpu_count() or 1)
        self._workers: list[MeteorWorker] = []
        self._idle: list[MeteorWorker] = []
        self._progress = PatientProgress("METEOR")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def submit(self, pairs: Sequence[Pair]) -> None:
        """Start to align these pairs in the background."""
        self._start([as_read_by_jar(pair) for pair in pairs])

    def statistics(self, pairs: Sequence[Pair]) -> Statistics:
        """N x 23 statistics of the pairs, in order; waits for what is not done yet."""
        wanted = [as_read_by_jar(pair) for pair in pairs]
        self._start(wanted)
        missing = {pair for pair in wanted if pair not in self._known}
        while missing:
            batch, future = self._pending.popleft()
            rows = future.result()
            self._known.update(zip(batch, rows, strict=True))
            self._pending_pairs.difference_update(batch)
            missing.difference_update(batch)
            if self._cache:
                self._cache.write(batch, rows)
        return np.stack([self._known[pair] for pair in wanted]) if wanted else np.zeros((0, STATISTICS))

    def close(self) -> None:
        """Stop what was started, finished or not."""
        for _, future in self._pending:
            future.cancel()
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._progress.close()

    def _start(self, pairs: Sequence[Pair]) -> None:
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known and pair not in self._pending_pairs]
        if self._cache and new:
            self._known.update(self._cache.read(new))
            new = [pair for pair in new if pair not in self._known]
        self.computed += len(new)
        self._progress.expect(len(new))
        batches = _batches(new)
        if len(batches) > 1:
            paraphrase_table()  # built on first use; better once here than by every worker
        for batch in batches:
            self._pending.append((batch, self._threads.submit(self._compute, batch, len(batches) > 1)))
        self._pending_pairs.update(new)

    def _compute(self, batch: list[Pair], large: bool) -> Statistics:
        """Runs in a thread: small requests in this process, large ones in an idle worker or a new one."""
        if not (large and sys.executable):
            rows = statistics(batch)
        else:
            try:
                worker = self._idle.pop()
            except IndexError:
                worker = MeteorWorker()
                self._workers.append(worker)
            rows = worker.statistics(batch)
            self._idle.append(worker)
        self._progress.advance(len(batch))
        return rows


def _batches(pairs: list[Pair]) -> list[list[Pair]]:
    batches: list[list[Pair]] = []
    letters = LETTERS_PER_BATCH
    for pair in pairs:
        if letters >= LETTERS_PER_BATCH:
            batches.append([])
            letters = 0
        batches[-1].append(pair)
        letters += len(pair[0]) + sum(map(len, pair[1]))
    return batches


def _identity() -> str:
    """What a cached result depends on besides its pair: the jar's data, paraphrases, options, and our version."""
    jar = sha256(package_file(METEOR_JAR).read_bytes()).hexdigest()
    paraphrases = package_file(PARAPHRASES).stat().st_size
    return f"{jar} {paraphrases} {' '.join(OPTIONS)} native {VERSION}"
