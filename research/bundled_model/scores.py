"""What the bundled model is worth: single clips, timelines of real video files, with the trivial baselines beside them.

Every table is {row: {metric: number}}, the model's row first. Sentences are scored in percent, spans as fractions.
`bundled_trials` asks it about whole videos and about videos in which nothing happens.
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

Told = dict[str, list[Event]]
Table = dict[str, dict[str, float]]
References = Sequence[Mapping[str, Any]]
ALLOWED = 10  # proposals of a video that average recall looks at
MOST_DENSE = 100
GRID_FROM = 500  # training timelines whose layouts the prior grid is fitted on


@dataclass(frozen=True)
class Subject:
    """A model that is asked: everything it proposes, its summary, or so many events."""

    loaded: LoadedModel
    captioner: Captioner

    @classmethod
    def of(cls, folder: Path, device: str | None = None) -> Subject:
        """The model of a folder."""
        loaded = load_model(folder)
        return cls(loaded, Captioner(loaded, device=device or "cpu"))

    def dense(self, tracks: Mapping[str, FeatureTrack]) -> Told:
        """All that it proposes, best first."""
        return self._told(LongVideoCaptioner(self.captioner), tracks)

    def summary(self, tracks: Mapping[str, FeatureTrack]) -> Told:
        """What a person gets to read."""
        config, table = self.loaded.config, self.loaded.calibration
        rules = SummaryRules.of(config.inference, config.model.window)
        calibration = None if table is None else Calibration.of_table(table)
        return self._told(LongVideoCaptioner(self.captioner, summary=rules, calibration=calibration), tracks)

    def clips(self, source: FeatureSource, spans: Mapping[str, tuple[float, float]]) -> Told:
        """A sentence for one given span of each video."""
        pairs = ((source.track(video), [span]) for video, span in spans.items())
        return dict(zip(spans, self.captioner.caption_segments_many(pairs), strict=True))

    @staticmethod
    def _told(teller: LongVideoCaptioner, tracks: Mapping[str, FeatureTrack]) -> Told:
        return dict(zip(tracks, teller.tell(tracks.values()), strict=True))


@dataclass(frozen=True)
class ModelUnderTest:
    """What baselines know of the training clips: their sentences, and where events of timelines lie."""

    neighbour: NearestNeighbour
    frequent: str
    grid: PriorGrid

    @classmethod
    def from_clips(cls, collection: ClipCollection, split: str) -> ModelUnderTest:
        """Of the very split that the model learns from."""
        source = ClipFeatures(collection, split)
        told, generator = source.annotations(), TimelineGenerator(collection, split)
        layouts = training_fractions_of(generator.plan(index) for index in range(GRID_FROM))
        return cls(NearestNeighbour.fit(told, source), most_frequent_sentence(told.sentences()), PriorGrid.fit(layouts))


def clip_scores(subject: Subject, learnt: ModelUnderTest, collection: ClipCollection, split: str) -> Table:
    """METEOR and CIDEr of one sentence a clip, against every sentence that people wrote of it."""
    source = ClipFeatures(collection, split)
    spans = {clip.name: (0.0, source.extent(clip.name).duration or clip.seconds) for clip in collection.split(split)}
    spans = {video: span for video, span in spans.items() if video in _said(collection)}
    references = clip_references(collection, spans)
    whole = {video: [Event(*span, learnt.frequent)] for video, span in spans.items()}
    rows = {
        "model": subject.clips(source, spans),
        "model, shuffled features": subject.clips(ShuffledFeatures(source), spans),
        "nearest training clip": described(whole, source, learnt.neighbour),
        "most frequent sentence": whole,
    }
    return {name: segment_scores(told, references) for name, told in rows.items()}


def timeline_scores(subject: Subject, learnt: ModelUnderTest, folder: Path) -> tuple[Table, dict[str, Any]]:
    """Events and sentences of a set of timelines that `densevid timelines` wrote; and what the set is."""
    references = [read_json(path) for path in sorted(folder.glob("references_*.json"))]
    if not references:
        raise InputError(f"{folder}: has no references_1.json; `densevid timelines` writes such a set")
    source = open_features(folder / "features")
    tracks = {video: source.track(video) for video in references[0] if video in source}
    truth = {video: np.array(references[0][video]["timestamps"], dtype=np.float64) for video in tracks}
    usual = max(1, round(sum(map(len, truth.values())) / len(truth)))
    shuffled = ShuffledFeatures(source)
    others = {video: shuffled.track(video) for video in tracks}
    asked = {"model": tracks, "model, shuffled features": others}
    lists = {name: (told, _short_lists(told, usual)) for name, seen in asked.items() if (told := subject.dense(seen))}
    durations = {video: float(references[0][video]["duration"]) for video in tracks}
    for name, spans in span_baselines(durations, source, learnt.grid, MOST_DENSE).items():
        told = described(spans, source, learnt.neighbour)
        lists[name.replace("_", " ")] = told, _short_lists(told, usual)
    table = {name: _timeline_row(dense, short, truth, references, usual) for name, (dense, short) in lists.items()}
    summary = subject.summary(tracks)
    table["model, summary"] = _timeline_row(lists["model"][0], summary, truth, references, MOST_DENSE)
    events = sum(map(len, summary.values())) / len(tracks)
    return table, {"videos": len(tracks), "short list": usual, "events in a summary": round(events, 2)}


def _short_lists(told: Told, count: int) -> Told:
    return {video: top_n(events, count) for video, events in told.items()}


def _timeline_row(
    dense: Told, short: Told, truth: Mapping[str, Any], references: References, allowed: int
) -> dict[str, float]:
    events = list(truth.values())
    spans = [_spans(dense[video]) for video in truth]
    listed = [_spans(short.get(video, [])) for video in truth]
    of_dense = evaluate(_submission(dense), references, metrics=("captioning",))
    of_short = evaluate(_submission(short), references, metrics=("captioning", "soda"))
    assert of_dense.captioning and of_short.captioning and of_short.soda
    return {
        f"AR@{ALLOWED}": average_recall(spans, events, ALLOWED),
        "F1": top_n_f1(listed, events, allowed) if any(len(each.spans_N2) for each in listed) else 0.0,
        "SODA_c": 100 * of_short.soda.scores["c"]["multi"].means()["f1"],
        "METEOR 2018": 100 * of_dense.captioning.average()["METEOR"],
        "METEOR 2018 of the short list": 100 * of_short.captioning.average()["METEOR"],
    }


def segment_scores(told: Told, references: References) -> dict[str, float]:
    """One sentence for each given span against all that was said of it, in percent."""
    result = evaluate(_submission(told), references, metrics=("segments",))
    assert result.segments is not None
    micro = result.segments.micro()
    return {name: 100 * float(micro[name] or 0.0) for name in ("METEOR", "CIDEr", "Bleu_4", "ROUGE_L") if name in micro}


def _said(collection: ClipCollection) -> dict[str, list[str]]:
    """All that people wrote of each clip, word for word and as often as it was written."""
    content = read_json(collection.folder / "clips.json")
    return {video: [" ".join(text.split()) for text in entry["captions"]] for video, entry in content.items()}


def clip_references(collection: ClipCollection, spans: Mapping[str, tuple[float, float]]) -> list[dict[str, Any]]:
    """A reference file for each annotator."""
    said = {video: sentences for video, sentences in _said(collection).items() if video in spans}
    return [
        {
            video: {"duration": spans[video][1], "timestamps": [list(spans[video])], "sentences": [sentences[number]]}
            for video, sentences in said.items()
            if number < len(sentences)
        }
        for number in range(max(map(len, said.values())))
    ]


def _submission(told: Told) -> dict[str, Any]:
    rows = {video: [event.as_row() for event in events] for video, events in told.items()}
    return {"version": "VERSION 1.0", "results": rows, "external_data": {}}


def _spans(events: Iterable[Event]) -> ScoredSpans:
    ranked = sorted(events, key=lambda event: -event.score)
    spans_N2 = np.array([[event.start, event.end] for event in ranked], dtype=np.float64).reshape(-1, 2)
    return ScoredSpans(spans_N2, np.array([event.score for event in ranked]))
