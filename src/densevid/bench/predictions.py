"""What is timed: files as the plain loop takes them, and predictions made from references by disturbing them.

Disturbed references are a load of realistic size, the same every time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from densevid.evaluation.rows import Rows

SEED = 7
EVENTS = (3, 5)


def plain_references(rows: Rows) -> dict[str, dict[str, Any]]:
    """A reference file as the plain loop takes it, every event checked."""
    told: dict[str, dict[str, Any]] = {video: {"timestamps": [], "sentences": []} for video in rows.videos}
    for video, times, sentence in zip(rows.video_E.tolist(), rows.intervals_E2.tolist(), rows.sentences, strict=True):
        told[rows.videos[video]]["timestamps"].append(times)
        told[rows.videos[video]]["sentences"].append(sentence)
    return told


def plain_results(rows: Rows, *, scored: bool) -> dict[str, list[dict[str, Any]]]:
    """Predictions as the plain loop takes them, every event checked; `scored`: with `proposal_score`."""
    results: dict[str, list[dict[str, Any]]] = {video: [] for video in rows.videos}
    scores = rows.scores_E.tolist() if scored else [None] * len(rows)
    columns = (rows.video_E.tolist(), rows.intervals_E2.tolist(), rows.sentences, scores)
    for video, times, sentence, score in zip(*columns, strict=True):
        event = {"timestamp": times, "sentence": sentence}
        results[rows.videos[video]].append(event if score is None else {**event, "proposal_score": score})
    return results


def disturbed(references: Sequence[Mapping[str, Any]], events: tuple[int, int] = EVENTS) -> dict[str, Any]:
    """A few events a video: times moved by about a fifth of the length, words dropped, added and exchanged."""
    draw = random.Random(SEED)
    sentences = [sentence for entry in references[0].values() for sentence in entry["sentences"]]
    words = [word for sentence in sentences for word in sentence.split()]
    results = {}
    for video, entry in references[0].items():
        told = [file[video] for file in references if video in file and file[video]["sentences"]] or [entry]
        count = draw.randint(*events) if told[0]["sentences"] else 0
        results[video] = [_event(draw, draw.choice(told), sentences, words) for _ in range(count)]
    return {"version": "VERSION 1.0", "results": results, "external_data": {"used": False}}


def _event(draw: random.Random, entry: Mapping[str, Any], sentences: list[str], words: list[str]) -> dict[str, Any]:
    place = draw.randrange(len(entry["sentences"]))
    start, end = entry["timestamps"][place]
    length = max(end - start, 0.1)
    start, end = sorted((max(0.0, start + draw.gauss(0, 0.2) * length), end + draw.gauss(0, 0.2) * length))
    sentence = entry["sentences"][place] if draw.random() < 0.5 else draw.choice(sentences)
    times = [round(start, 2), round(max(end, start + 0.1), 2)]
    return {"sentence": _reworded(draw, sentence, words), "timestamp": times, "proposal_score": draw.random()}


def _reworded(draw: random.Random, sentence: str, words: list[str]) -> str:
    told = sentence.split()
    for _ in range(draw.randint(0, 5)):
        place = draw.randrange(len(told) + 1)
        if draw.random() < 0.5 and len(told) > 3:
            told.pop(min(place, len(told) - 1))
        else:
            told.insert(place, draw.choice(words))
    return " ".join(told)
