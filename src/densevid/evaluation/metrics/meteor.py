"""METEOR 1.5 from its 23 statistics a pair, so that one answer serves every threshold, video and SODA matrix.

The statistics s of a pair are counts:
  s[0:4]       hypothesis length, reference length, function words in each
  s[4+4i:8+4i] matches of module i (exact, stem, synonym, paraphrase): hypothesis content, reference content,
               hypothesis function, reference function
  s[20:23]     chunks, hypothesis words matched, reference words matched
A pair's score and a corpus's score are closed forms of them. The engine that counts is native where it is installed and
the original jar otherwise; a cache on disk remembers its answers.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.files import Floats
from densevid.evaluation.java import METEOR_OPTIONS, STATISTICS, MeteorJar, Pair
from densevid.evaluation.meteor import statistics as native_meteor
from densevid.evaluation.meteor.data import METEOR_JAR, PARAPHRASES, package_file
from densevid.evaluation.meteor.paraphrases import paraphrase_table
from densevid.evaluation.metrics.meteor_cache import StatisticsCache
from densevid.evaluation.metrics.meteor_worker import MeteorWorker
from densevid.evaluation.metrics.ngrams import blocks
from densevid.progress import PatientProgress

ENGINES = ("native", "java")
NATIVE_VERSION = 1  # raise it when native METEOR changes an answer: the cache then forgets the old ones
MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
# Letters in a batch: as many as keep both processes busy to the end; a second start of the jar has to pay for itself.
BATCH = {"native": 250_000, "java": 2_500_000}


class Meteor:
    """Answers pairs by one engine, remembering every answer in memory and, unless told not to, on disk.

    Large requests are answered by several processes; `begin` starts them while the caller does something else.
    """

    def __init__(self, engine: str | None = None, *, cache: bool = True, workers: int | None = None) -> None:
        self.engine = engine or ENGINES[0]
        if self.engine not in ENGINES:
            raise InputError(f"unknown METEOR engine {self.engine!r}; choose from {', '.join(ENGINES)}")
        self.asked = 0
        self._known: dict[Pair, Floats] = {}
        self._begun: deque[tuple[list[Pair], Future[Floats]]] = deque()
        self._cache = StatisticsCache(_identity(self.engine)) if cache else None
        self._threads = ThreadPoolExecutor(workers or os.cpu_count() or 1)
        self._started: list[MeteorJar | MeteorWorker] = []
        self._idle: list[MeteorJar | MeteorWorker] = []
        self._progress = PatientProgress("METEOR")

    def begin(self, pairs: Sequence[Pair]) -> None:
        """Start to answer these pairs, so that `statistics` finds them done."""
        self._begin([_as_sent(pair) for pair in pairs])

    def statistics(self, pairs: Sequence[Pair]) -> Floats:
        """N x 23 statistics of (hypothesis, references) pairs of tokenised sentences, in order."""
        wanted = [_as_sent(pair) for pair in pairs]
        self._begin(wanted)
        missing = {pair for pair in wanted if pair not in self._known}
        while missing:
            batch, answer = self._begun.popleft()
            rows = answer.result()
            self._known.update(zip(batch, rows, strict=True))
            missing.difference_update(batch)
            if self._cache:
                self._cache.write(batch, rows)
        return np.stack([self._known[pair] for pair in wanted]) if wanted else np.zeros((0, STATISTICS))

    def close(self) -> None:
        """End what was started, finished or not."""
        for _, answer in self._begun:
            answer.cancel()
        for process in self._started:
            process.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._progress.close()

    def _begin(self, pairs: Sequence[Pair]) -> None:
        begun = {pair for batch, _ in self._begun for pair in batch}
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known and pair not in begun]
        if self._cache and new:
            self._known.update(self._cache.read(new))
            new = [pair for pair in new if pair not in self._known]
        self.asked += len(new)
        self._progress.expect(len(new))
        letters = np.array([len(hypothesis) + sum(map(len, references)) for hypothesis, references in new])
        batches = blocks(letters, BATCH[self.engine]) if new else []
        if self.engine == "native" and len(batches) > 1:
            paraphrase_table()  # made on first use; better once here than by every worker
        for batch in (new[block] for block in batches):
            self._begun.append((batch, self._threads.submit(self._answer, batch, len(batches) > 1)))

    def _answer(self, batch: list[Pair], large: bool) -> Floats:
        """Runs in a thread: here if there is little to do, else by an idle process, or a new one."""
        if self.engine == "native" and not (large and sys.executable):
            rows = native_meteor.statistics(batch)
            self._progress.advance(len(batch))
            return rows
        try:
            process = self._idle.pop()
        except IndexError:
            process = MeteorJar() if self.engine == "java" else MeteorWorker()
            self._started.append(process)
        rows = process.statistics(batch, self._progress.advance)
        self._idle.append(process)
        return rows


@contextmanager
def opened(engine: str | None = None, *, cache: bool = True) -> Iterator[Meteor]:
    """A `Meteor` that is closed at the end of the block."""
    meteor = Meteor(engine, cache=cache)
    try:
        yield meteor
    finally:
        meteor.close()


def statistics(pairs: Sequence[Pair], *, engine: str | None = None, cache: bool = True) -> Floats:
    """N x 23 statistics of (hypothesis, references) pairs of tokenised sentences."""
    with opened(engine, cache=cache) as meteor:
        return meteor.statistics(pairs)


def segment_scores(stats_N23: Floats) -> Floats:
    """The score of each pair: F (1 - gamma frag^beta), F the harmonic mean of P and R weighted by alpha."""
    stats = np.asarray(stats_N23, dtype=np.float64)
    return _score(stats, np.where(_perfect(stats), 0.0, stats[:, 20]))


def corpus_score(stats_N23: Floats) -> float:
    """The score of the summed statistics, where a perfectly matched segment adds no chunk."""
    return float(corpus_scores(summable(stats_N23).sum(axis=0, keepdims=True))[0])


def summable(stats_N23: Floats) -> Floats:
    """Statistics made ready to be summed into a corpus: a segment matched whole in one chunk counts none."""
    stats = np.array(stats_N23, dtype=np.float64)
    stats[_perfect(stats), 20] = 0.0
    return stats


def corpus_scores(sums_K23: Floats) -> Floats:
    """The score of each row of summed, `summable` statistics."""
    return _score(sums_K23, sums_K23[:, 20])


def _perfect(stats: Floats) -> Any:
    """Everything matched on both sides, in one chunk."""
    return (stats[:, 21] == stats[:, 0]) & (stats[:, 22] == stats[:, 1]) & (stats[:, 20] == 1)


def _score(stats: Floats, chunks: Floats) -> Floats:
    """P, R = sum_i w_i (delta content_i + (1 - delta) function_i) / (the same of the length), on each side."""
    modules = stats[:, 4:20].reshape(-1, 4, 4)
    lengths, function_words = stats[:, 0:2], stats[:, 2:4]
    matched = MODULE_WEIGHTS @ (DELTA * modules[:, :, 0:2] + (1 - DELTA) * modules[:, :, 2:4])
    possible = DELTA * (lengths - function_words) + (1 - DELTA) * function_words
    precision, recall = np.divide(matched, possible, out=np.zeros_like(matched), where=possible > 0).T
    weighted = ALPHA * precision + (1 - ALPHA) * recall
    harmonic = np.divide(precision * recall, weighted, out=np.zeros_like(weighted), where=weighted > 0)
    average_matched = (stats[:, 21] + stats[:, 22]) / 2
    fragmentation = np.divide(chunks, average_matched, out=np.zeros_like(chunks), where=average_matched > 0)
    return np.asarray(harmonic * (1 - GAMMA * fragmentation**BETA))


def _as_sent(pair: Pair) -> Pair:
    """The official wrapper drops `|||` from the hypothesis; in a reference the jar reads it as another reference."""
    hypothesis, references = pair
    if "  " not in hypothesis and "|||" not in f"{hypothesis} {' '.join(references)}":
        return pair
    references = tuple(part.strip() for part in " ||| ".join(references).split("|||"))
    return hypothesis.replace("|||", "").replace("  ", " "), references


def _identity(engine: str) -> str:
    """What a cached answer depends on besides its pair: the jar, its paraphrases, its options, and our own version."""
    jar = sha256(package_file(METEOR_JAR).read_bytes()).hexdigest()
    paraphrases = package_file(PARAPHRASES).stat().st_size
    own = "" if engine == "java" else f" native {NATIVE_VERSION}"
    return f"{jar} {paraphrases} {' '.join(METEOR_OPTIONS)}{own}"
