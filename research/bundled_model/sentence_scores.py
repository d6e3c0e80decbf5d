"""How good the sentences of the bundled model are on single clips: beside other models and baselines, and support.

`clip_rows` gives one sentence for each clip by everything that can write one; `clip_tables` scores all of them by the
same functions, with the paired difference to the plain captioner. Support counts the full sentences and those that are
shown apart (`densevid.evaluation.protocols.support`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from densevid.checkpoint import LoadedModel
from densevid.data.sources import FeatureSource
from densevid.errors import InputError
from densevid.evaluation.compare import compare
from densevid.evaluation.evaluate import evaluate
from densevid.evaluation.result import Evaluation
from densevid.events import Event
from densevid.inference.batches import CaptionedSpans, ModelInput
from densevid.inference.captioner import Captioner
from densevid.inference.sentence_confidence import SentenceConfidence
from densevid.timelines.captions import CaptionCollection, CaptionFolder
from densevid.timelines.clips import Clip, ClipCollection
from densevid.timelines.sources import ClipFeatures
from densevid.tracks import Clock, FeatureTrack
from densevid.video.labels import top_labels
from research.baselines.captions import described
from research.baselines.shuffled_features import ShuffledFeatures
from research.bundled_model.scores import FittedBaselines, Predictions, clip_references, submission

Spans = Mapping[str, tuple[float, float]]
METRICS = ("METEOR", "CIDEr", "Bleu_4", "ROUGE_L")
PLAIN = "plain captioner"
SHOWN = "model, as shown"


@dataclass(frozen=True)
class OtherModel:
    """A model to compare with, and the features of the clips that it reads."""

    model: LoadedModel
    source: FeatureSource


def clip_scores(
    model: LoadedModel,
    baselines: FittedBaselines,
    collection: ClipCollection,
    split: str,
    others: Mapping[str, OtherModel],
) -> dict[str, Any]:
    """Score one sentence for each clip against all sentences of its annotators.

    Args:
        model: The model.
        baselines: The baselines, fitted on the model's training clips.
        collection: The clips.
        split: Which of them to score.
        others: Other models by name.
    """
    source = ClipFeatures(collection, split)
    clips = [clip for clip in collection.split(split) if clip.captions]
    spans = {clip.name: (0.0, source.extent(clip.name).duration or clip.seconds) for clip in clips}
    return clip_tables(clip_rows(model, source, spans, baselines, others), collection, spans)


def clip_source(clips: Path, features: Path, split: str) -> ClipFeatures:
    """Features of the clips of a split."""
    return ClipFeatures(ClipCollection.read(clips, features=features), split)


def clip_rows(
    model: LoadedModel,
    source: FeatureSource,
    spans: Spans,
    baselines: FittedBaselines,
    others: Mapping[str, OtherModel],
) -> dict[str, Predictions]:
    """One sentence for each clip, by row of the table.

    Args:
        model: The model; its captions are the first row, what is shown of them the second.
        source: The features of the clips.
        spans: Start and end of each clip.
        baselines: Fitted on the model's training clips.
        others: Other models by name.
    """
    captioned = dict(zip(spans, _captioned(model, source, spans, evidence=True), strict=True))
    rows = {"model": {video: each.events for video, each in captioned.items()}}
    if model.sentence_confidence is not None:
        confidence = SentenceConfidence.of_table(model.sentence_confidence)
        rows[SHOWN] = {
            video: [confidence.shown(each.evidence[0]).put_on(each.events[0])] for video, each in captioned.items()
        }
    without = WithoutStreams(source, source.streams[0][0])
    whole = {video: [Event(*span, baselines.frequent)] for video, span in spans.items()}
    return rows | {
        "model, without actions": _sentences(model, without, spans),
        **{name: _sentences(other.model, other.source, spans) for name, other in others.items()},
        **({"someone is LABEL": label_sentences(source, spans)} if "actions" in dict(source.streams) else {}),
        "model, shuffled features": _sentences(model, ShuffledFeatures(source), spans),
        "nearest training clip": described(whole, source, baselines.neighbour),
        "most frequent sentence": whole,
    }


def clip_tables(rows: Mapping[str, Predictions], collection: ClipCollection, spans: Spans) -> dict[str, Any]:
    """Scores and support of every row, and the paired difference between the model and the plain captioner."""
    references = clip_references(collection, spans)
    full = {
        name: evaluate(submission(_in_full(events)), references, metrics=("segments", "support"))
        for name, events in rows.items()
        if name != SHOWN
    }
    shown = {name: evaluate(submission(events), references, metrics=("support",)) for name, events in rows.items()}
    tables: dict[str, Any] = {
        "scores": {name: _text_scores(result) | {"top 5": share_of_five(rows[name])} for name, result in full.items()},
        "support": {name: _support(result) for name, result in shown.items()},
    }
    if PLAIN in full:
        tables["beside the plain captioner"] = {
            row.name: {
                "difference": 100 * row.difference,
                "interval": [100 * end for end in row.difference_interval],
                "p": row.p_value,
            }
            for row in compare(full[PLAIN], full["model"])
            if row.name in ("segments micro METEOR", "segments micro CIDEr")
        }
    return tables


def share_of_five(predictions: Predictions) -> float:
    """How many clips, in percent, have one of the five most frequent full sentences: what is said out of habit."""
    said = Counter(event.full_sentence or event.sentence for events in predictions.values() for event in events)
    return 100 * sum(count for _, count in said.most_common(5)) / max(1, said.total())


def label_sentences(source: FeatureSource, spans: Spans) -> Predictions:
    """The sentence "someone is LABEL" with the best action of each clip; its probability ranks it."""
    found: Predictions = {}
    for video, span in spans.items():
        best = top_labels(source.track(video), "actions", count=1)[0]
        sentence = f"someone is {best.phrase}"
        found[video] = [Event(*span, sentence, sentence_score=best.probability)]
    return found


def picture_scores(model: LoadedModel, folder: Path, count: int, split: str = "val") -> dict[str, float]:
    """The model on captioned pictures, in the style of their collection.

    Args:
        model: The model, which has learned the style.
        folder: The collection; its name is the style.
        count: The first so many pictures of the split.
        split: Of the collection.
    """
    clips, inputs = held_out_pictures(model, folder, count, split)
    spans = {clip.name: (0.0, float(clip.rows)) for clip in clips}
    pairs = zip(inputs, ([span] for span in spans.values()), strict=True)
    styled = Captioner(with_style(model, folder.name))
    said = dict(zip(spans, styled.caption_segments_many(pairs), strict=True))
    most = max(len(clip.captions) for clip in clips)
    references = [
        {
            clip.name: {"duration": spans[clip.name][1], "timestamps": [list(spans[clip.name])], "sentences": [text]}
            for clip in clips
            for text in clip.captions[number : number + 1]
        }
        for number in range(most)
    ]
    return {"pictures": len(clips), **_text_scores(evaluate(submission(said), references, metrics=("segments",)))}


def held_out_pictures(
    model: LoadedModel, folder: Path, count: int, split: str = "val"
) -> tuple[Sequence[Clip], list[ModelInput]]:
    """Captioned pictures that a model has not learned from, and their features, a step each.

    Args:
        model: The model.
        folder: The collection.
        count: At most so many, the first of the split.
        split: Of the collection.
    """
    held_out = CaptionCollection.read(CaptionFolder(folder), model.config.features, split=split)
    clips, features_RF = held_out.clips[:count], held_out.features_RF
    rows = (features_RF[clip.first_row : clip.first_row + clip.rows] for clip in clips)
    return clips, [ModelInput(np.ascontiguousarray(own, np.float16), Clock.uniform(1.0)) for own in rows]


def with_style(model: LoadedModel, style: str) -> LoadedModel:
    """A copy of a model that writes like a collection: its sentences begin with the collection's token.

    Raises:
        InputError: The model has not learned that style.
    """
    styles = model.vocabulary.styles
    if style not in styles:
        raise InputError(f"the model has not learned the style {style!r}; it knows {', '.join(styles) or 'none'}")
    copied = replace(model, model=deepcopy(model.model))
    words_VD = copied.model.caption_decoder.words.weight
    with torch.no_grad():
        words_VD[model.vocabulary.encode("", 1)[0]] = words_VD[styles[style]]
    return copied


class WithoutStreams:
    """A FeatureSource whose tracks have only the first stream; the others are absent."""

    def __init__(self, source: FeatureSource, kept: str) -> None:
        self.source, self.kept = source, kept
        self.streams, self.recipe = source.streams, source.recipe

    def __contains__(self, video: object) -> bool:
        return video in self.source

    def videos(self) -> list[str]:
        """All ids."""
        return self.source.videos()

    def track(self, video: str) -> FeatureTrack:
        """A track with zeros in the streams that are left out."""
        track = self.source.track(video)
        values, first = np.array(track.values), 0
        for name, width in track.streams:
            if name != self.kept:
                values[:, first : first + width] = 0
            first += width
        return replace(track, values=values)


def _captioned(model: LoadedModel, source: Any, spans: Spans, *, evidence: bool = False) -> Iterable[CaptionedSpans]:
    pairs = ((source.track(video), [span]) for video, span in spans.items())
    return Captioner(model).captioned_segments(pairs, evidence=evidence)


def _sentences(model: LoadedModel, source: Any, spans: Spans) -> Predictions:
    return {video: each.events for video, each in zip(spans, _captioned(model, source, spans), strict=True)}


def _in_full(events: Predictions) -> Predictions:
    return {
        video: [replace(event, sentence=event.full_sentence or event.sentence) for event in own]
        for video, own in events.items()
    }


def _text_scores(result: Evaluation) -> dict[str, float]:
    assert result.segments is not None
    micro = result.segments.micro()
    return {name: 100 * float(micro[name] or 0.0) for name in METRICS if name in micro}


def _support(result: Evaluation) -> dict[str, Any]:
    assert result.support is not None
    found = result.support.to_dict()
    return {name: found[name] for name in ("shown", "full", "shortened")}
