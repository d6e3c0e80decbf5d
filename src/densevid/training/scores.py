"""Scores of held-out predictions: CIDEr by ourselves, METEOR and recall by the project's evaluator where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from densevid.data.annotations import Annotations
from densevid.data.batches import SegmentDataset
from densevid.data.caption_text import tokenize
from densevid.events import Event
from densevid.training.cider import Cider
from densevid.training.rewards import documents_of

Events = dict[str, list[Event]]


def cider_of(sentences: Mapping[int, str], dataset: SegmentDataset) -> float:
    """Mean CIDEr (x 100, as papers print it) of one sentence per segment against all references of its times."""
    documents, document_N = documents_of(dataset)
    first = {document: number for number, document in reversed(list(enumerate(document_N.tolist())))}
    said = [tuple(tokenize(sentences[number])) for number in first.values()]
    return 100 * float(Cider(documents).scores(said, list(first)).mean())


def evaluator_scores(predictions: Mapping[str, Events], told: Annotations) -> dict[str, float]:
    """METEOR of captions of true segments; METEOR and average recall (at most 100 a video) of events; in percent.

    An ImportError or InputError says that the evaluator, or the data METEOR needs, is not installed.
    """
    evaluate = import_module("densevid.evaluation.evaluate").evaluate
    scores: dict[str, float] = {}
    if "captions" in predictions:
        result = evaluate(_submission(predictions["captions"]), _references(told), metrics=("segments",))
        scores["meteor"] = 100 * float(result.segments.micro()["METEOR"])
    if "events" in predictions:
        kept = replace(told, events={video: told.events[video] for video in predictions["events"]})
        parts = ("captioning", "proposals")
        result = evaluate(_submission(predictions["events"]), _references(kept), metrics=parts)
        scores["dense_meteor"] = 100 * float(result.captioning.average()["METEOR"])
        scores["average_recall"] = 100 * float(result.proposals.pooled.average_recall_at(100))
    return scores


def _submission(events: Events) -> dict[str, Any]:
    results = {video: [event.as_row() for event in found] for video, found in events.items()}
    return {"version": "VERSION 1.0", "results": results, "external_data": {}}


def _references(told: Annotations) -> dict[str, Any]:
    def entry(video: str, events: Sequence[Event]) -> dict[str, Any]:
        times = [[event.start, event.end] for event in events]
        sentences = [event.sentence for event in events]
        return {"duration": told.durations.get(video), "timestamps": times, "sentences": sentences}

    return {video: entry(video, events) for video, events in told.events.items() if events}
