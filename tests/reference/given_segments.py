"""Captions of given segments as plain loops: all references of a segment at once, one hypothesis a segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def given_segments(results: dict[str, Any], references: Sequence[Any], scorers: Any) -> dict[str, dict[str, float]]:
    """`micro`: all segments one corpus; `macro`: each video a corpus of its own, then the mean over videos.

    Segments are the distinct times of a video, to the millisecond; the first prediction with its times counts.
    """
    videos = list(dict.fromkeys(v for file in references for v, entry in file.items() if entry["timestamps"]))
    golds: dict[str, dict[tuple[int, int], list[str]]] = {video: {} for video in videos}
    events = [(v, t, s) for file in references for v, e in file.items() for t, s in zip(*_columns(e), strict=True)]
    words = scorers.tokenize([sentence for _, _, sentence in events])
    for (video, times, _), sentence in zip(events, words, strict=True):
        golds[video].setdefault(_key(times), []).append(sentence)
    hypotheses = []
    for video in videos:
        first = {_key(event["timestamp"]): event["sentence"] for event in reversed(results.get(video, []))}
        hypotheses += [first.get(key, "") for key in sorted(golds[video])]
    tokenized = iter(scorers.tokenize(hypotheses))
    pairs = {video: [(next(tokenized), golds[video][key]) for key in sorted(golds[video])] for video in videos}
    each = [scorers.corpus(pairs[video]) for video in videos]
    micro = scorers.corpus([pair for video in videos for pair in pairs[video]])
    return {"micro": micro, "macro": {name: float(np.mean([scores[name] for scores in each])) for name in micro}}


def _columns(entry: dict[str, Any]) -> tuple[list[list[float]], list[str]]:
    return entry["timestamps"], entry["sentences"]


def _key(times: Sequence[float]) -> tuple[int, int]:
    return round(times[0] * 1000), round(times[1] * 1000)
