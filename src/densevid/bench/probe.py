"""What the streams know: a linear probe for the category of each clip, from either stream and from both.

A clip is the mean of its steps. The probe is ridge regression onto the categories; its strength is chosen on the
training part alone. Folds are made of whole source videos, so that no probe is asked about a video it has seen.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from densevid.artifacts import read_json
from densevid.data.feature_store import FeatureStore
from densevid.errors import InputError

FOLDS, REPEATS = 5, 4
STRENGTHS = np.logspace(-3, 2, 11)
Array = npt.NDArray[np.float64]


def print_probe(store_path: Path | str, clips_path: Path | str) -> None:
    """Print the share of clips whose category is found, for each stream and for all together."""
    store = FeatureStore.open(store_path)
    clips = read_json(clips_path)
    videos = [video for video in store.videos() if isinstance(clips, dict) and "category" in clips.get(video, {})]
    if len(videos) < 10 * FOLDS:
        raise InputError(f"{clips_path}: says the category of only {len(videos)} videos of {store}")
    category = _as_numbers([str(clips[video]["category"]) for video in videos])
    source = _as_numbers([str(clips[video].get("source", video)) for video in videos])
    streams = {name: _pooled(store, videos, name) for name, _ in store.streams}
    inputs = {**streams, " + ".join(streams): np.concatenate(list(streams.values()), axis=1)}
    common = np.bincount(category).max() / len(category)
    print(f"{len(videos)} clips, {category.max() + 1} categories, the commonest has {common:.1%}")
    print(f"right, {FOLDS}-fold by source video, mean and spread over {REPEATS} ways to cut the folds:")
    for name, features in inputs.items():
        right = [accuracy(features, category, source, seed) for seed in range(REPEATS)]
        print(f"  {name:24} {np.mean(right):.1%} +- {np.std(right):.1%}")


def accuracy(features: Array, category: npt.NDArray[np.int64], source: npt.NDArray[np.int64], seed: int) -> float:
    """Share of clips whose category is found by a probe that has seen none of their source videos."""
    fold_of_source = np.random.default_rng(seed).permutation(source.max() + 1) % FOLDS
    fold = fold_of_source[source]
    right = [
        _predict(features[fold != held], category[fold != held], features[fold == held]) == category[fold == held]
        for held in range(FOLDS)
    ]
    return float(np.concatenate(right).mean())


def _predict(train: Array, category: npt.NDArray[np.int64], test: Array) -> npt.NDArray[np.int64]:
    """Ridge regression in its dual form, for there are fewer clips than numbers in a clip.

    With K = X X' and one-hot targets Y: scores = K_test (K + s n I)^-1 Y. The strength s is the one whose
    leave-one-out residuals, (K + s n I)^-1 Y / diag((K + s n I)^-1), are smallest.
    """
    mean, spread = train.mean(axis=0), train.std(axis=0) + 1e-6
    train, test = (train - mean) / spread, (test - mean) / spread
    kernel = train @ train.T / train.shape[1]
    targets = np.eye(category.max() + 1)[category] - 1 / (category.max() + 1)
    values, vectors = np.linalg.eigh(kernel)
    best_error, weights = np.inf, targets
    for strength in STRENGTHS:
        inverse = (vectors / (values + strength)) @ vectors.T
        solved = inverse @ targets
        error = float(((solved / np.diag(inverse)[:, None]) ** 2).sum())
        if error < best_error:
            best_error, weights = error, solved
    return np.asarray((test @ train.T / train.shape[1] @ weights).argmax(axis=1))


def _pooled(store: FeatureStore, videos: list[str], stream: str) -> Array:
    return np.stack([store.track(video).stream(stream).astype(np.float64).mean(axis=0) for video in videos])


def _as_numbers(names: list[str]) -> npt.NDArray[np.int64]:
    return np.unique(names, return_inverse=True)[1].astype(np.int64)
