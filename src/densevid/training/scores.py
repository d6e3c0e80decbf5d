"""Scores of held-out predictions: CIDEr by ourselves, METEOR and recall by the project's evaluator where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from densevid.data.annotations import Annotations
from densevid.data.batches import SegmentDataset
from densevid.data.caption_text import tokenize
from densevid.errors import InputError
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
    from densevid.evaluation.evaluate import evaluate

    scores: dict[str, float | None] = {}
    if "captions" in predictions:
        result = evaluate(_submission(predictions["captions"]), _references(told), metrics=("segments",))
        assert result.segments is not None
        scores["meteor"] = result.segments.micro()["METEOR"]
    if "events" in predictions:
        kept = replace(told, events={video: told.events[video] for video in predictions["events"]})
        parts = ("captioning", "proposals")
        result = evaluate(_submission(predictions["events"]), _references(kept), metrics=parts)
        assert result.captioning is not None and result.proposals is not None
        scores["dense_meteor"] = result.captioning.average()["METEOR"]
        scores["average_recall"] = result.proposals.pooled.average_recall_at(100)
    return {name: 100 * value for name, value in scores.items() if value is not None}


def require_judge(best_by: str, *, validated: bool) -> None:
    """Raise unless what is to decide about the best model can be had here: a run would find out too late."""
    if best_by in ("loss", "last"):
        return
    if not validated:
        raise InputError(f"training.best_by = {best_by!r} needs --validation FILE or --validation-split NAME")
    if best_by == "meteor":
        event = Event(0.0, 1.0, "a dog runs")
        try:
            evaluator_scores({"captions": {"v": [event]}}, Annotations({"v": [event]}, {"v": 1.0}, []))
        except (ImportError, InputError) as error:
            raise InputError(f"training.best_by = 'meteor': no METEOR here ({error}); 'cider' needs nothing") from error


def _submission(events: Events) -> dict[str, Any]:
    results = {video: [event.as_row() for event in found] for video, found in events.items()}
    return {"version": "VERSION 1.0", "results": results, "external_data": {}}


def _references(told: Annotations) -> dict[str, Any]:
    def entry(video: str, events: Sequence[Event]) -> dict[str, Any]:
        times = [[event.start, event.end] for event in events]
        sentences = [event.sentence for event in events]
        return {"duration": told.durations.get(video), "timestamps": times, "sentences": sentences}

    return {video: entry(video, events) for video, events in told.events.items() if events}
