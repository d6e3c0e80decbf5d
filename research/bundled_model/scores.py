"""Scores of the bundled model and of the trivial baselines: on single clips, and on timelines that are real video
files.

Every table is {row: {metric: number}}, the model's row first. Sentences are scored in percent, spans as fractions.
`trials` runs the model on whole videos and on no-event videos.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from densevid.checkpoint import LoadedModel, load_model
from densevid.data.layouts import open_features
from densevid.data.sources import FeatureSource
from densevid.errors import InputError
from densevid.evaluation.evaluate import evaluate
from densevid.events import Event
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.summary import SummaryRules
from densevid.io import read_json
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.sources import ClipFeatures
from densevid.tracks import FeatureTrack
from research.baselines.captions import NearestNeighbour, described, most_frequent_sentence
from research.baselines.event_files import span_baselines, training_fractions_of
from research.baselines.shuffled_features import ShuffledFeatures
from research.baselines.spans import PriorGrid, ScoredSpans, average_recall, top_n, top_n_f1

Predictions = dict[str, list[Event]]
Table = dict[str, dict[str, float]]
References = Sequence[Mapping[str, Any]]
ALLOWED = 10  # proposals of a video that average recall counts
MOST_DENSE = 100
GRID_FROM = 500  # training timelines whose layouts the prior grid is fitted on


@dataclass(frozen=True)
class ModelUnderTest:
    """The model and its kinds of predictions: all proposals, the summary, sentences of given spans."""

    loaded: LoadedModel
    captioner: Captioner

    @classmethod
    def of(cls, folder: Path, device: str | None = None) -> ModelUnderTest:
        """The model of a folder."""
        loaded = load_model(folder)
        return cls(loaded, Captioner(loaded, device=device or "cpu"))

    def dense(self, tracks: Mapping[str, FeatureTrack]) -> Predictions:
        """All proposals, best first."""
        return self._predict(LongVideoCaptioner(self.captioner), tracks)

    def summary(self, tracks: Mapping[str, FeatureTrack]) -> Predictions:
        """The default summary."""
        config, table = self.loaded.config, self.loaded.calibration
        rules = SummaryRules.of(config.inference, config.model.window)
        calibration = None if table is None else Calibration.of_table(table)
        return self._predict(LongVideoCaptioner(self.captioner, summary=rules, calibration=calibration), tracks)

    def clips(self, source: FeatureSource, spans: Mapping[str, tuple[float, float]]) -> Predictions:
        """A sentence for one given span of each video."""
        pairs = ((source.track(video), [span]) for video, span in spans.items())
        return dict(zip(spans, self.captioner.caption_segments_many(pairs), strict=True))

    @staticmethod
    def _predict(captioner: LongVideoCaptioner, tracks: Mapping[str, FeatureTrack]) -> Predictions:
        return dict(zip(tracks, captioner.caption_many(tracks.values()), strict=True))


@dataclass(frozen=True)
class FittedBaselines:
    """What the baselines use of the training clips: their sentences, and where the events of timelines lie."""

    neighbour: NearestNeighbour
    frequent: str
    grid: PriorGrid

    @classmethod
    def from_clips(cls, collection: ClipCollection, split: str) -> FittedBaselines:
        """Fit them to the split that the model is trained on."""
        source = ClipFeatures(collection, split)
        annotations, generator = source.annotations(), TimelineGenerator(collection, split)
        layouts = training_fractions_of(generator.plan(index) for index in range(GRID_FROM))
        frequent = most_frequent_sentence(annotations.sentences())
        return cls(NearestNeighbour.fit(annotations, source), frequent, PriorGrid.fit(layouts))


def timeline_scores(model: ModelUnderTest, baselines: FittedBaselines, folder: Path) -> tuple[Table, dict[str, Any]]:
    """Score events and sentences on a set of timelines.

    Args:
        model: The model.
        baselines: The baselines, fitted on the model's training clips.
        folder: What `densevid timelines` wrote.

    Returns:
        The table, and the size of the set and of the lists.
    """
    references = [read_json(path) for path in sorted(folder.glob("references_*.json"))]
    if not references:
        raise InputError(f"{folder}: has no references_1.json; `densevid timelines` writes such a set")
    source = open_features(folder / "features")
    tracks = {video: source.track(video) for video in references[0] if video in source}
    truth = {video: np.array(references[0][video]["timestamps"], dtype=np.float64) for video in tracks}
    count = max(1, round(sum(map(len, truth.values())) / len(truth)))
    shuffled = ShuffledFeatures(source)
    others = {video: shuffled.track(video) for video in tracks}
    inputs = {"model": tracks, "model, shuffled features": others}
    lists = {name: (dense, _top_n(dense, count)) for name, seen in inputs.items() if (dense := model.dense(seen))}
    durations = {video: float(references[0][video]["duration"]) for video in tracks}
    for name, spans in span_baselines(durations, source, baselines.grid, MOST_DENSE).items():
        dense = described(spans, source, baselines.neighbour)
        lists[name.replace("_", " ")] = dense, _top_n(dense, count)
    table = {name: _timeline_row(dense, top, truth, references, count) for name, (dense, top) in lists.items()}
    summary = model.summary(tracks)
    table["model, summary"] = _timeline_row(lists["model"][0], summary, truth, references, MOST_DENSE)
    events = sum(map(len, summary.values())) / len(tracks)
    return table, {"videos": len(tracks), "top n": count, "events in a summary": round(events, 2)}


def _top_n(dense: Predictions, count: int) -> Predictions:
    return {video: top_n(events, count) for video, events in dense.items()}


def _timeline_row(
    dense: Predictions, top: Predictions, truth: Mapping[str, Any], references: References, allowed: int
) -> dict[str, float]:
    events = list(truth.values())
    spans = [_spans(dense[video]) for video in truth]
    listed = [_spans(top.get(video, [])) for video in truth]
    of_dense = evaluate(submission(dense), references, metrics=("captioning",))
    of_top = evaluate(submission(top), references, metrics=("captioning", "soda"))
    assert of_dense.captioning and of_top.captioning and of_top.soda
    return {
        f"AR@{ALLOWED}": average_recall(spans, events, ALLOWED),
        "F1": top_n_f1(listed, events, allowed) if any(len(each.spans_N2) for each in listed) else 0.0,
        "SODA_c": 100 * of_top.soda.tables["c"]["multi"].means()["f1"],
        "METEOR 2018": 100 * of_dense.captioning.average()["METEOR"],
        "METEOR 2018 of the top n": 100 * of_top.captioning.average()["METEOR"],
    }


def segment_scores(predictions: Predictions, references: References) -> dict[str, float]:
    """Score one sentence for each given span against all of its references, in percent."""
    result = evaluate(submission(predictions), references, metrics=("segments",))
    assert result.segments is not None
    micro = result.segments.micro()
    return {name: 100 * float(micro[name] or 0.0) for name in ("METEOR", "CIDEr", "Bleu_4", "ROUGE_L") if name in micro}


def _sentences(collection: ClipCollection) -> dict[str, list[str]]:
    """All sentences of each clip as they were written, repetitions included."""
    content = read_json(collection.folder / "clips.json")
    return {video: [" ".join(text.split()) for text in entry["captions"]] for video, entry in content.items()}


def clip_references(collection: ClipCollection, spans: Mapping[str, tuple[float, float]]) -> list[dict[str, Any]]:
    """A reference file for each annotator."""
    written = {video: sentences for video, sentences in _sentences(collection).items() if video in spans}
    return [
        {
            video: {"duration": spans[video][1], "timestamps": [list(spans[video])], "sentences": [sentences[number]]}
            for video, sentences in written.items()
            if number < len(sentences)
        }
        for number in range(max(map(len, written.values())))
    ]


def submission(predictions: Mapping[str, Iterable[Event]]) -> dict[str, Any]:
    """Predictions in the form that `evaluate` takes."""
    rows = {video: [event.as_row() for event in events] for video, events in predictions.items()}
    return {"version": "VERSION 1.0", "results": rows, "external_data": {}}


def _spans(events: Iterable[Event]) -> ScoredSpans:
    ranked = sorted(events, key=lambda event: -event.score)
    spans_N2 = np.array([[event.start, event.end] for event in ranked], dtype=np.float64).reshape(-1, 2)
    return ScoredSpans(spans_N2, np.array([event.score for event in ranked]))
