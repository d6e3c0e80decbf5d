"""The captioning protocols of 2017, 2018 and 2021 as plain loops, written from the description of their evaluators.

`results` is `{video: [event, ...]}`, `references` a list of `{video: {timestamps, sentences}}`. `scorers` tokenizes and
scores text (see `helpers.official_scorers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TIOUS = (0.3, 0.5, 0.7, 0.9)
Events = list[tuple[list[float], str]]


def captioning(
    results: dict[str, Any], references: Sequence[Any], videos: Sequence[str], protocol: str, garbage: str, scorers: Any
) -> dict[float, dict[str, dict[str, float]]]:
    """`{tIoU: {video: {metric: score}}}`; the metric is the mean over videos, then over tIoUs.

    `videos`: every video of any reference file, in the order in which the evaluator walks through them. All captions
    of a tIoU are tokenized as one file.
    """
    scores: dict[float, dict[str, dict[str, float]]] = {}
    for tiou in TIOUS:
        pairs = {
            v: written_pairs(results.get(v, []), events_of(references, v), tiou, protocol, garbage) for v in videos
        }
        hypotheses = iter(scorers.tokenize([left for video in videos for left, _ in pairs[video]]))
        golds = iter(scorers.tokenize([right for video in videos for _, right in pairs[video]]))
        scores[tiou] = {}
        for video in videos:
            tokenized = [(next(hypotheses), [next(golds)]) for _ in pairs[video]]
            found = detection(results.get(video, []), references, video, tiou)
            scores[tiou][video] = scorers.corpus(tokenized) | found
    return scores


def written_pairs(
    predicted: list[Any], events: Events, tiou: float, protocol: str, garbage: str
) -> list[tuple[str, str]]:
    """One (prediction, reference) pair for every match with any annotator; garbage where there is none.

    Pairs are written slot by slot. In 2017 garbage does not move on to the next slot, so the next pair overwrites it.
    """
    slots: dict[int, tuple[str, str]] = {}
    slot = 0
    for event in predicted[:1000]:
        matched = [sentence for times, sentence in events if iou(event["timestamp"], times) >= tiou]
        for sentence in matched:
            slots[slot] = (event["sentence"], sentence)
            slot += 1
        if not matched:
            slots[slot] = (event["sentence"], garbage)
            slot += protocol != "2017"
    return list(slots.values())


def detection(predicted: list[Any], references: Sequence[Any], video: str, tiou: float) -> dict[str, float]:
    """The best annotator's share of events covered and of predictions that hit, each maximum on its own."""
    best_recall = best_precision = 0.0
    predicted = predicted[:1000]
    for file in references:
        if video not in file:
            continue
        golds = file[video]["timestamps"]
        covered = sum(any(iou(event["timestamp"], gold) > tiou for event in predicted) for gold in golds)
        hits = sum(any(iou(event["timestamp"], gold) > tiou for gold in golds) for event in predicted)
        best_recall = max(best_recall, covered / max(len(golds), 1))
        best_precision = max(best_precision, hits / max(len(predicted), 1))
    return {"Recall": best_recall, "Precision": best_precision}


def events_of(references: Sequence[Any], video: str) -> Events:
    """(times, sentence) of every annotator's events of a video."""
    entries = [file[video] for file in references if video in file]
    return [event for entry in entries for event in zip(entry["timestamps"], entry["sentences"], strict=True)]


def iou(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """Intersection over the smaller of hull and sum of lengths, plus 1e-8."""
    shared = max(0, min(gold[1], predicted[1]) - max(gold[0], predicted[0]))
    hull = max(gold[1], predicted[1]) - min(gold[0], predicted[0])
    return shared / (min(hull, gold[1] - gold[0] + predicted[1] - predicted[0]) + 1e-8)
