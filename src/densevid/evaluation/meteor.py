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

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from typing import Any

import numpy as np

import densevid
from densevid.errors import InputError
from densevid.evaluation.java import METEOR_OPTIONS, STATISTICS, Heard, MeteorJar, Pair, meteor_jar
from densevid.evaluation.meteor_cache import StatisticsCache
from densevid.evaluation.progress import progress
from densevid.evaluation.rows import Floats

ENGINES = ("native", "java")
MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
BATCH = 20_000


class Meteor:
    """Answers pairs by one engine, remembering every answer in memory and, unless told not to, on disk."""

    def __init__(self, engine: str | None = None, *, cache: bool = True) -> None:
        self.engine = engine or default_engine()
        if self.engine not in ENGINES:
            raise InputError(f"--meteor must be one of {', '.join(ENGINES)}, got {self.engine}")
        self._known: dict[Pair, Floats] = {}
        self._cache = StatisticsCache(_identity(self.engine)) if cache else None
        self._jar = MeteorJar() if self.engine == "java" else None
        self.asked = 0

    def statistics(self, pairs: Sequence[Pair]) -> Floats:
        """N x 23 statistics of (hypothesis, references) pairs of tokenised sentences, in order."""
        wanted = [_as_the_wrapper_sends(pair) for pair in pairs]
        new = [pair for pair in dict.fromkeys(wanted) if pair not in self._known]
        if self._cache and new:
            self._known.update(self._cache.read(new))
            new = [pair for pair in new if pair not in self._known]
        if new:
            self._ask(new)
        if not wanted:
            return np.zeros((0, STATISTICS))
        return np.stack([self._known[pair] for pair in wanted])

    def close(self) -> None:
        """End what the engine started."""
        if self._jar:
            self._jar.close()

    def _ask(self, pairs: list[Pair]) -> None:
        self.asked += len(pairs)
        with progress("METEOR", len(pairs)) as advance:
            for first in range(0, len(pairs), BATCH):
                batch = pairs[first : first + BATCH]
                rows = self._engine_statistics(batch, advance)
                self._known.update(zip(batch, rows, strict=True))
                if self._cache:
                    self._cache.write(batch, rows)

    def _engine_statistics(self, pairs: list[Pair], advance: Heard) -> Floats:
        if self._jar:
            return self._jar.statistics(pairs, advance)
        from densevid.evaluation import native_meteor

        rows = np.asarray(native_meteor.statistics(pairs), dtype=np.float64)
        advance(len(pairs))
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


def default_engine() -> str:
    """`native` where this installation has METEOR without Java."""
    return "native" if find_spec("densevid.evaluation.native_meteor") else "java"


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


def _as_the_wrapper_sends(pair: Pair) -> Pair:
    """The official wrapper drops `|||` from the hypothesis; in a reference the jar reads it as another reference."""
    hypothesis, references = pair
    if any("|||" in reference for reference in references):
        references = tuple(part.strip() for part in " ||| ".join(references).split("|||"))
    return hypothesis.replace("|||", "").replace("  ", " "), references


def _identity(engine: str) -> str:
    """What a cached answer depends on besides its pair."""
    if engine == "java":
        return f"{sha256(meteor_jar().read_bytes()).hexdigest()} {' '.join(METEOR_OPTIONS)}"
    from densevid.evaluation import native_meteor

    return f"native {getattr(native_meteor, 'VERSION', densevid.__version__)}"
