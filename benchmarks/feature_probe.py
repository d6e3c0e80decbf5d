"""Linear probes of feature streams: the category of each clip, and the actions that its captions name.

This is `benchmarks.extract --probe`. A clip is the mean of its steps. A probe is ridge regression whose strength is
chosen on its training part alone. Folds consist of whole source videos, so that training and test clips never share
one. An action is a word in -ing that at least 15% of a clip's captions use, in at least 25 clips.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.io import read_json

FOLDS, REPEATS = 5, 4
STRENGTHS = np.logspace(-3, 2, 11)
SHARE_OF_CAPTIONS, FEWEST_CLIPS = 0.15, 25
Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


def print_probe(store_path: Path | str, clips_path: Path | str) -> None:
    """Print how well each stream, and all of them together, predict categories and actions."""
    store, clips = FeatureStore.open(store_path), read_json(clips_path)
    known = clips if isinstance(clips, dict) else {}
    videos = [video for video in store.videos() if {"category", "captions"} <= set(known.get(video, {}))]
    if len(videos) < 10 * FOLDS:
        raise InputError(f"{clips_path}: gives category and captions of only {len(videos)} videos of {store}")
    category = _as_numbers([str(clips[video]["category"]) for video in videos])
    source = _as_numbers([str(clips[video].get("source", video)) for video in videos])
    actions, shown = _actions([clips[video] for video in videos])
    streams = {name: _pooled(store, videos, name) for name, _ in store.streams}
    inputs = {**streams, " + ".join(streams): np.concatenate(list(streams.values()), axis=1)}
    print(f"{len(videos)} clips of {source.max() + 1} videos, {FOLDS}-fold by video, {REPEATS} ways to cut the folds")
    print(f"{category.max() + 1} categories, the commonest has {np.bincount(category).max() / len(videos):.1%}")
    print(f"{len(actions)} actions: {', '.join(actions)}")
    for name, features in inputs.items():
        right = [accuracy(features, category, source, seed) for seed in range(REPEATS)]
        areas = [ranking(features, shown, source, seed) for seed in range(REPEATS)]
        spread = f"category right {np.mean(right):.1%} +- {np.std(right):.1%}"
        print(f"{name:22} {spread}, area under the curve of actions {np.mean(areas):.3f} +- {np.std(areas):.3f}")


def accuracy(features: Array, category: Numbers, source: Numbers, seed: int) -> float:
    """Share of clips whose category a probe finds that was trained on other source videos."""
    scores = _held_out_scores(features, np.eye(category.max() + 1)[category], source, seed)
    return float((scores.argmax(axis=1) == category).mean())


def ranking(features: Array, shown: Array, source: Numbers, seed: int) -> float:
    """The chance that a clip with an action scores higher than one without it, averaged over the actions."""
    ranks = _held_out_scores(features, shown, source, seed).argsort(axis=0).argsort(axis=0) + 1
    with_it = shown.sum(axis=0)
    above = (ranks * shown).sum(axis=0) - with_it * (with_it + 1) / 2
    return float((above / (with_it * (len(shown) - with_it))).mean())


def _held_out_scores(features: Array, targets: Array, source: Numbers, seed: int) -> Array:
    """For every clip the scores of the probe that was trained on the other folds."""
    fold = (np.random.default_rng(seed).permutation(source.max() + 1) % FOLDS)[source]
    scores = np.empty_like(targets)
    for held in range(FOLDS):
        scores[fold == held] = _probe(features[fold != held], targets[fold != held], features[fold == held])
    return scores


def _probe(train: Array, targets: Array, test: Array) -> Array:
    """Ridge regression in its dual form, for a clip has more numbers than there are clips.

    With K = X X' + 1 (the one is the intercept) and targets Y: scores = K_test (K + s I)^-1 Y. The strength s is the
    one whose leave-one-out residuals, (K + s I)^-1 Y / diag((K + s I)^-1), are smallest.
    """
    mean, spread = train.mean(axis=0), train.std(axis=0) + 1e-6
    train, test = (train - mean) / spread, (test - mean) / spread
    values, vectors = np.linalg.eigh(train @ train.T / train.shape[1] + 1)
    best_error, weights = np.inf, targets
    for strength in STRENGTHS:
        inverse = (vectors / (values + strength)) @ vectors.T
        solved = inverse @ targets
        error = float(((solved / np.diag(inverse)[:, None]) ** 2).sum())
        if error < best_error:
            best_error, weights = error, solved
    return np.asarray((test @ train.T / train.shape[1] + 1) @ weights)


def _actions(rows: list[Mapping[str, Any]]) -> tuple[list[str], Array]:
    """The actions that the captions of enough clips name, and which clip shows which (clips x actions)."""
    shown = []
    for row in rows:
        counts = Counter(word for caption in row["captions"] for word in set(caption.split()) if word.endswith("ing"))
        shown.append({word for word, count in counts.items() if count >= SHARE_OF_CAPTIONS * len(row["captions"])})
    clips_with = Counter(word for words in shown for word in words)
    actions = sorted(word for word, clips in clips_with.items() if clips >= FEWEST_CLIPS)
    return actions, np.array([[word in words for word in actions] for words in shown], np.float64)


def _pooled(store: FeatureStore, videos: list[str], stream: str) -> Array:
    return np.stack([store.track(video).stream(stream).astype(np.float64).mean(axis=0) for video in videos])


def _as_numbers(names: list[str]) -> Numbers:
    return np.unique(names, return_inverse=True)[1].astype(np.int64)
