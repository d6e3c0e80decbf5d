"""SODA a, b, c and d as plain loops, written from the paper's and the evaluator's description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reference.captioning_protocols import TIOUS, Events, events_of, iou

PRF = tuple[float, float, float]  # precision, recall, F1


def soda(
    results: dict[str, Any], references: Sequence[Any], videos: Sequence[str], scorers: Any, metric: str = "METEOR"
) -> dict[tuple[str, str], PRF]:
    """`{(type, mode): (precision, recall, F1)}`; `videos` are those of both sides, in the evaluator's order.

    merged: all annotators' events in one list, by start. multi: per video the annotator with the best F1, events in
    file order. per_reference: each annotator alone, events by start, then the mean of the scores.
    """
    predicted = _tokenized({v: [(e["timestamp"], e["sentence"]) for e in results[v]] for v in videos}, scorers)
    merged = _tokenized({video: events_of(references, video) for video in videos}, scorers)
    alone = [_tokenized({v: events_of([file], v) for v in videos if v in file}, scorers) for file in references]
    as_written = [
        _tokenized({v: events_of([file], v) for v in videos if v in file}, scorers, by_start=False)
        for file in references
    ]
    scores = {}
    for kind in "abcd":
        every: dict[tuple[int, str, str], list[PRF]] = {}  # one (precision, recall, F1) a threshold
        for name, files in (("merged", [merged]), ("alone", alone), ("written", as_written)):
            for number, golds in enumerate(files):
                for video, events in golds.items():
                    every[number, name, video] = _of_video(kind, events, predicted[video], scorers, metric)
        scores[kind, "merged"] = _mean([_mean(every[0, "merged", video]) for video in videos])
        best = []
        for video in videos:
            choices = [every[n, "written", video] for n in range(len(references)) if video in as_written[n]]
            best.append(_mean([max(at_tiou, key=lambda prf: prf[2]) for at_tiou in zip(*choices, strict=True)]))
        scores[kind, "multi"] = _mean(best)
        each = [_mean([_mean(every[n, "alone", video]) for video in alone[n]]) for n in range(len(references))]
        scores[kind, "per_reference"] = _mean(each)
    return scores


def best_alignment(table: Sequence[Sequence[float]]) -> tuple[float, list[tuple[int, int]]]:
    """The order-preserving matching of golds (rows) and predictions with the greatest total, and its pairs.

    A cell is a match only if matching is strictly better than leaving out its row or its column.
    """
    columns = len(table[0])
    best: list[list[float]] = []
    match: list[list[bool]] = []
    for i, row in enumerate(table):
        best.append([])
        match.append([])
        for j, value in enumerate(row):
            up = best[i - 1][j] if i else -1.0
            left = best[i][j - 1] if j else -1.0
            both = value + (best[i - 1][j - 1] if i and j else 0.0)
            best[i].append(max(up, left, both))
            match[i].append(both > up and both > left)
    pairs, limit = [], columns
    for i in reversed(range(len(table))):
        for j in reversed(range(limit)):
            if match[i][j]:
                pairs.append((i, j))
                limit = j
                break
    return best[-1][-1], pairs


def _of_video(kind: str, golds: Events, predicted: Events, scorers: Any, metric: str) -> list[PRF]:
    if not golds or not predicted:
        return [(0.0, 0.0, 0.0)]
    overlap = [[iou(p_times, times) for p_times, _ in predicted] for times, _ in golds]
    score: Callable[[Any], list[float]] = scorers.meteor if metric == "METEOR" else scorers.cider
    # The gold sentence is the hypothesis, the predicted one the reference: METEOR and CIDEr are not symmetric.
    text = [score([(sentence, [p_sentence]) for _, p_sentence in predicted]) for _, sentence in golds]
    if kind == "a":
        cut = [[[value if value >= tiou else 0.0 for value in row] for row in overlap] for tiou in TIOUS]
        totals = [sum(text[i][j] for i, j in best_alignment(table)[1]) for table in cut]
    elif kind == "b":
        totals = [sum(text[i][j] for i, j in best_alignment(overlap)[1])]
    elif kind == "c":
        product = [[o * t for o, t in zip(*rows, strict=True)] for rows in zip(overlap, text, strict=True)]
        totals = [best_alignment(product)[0]]
    else:
        totals = [best_alignment(overlap)[0]]
    return [_prf(total / len(predicted), total / len(golds)) for total in totals]


def _prf(precision: float, recall: float) -> PRF:
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total > 0 else 0.0


def _tokenized(events: dict[str, Events], scorers: Any, *, by_start: bool = True) -> dict[str, Events]:
    """The events of each video by start, with the captions of all videos tokenized as one file."""
    ordered = {v: sorted(each, key=lambda event: event[0][0]) if by_start else each for v, each in events.items()}
    words = iter(scorers.tokenize([sentence for each in ordered.values() for _, sentence in each]))
    return {video: [(times, next(words)) for times, _ in each] for video, each in ordered.items()}


def _mean(rows: Sequence[PRF]) -> PRF:
    count = max(len(rows), 1)
    return tuple(sum(row[n] for row in rows) / count for n in range(3))  # type: ignore[return-value]
