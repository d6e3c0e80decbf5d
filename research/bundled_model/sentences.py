"""The confidence of the bundled model's sentences, fitted on folds of the training clips.

A model of each fold was trained on the other clips, so what it says about its own is said about videos it has never
seen. Two kinds of events: those that the model finds itself, in timelines composed of the fold's clips and in the clips
one by one; and whole clips as given events, for models whose proposals were not trained. The events of all folds
together fit one confidence (`densevid.inference.fitting.sentence_confidence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from densevid.checkpoint import LoadedModel, load_model
from densevid.errors import InputError
from densevid.evaluation.metrics.content_words import AnnotatorWords
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration
from densevid.inference.fitting.held_out_sentences import AnnotatedEvents, HeldOutSentence, held_out_sentences
from densevid.inference.fitting.sentence_confidence import fit_sentence_confidence
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.plan import TimelineEvent, TimelinePlan
from densevid.timelines.sources import ClipFeatures
from densevid.tracks import FeatureTrack

TIMELINES, SEED = 100, 3  # of each fold whose events are found


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
    found: Sequence[tuple[int, Path]], given: Sequence[tuple[int, Path]], data: Path
) -> dict[str, Any]:
    """Fit the confidence to the events of all folds.

    Args:
        found: Folds with calibrated models, which find their own events.
        given: Folds with models that caption whole clips.
        data: The training clips with their features.

    Returns:
        The content of `sentence_confidence.toml`.
    """
    collection = ClipCollection.read(data, features=data / "features")
    events: list[HeldOutSentence] = []
    words: set[str] = set()
    for kind, models in ((found_events, found), (given_events, given)):
        for fold, path in models:
            model = load_model(path)
            words |= set(model.vocabulary.tokens)
            own = kind(model, collection, f"train-fold{fold}")
            print(f"{path}: {len(own)} held-out events of train-fold{fold}", flush=True)
            events += own
    return fit_sentence_confidence(events, sorted(words)).as_table()


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
