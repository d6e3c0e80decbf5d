"""Fit a model's word prior to its training data: one ridge regression from features to words, in closed form.

Every event has the mean x of its features and, for every word, the share y of its sentences that contain it, times how
rare the word is. W is the ridge regression from x to y, with the ridge of generalised cross-validation (Golub, Heath
and Wahba, 1979); its `RANK` strongest directions are kept. Only sums over events are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from densevid.data.annotations import Annotations
from densevid.data.sources import FeatureSource
from densevid.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from densevid.errors import InputError
from densevid.events import Event
from densevid.model.priors import WordPrior
from densevid.tracks import FeatureTrack

RANK = 64
LEAST_EVENTS = 3  # whose sentences contain a word; what rarer ones depend on is chance
EVENTS_AT_ONCE = 1024
RIDGES = torch.logspace(-2, 3, 51, dtype=torch.float64)  # times the mean square of the features of an event
LONGEST = 1000  # words of a sentence that count


def fit_word_prior(source: FeatureSource, annotations: Annotations, vocabulary: Vocabulary) -> WordPrior:
    """Fit the word prior to all events of videos that have features.

    Args:
        source: The features.
        annotations: The events and their sentences.
        vocabulary: The model's words.

    Returns:
        The word prior.

    Raises:
        InputError: No event has features, all features are the same, or no word is frequent enough.
    """
    sums: _Sums | None = None
    videos = [video for video, events in annotations.events.items() if events and video in source]
    for x_NF, y_NV in _in_batches(source, annotations, vocabulary, videos):
        sums = sums or _Sums(x_NF.shape[1], y_NV.shape[1])
        sums.add(x_NF, y_NV)
    if sums is None:
        raise InputError("no video has both features and events; are the ids written the same way?")
    word_prior = sums.fitted()
    words = int((word_prior.rarity_V > 0).sum())
    return replace(word_prior, about={"fitted": {"videos": len(videos), "events": sums.count, "words": words}})


class _Sums:
    """Of x, y and their products over all events so far, in double precision."""

    def __init__(self, features: int, words: int) -> None:
        self.count = 0
        self.x_F, self.y_V, self.events_V = (
            torch.zeros(size, dtype=torch.float64) for size in (features, words, words)
        )
        self.xx_FF = torch.zeros(features, features, dtype=torch.float64)
        self.xy_FV = torch.zeros(features, words, dtype=torch.float64)
        self.yy_V = torch.zeros(words, dtype=torch.float64)

    def add(self, x_NF: Tensor, y_NV: Tensor) -> None:
        """More events."""
        self.count += len(x_NF)
        self.x_F += x_NF.sum(dim=0)
        self.y_V += y_NV.sum(dim=0)
        self.events_V += (y_NV > 0).sum(dim=0)
        self.xx_FF += x_NF.T @ x_NF
        self.xy_FV += x_NF.T @ y_NV
        self.yy_V += y_NV.square().sum(dim=0)

    def fitted(self) -> WordPrior:
        """Ridge regression from x to y, each less its mean, in few directions."""
        count, mean_F, mean_V = self.count, self.x_F / self.count, self.y_V / self.count
        known_V = self.events_V >= LEAST_EVENTS
        rarity_V = torch.where(known_V, (count / self.events_V.clamp(min=1)).log(), 0)
        if not bool((rarity_V > 0).any()):
            few = f"no word is in the sentences of {LEAST_EVENTS} or more of the {count:,} events, but not of all"
            raise InputError(f"{few}: a word prior cannot be fitted")
        xx_FF = self.xx_FF - count * mean_F[:, None] * mean_F
        xy_FV = (self.xy_FV - count * mean_F[:, None] * mean_V) * rarity_V
        yy = float(((self.yy_V - count * mean_V.square()) * rarity_V.square()).sum())

        square_F, basis_FF = torch.linalg.eigh(xx_FF)
        if not square_F[-1] > 1e-9 * float(self.xx_FF.trace()):
            raise InputError(f"the features of all {count:,} events are the same: a word prior cannot be fitted")
        square_F = square_F.clamp(min=0)
        along_FV = basis_FF.T @ xy_FV
        ridge = best_ridge(square_F, along_FV.square().sum(dim=1), yy, count)
        weight_FV = basis_FF @ (along_FV / (square_F + ridge)[:, None])

        left_FR = torch.linalg.eigh(weight_FV @ weight_FV.T).eigenvectors.flip(1)[:, :RANK]
        right_RV = left_FR.T @ weight_FV
        scale_R = right_RV.norm(dim=1).sqrt()
        words_RV = right_RV / scale_R.clamp(min=1e-30)[:, None]
        return WordPrior(mean_F.float(), (left_FR * scale_R).float(), words_RV.float(), rarity_V.float())


def best_ridge(square_F: Tensor, along_F: Tensor, yy: float, count: int) -> float:
    """The least |y - y'|^2 / (N - 1 - tr H)^2; `along_F` are the squares of x'y in the directions of `square_F`."""
    ridge_G = RIDGES * square_F.sum() / count
    there_F = square_F > 1e-9 * square_F.max()
    square_F, along_F = square_F[there_F], along_F[there_F]
    kept_GF = square_F / (square_F + ridge_G[:, None])
    error_G = yy - (along_F / square_F * kept_GF * (2 - kept_GF)).sum(dim=1)
    return float(ridge_G[(error_G / (count - 1 - kept_GF.sum(dim=1)).square()).argmin()])


def _in_batches(
    source: FeatureSource, annotations: Annotations, vocabulary: Vocabulary, videos: Sequence[str]
) -> Iterator[tuple[Tensor, Tensor]]:
    """x and y of events, many at a time; sentences about the same span of a video are about the same event."""
    x: list[Tensor] = []
    y: list[Tensor] = []
    for video in videos:
        track = source.track(video)
        if not np.isfinite(track.values).all():
            raise InputError(f"{video}: its features hold NaN or infinity")
        for span, sentences in _by_span(annotations.events[video]).items():
            x.append(_mean(track, span))
            y.append(_shares(sentences, vocabulary))
        if len(x) >= EVENTS_AT_ONCE:
            yield torch.stack(x), torch.stack(y)
            x, y = [], []
    if x:
        yield torch.stack(x), torch.stack(y)


def _by_span(events: Sequence[Event]) -> dict[tuple[float, float], list[str]]:
    by_span: dict[tuple[float, float], list[str]] = {}
    for event in events:
        by_span.setdefault((event.start, event.end), []).append(event.sentence)
    return by_span


def _mean(track: FeatureTrack, span: tuple[float, float]) -> Tensor:
    """Of the features of a span of seconds."""
    return torch.from_numpy(track.values[slice(*track.whole_steps(*span))].astype(np.float64).mean(axis=0))


def _shares(sentences: Sequence[str], vocabulary: Vocabulary) -> Tensor:
    """The share of the sentences that contain each word; 0 for special words."""
    share_V = torch.zeros(len(vocabulary), dtype=torch.float64)
    for sentence in sentences:
        share_V[sorted(set(vocabulary.encode(sentence, LONGEST)))] += 1 / len(sentences)
    share_V[: len(SPECIAL_TOKENS)] = 0
    return share_V
