"""Sentences without a model: the most frequent training sentence, and that of the nearest training event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from densevid.data.annotations import Annotations
from densevid.data.sources import FeatureSource
from densevid.errors import InputError
from densevid.events import Event
from densevid.tracks import FeatureTrack, FloatArray


def most_frequent_sentence(sentences: Sequence[str]) -> str:
    """The most frequent sentence, letter case and white space aside; the first of equals."""
    counts = Counter(_plain(sentence) for sentence in sentences)
    if not counts:
        raise InputError("there are no training sentences")
    winner = max(counts, key=lambda text: counts[text])
    return next(sentence for sentence in sentences if _plain(sentence) == winner)


@dataclass(frozen=True, eq=False)
class NearestNeighbour:
    """Training events as mean features; an event gets the sentence of the one with the nearest direction."""

    mean_F: FloatArray
    directions_EF: FloatArray
    sentences: tuple[str, ...]

    @classmethod
    def fit(cls, annotations: Annotations, source: FeatureSource) -> NearestNeighbour:
        """Keep every different segment of the videos that have features, with its first sentence."""
        pooled: list[FloatArray] = []
        sentences: list[str] = []
        for video, events in annotations.events.items():
            if video in source and events:
                first = {(event.start, event.end): event.sentence for event in reversed(events)}
                pooled.append(mean_features(source.track(video), list(first)))
                sentences += first.values()
        if not pooled:
            raise InputError("no training video has features; nearest neighbours need some")
        vectors_EF = np.concatenate(pooled)
        mean_F = vectors_EF.mean(axis=0)
        return cls(mean_F, _directions(vectors_EF - mean_F), tuple(sentences))

    def describe(self, track: FeatureTrack, spans: Sequence[tuple[float, float]]) -> list[str]:
        """A sentence for every span of a track."""
        if not len(spans):
            return []
        directions_EF = _directions(mean_features(track, spans) - self.mean_F)
        return [self.sentences[index] for index in (directions_EF @ self.directions_EF.T).argmax(axis=1)]


def described(
    spans: Mapping[str, Sequence[Event]], source: FeatureSource, neighbour: NearestNeighbour
) -> dict[str, list[Event]]:
    """Give each event the sentence of its nearest neighbour."""
    captioned = {}
    for video, events in spans.items():
        sentences = neighbour.describe(source.track(video), [(event.start, event.end) for event in events])
        captioned[video] = [
            Event(event.start, event.end, sentence, event.score)
            for event, sentence in zip(events, sentences, strict=True)
        ]
    return captioned


def mean_features(track: FeatureTrack, spans: Sequence[tuple[float, float]]) -> FloatArray:
    """The mean over the steps that each span covers, at least one."""
    total_TF = np.concatenate([np.zeros((1, track.values.shape[1])), np.cumsum(track.values, axis=0, dtype=np.float64)])
    steps_E2 = track.clock.steps(np.asarray(spans, dtype=np.float64))
    first_E = np.clip(np.floor(steps_E2[:, 0]).astype(np.int64), 0, len(track) - 1)
    end_E = np.clip(np.ceil(steps_E2[:, 1]).astype(np.int64), first_E + 1, len(track))
    return np.asarray((total_TF[end_E] - total_TF[first_E]) / (end_E - first_E)[:, None])


def _directions(vectors_EF: FloatArray) -> FloatArray:
    length_E1 = np.linalg.norm(vectors_EF, axis=1, keepdims=True)
    return np.asarray(vectors_EF / np.maximum(length_E1, np.finfo(np.float64).tiny))


def _plain(sentence: str) -> str:
    return " ".join(sentence.lower().strip(" .").split())
