"""The confidence of the bundled model's sentences, fitted on folds of the training clips.

A model of each fold was trained on the other clips, so what it says about its own is said about videos it has never
seen. Two kinds of events: those that the model finds itself, in timelines composed of the fold's clips and in the clips
one by one; and whole clips as given events, also for models whose proposals were not trained. The events of all folds
together fit one confidence (`densevid.inference.fitting.sentence_confidence`). How far labels can be trusted is fitted
on all other clips and pictures, as the classifiers learned from none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from densevid.checkpoint import LoadedModel, load_model
from densevid.errors import InputError
from densevid.evaluation.metrics.content_words import AnnotatorWords
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration
from densevid.inference.fitting.held_out_sentences import AnnotatedEvents, HeldOutSentence, held_out_sentences
from densevid.inference.fitting.label_trust import LabelOutcome, fit_label_trust
from densevid.inference.fitting.sentence_confidence import fit_sentence_confidence
from densevid.inference.sentence_evidence import NamedLabel
from densevid.timelines.captions import CaptionFolder, CaptionMixture, read_captions
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.plan import TimelineEvent, TimelinePlan
from densevid.timelines.sentences import content_words
from densevid.timelines.sources import ClipFeatures
from densevid.timelines.taught_labels import used_words
from densevid.tracks import FeatureTrack
from densevid.training.tag_gate import predicted_labels
from densevid.video.labels import action_phrases, class_names, class_texts
from research.bundled_model.sentence_scores import held_out_pictures

TIMELINES, SEED = 100, 3  # of each fold whose events are found
PICTURES = 150  # of each further collection


def fold_of(text: str) -> tuple[int, Path]:
    """Read `FOLD=MODEL`.

    Raises:
        InputError: It is something else.
    """
    fold, separator, path = text.partition("=")
    if not (separator and path and fold.isdecimal()):
        raise InputError(f"{text}: expected FOLD=MODEL, such as 0=RUNS0/model")
    return int(fold), Path(path)


def fitted_sentence_confidence(
    found: Sequence[tuple[int, Path]],
    given: Sequence[tuple[int, Path]],
    data: Path,
    captions: Sequence[CaptionFolder] = (),
) -> dict[str, Any]:
    """Fit the confidence to the events of all folds, and to pictures of the further collections.

    Clips of web video alone would teach that somebody nearly always talks.

    Args:
        found: Folds with calibrated models, which find their own events.
        given: Folds with models that caption whole clips.
        data: The training clips with their features.
        captions: Further collections: pictures of their val splits are events, and their training splits count for
            the trust in labels.

    Returns:
        The content of `sentence_confidence.toml`.
    """
    collection = ClipCollection.read(data, features=data / "features")
    events: list[HeldOutSentence] = []
    models: list[LoadedModel] = []
    for kind, folds in ((found_events, found), (given_events, given)):
        for fold, path in folds:
            models.append(replace(load_model(path), sentence_confidence=None))
            own = kind(models[-1], collection, f"train-fold{fold}")
            print(f"{path}: {len(own)} held-out events of train-fold{fold}", flush=True)
            events += own
    if models:
        events += [event for folder in captions for event in picture_events(models[0], folder.path)]
    words = {word for model in models for word in model.vocabulary.tokens}
    held_out = {clip.source for fold, _ in (*found, *given) for clip in collection.split(f"train-fold{fold}")}
    outcomes = label_outcomes(models[0], collection, held_out, captions) if models else []
    trust = fit_label_trust(outcomes)
    if outcomes:
        print(f"trust in labels: fitted on {len(outcomes):,} labels of other clips", flush=True)
    return fit_sentence_confidence(events, sorted(words), trust=trust).as_table()


def label_outcomes(
    model: LoadedModel, collection: ClipCollection, held_out: Collection[str], captions: Sequence[CaptionFolder]
) -> list[LabelOutcome]:
    """What becomes of the labels of training clips and of further collections, without these sources.

    Args:
        model: A model with tags; another one has no labels.
        collection: The training clips.
        held_out: Sources that are left out.
        captions: Further collections.
    """
    tagger = model.model.tagger
    if tagger is None:
        return []
    phrases, classes = action_phrases(), []
    for stream in model.config.features.streams:
        for name, text in zip(class_names(stream), class_texts(stream), strict=True):
            classes.append((name, phrases[name] if stream == "actions" else None, content_words(text)))
    clips = [clip for clip in collection.split("train") if clip.captions and clip.source not in held_out]
    footage = TimelineGenerator(collection, "train").footage
    mixture = CaptionMixture(clips, footage, read_captions(captions, model.config.features, held_out))
    outcomes = []
    for some, labels in predicted_labels(tagger, mixture):
        used = [used_words(clip.captions) for clip in some]
        for row, column in zip(*np.nonzero(labels.valid_PN.numpy()), strict=True):
            name, phrase, words = classes[int(labels.label_PN[row, column])]
            if words:
                label = NamedLabel(name, phrase, float(labels.value_PN[row, column]))
                outcomes.append(LabelOutcome(label, len(words & used[row]) / len(words)))
    return outcomes


def found_events(model: LoadedModel, collection: ClipCollection, split: str) -> list[HeldOutSentence]:
    """The events that a model finds in timelines and in single clips, chosen as `densevid caption` does."""
    if model.calibration is None:
        raise InputError("a model that finds its own events needs a fitted confidence; pack it first")
    tracks, truth = _annotated_clips(collection, split)
    generator = TimelineGenerator(collection, split, seed=SEED)
    for index in range(TIMELINES):
        timeline = generator.video(index)
        planned = timeline.plan.events
        spans = tuple(timeline.plan.span(event) for event in planned)
        annotators = tuple(AnnotatorWords(event.sentences) for event in planned)
        tracks[timeline.video] = timeline.track
        sources = tuple(source_of_event(timeline.plan, event) for event in planned)
        truth[timeline.video] = AnnotatedEvents(spans, annotators, timeline.video, sources)
    return held_out_sentences(Captioner(model), tracks, truth, calibration=Calibration.of_table(model.calibration))


def source_of_event(plan: TimelinePlan, event: TimelineEvent) -> str:
    """The source of the clip that is shown in the middle of an event."""
    ends_N = np.cumsum([shot.ticks for shot in plan.shots])
    return plan.shots[int(np.searchsorted(ends_N, (event.start + event.end) // 2, side="right"))].clip.source


def given_events(model: LoadedModel, collection: ClipCollection, split: str) -> list[HeldOutSentence]:
    """Every clip as one given event."""
    tracks, truth = _annotated_clips(collection, split)
    pairs = ((track, list(truth[name].spans)) for name, track in tracks.items())
    captioned = Captioner(model).captioned_segments(pairs, evidence=True)
    return [
        HeldOutSentence(spans.evidence[0], truth[name].source, truth[name].annotators[0])
        for name, spans in zip(tracks, captioned, strict=True)
    ]


def picture_events(model: LoadedModel, folder: Path) -> list[HeldOutSentence]:
    """Held-out pictures of a collection, each as a given event, captioned as videos are."""
    clips, inputs = held_out_pictures(model, folder, PICTURES)
    spans = ([(0.0, float(clip.rows))] for clip in clips)
    captioned = Captioner(model).captioned_segments(zip(inputs, spans, strict=True), evidence=True)
    return [
        HeldOutSentence(given.evidence[0], f"{folder.name} {clip.source}", AnnotatorWords(clip.captions))
        for clip, given in zip(clips, captioned, strict=True)
    ]


def _annotated_clips(
    collection: ClipCollection, split: str
) -> tuple[dict[str, FeatureTrack], dict[str, AnnotatedEvents]]:
    source = ClipFeatures(collection, split)
    tracks: dict[str, FeatureTrack] = {}
    truth: dict[str, AnnotatedEvents] = {}
    for clip in collection.split(split):
        if clip.captions:
            tracks[clip.name] = source.track(clip.name)
            span = (0.0, source.extent(clip.name).duration or clip.seconds)
            truth[clip.name] = AnnotatedEvents((span,), (AnnotatorWords(clip.captions),), clip.source)
    return tracks, truth


def sentence_figures(table: Mapping[str, Any]) -> str:
    """The figures of a fit on one line."""
    fitted = table["fitted"]
    low, high = fitted["calibration_error_interval"]
    return (
        f"{fitted['events']} events: {fitted['coverage']:.1%} shown, support {fitted['support']:.1%}"
        f" (at half coverage {fitted['support_at_50']:.1%}, at 90% {fitted['support_at_90']:.1%}), shortened"
        f" {fitted['shortened']:.1%}, calibration error {fitted['calibration_error']:.3f} ({low:.3f} to {high:.3f})"
    )
