"""A feature store written by densevid 0.1.0 reads as on the day it was written, and can be continued."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from densevid.data.layouts import open_features
from densevid.data.store.reader import FeatureStore
from densevid.tracks import Clock, FeatureTrack

FROZEN = Path(__file__).parent / "frozen" / "store-version-1"
STREAMS = (("appearance", 6), ("motion", 4))
RECIPE = "generated-acf4d4b47c76"


def values(video: int, steps: int) -> np.ndarray:
    return (np.arange(steps * 10, dtype=np.float32).reshape(steps, 10) % 17 / 16 - video).astype(np.float16)


def test_its_tracks_clocks_and_recipe_are_as_written() -> None:
    store = open_features(FROZEN)
    assert isinstance(store, FeatureStore) and store.verify() == []
    assert store.streams == STREAMS and store.videos() == ["other writer", "uniform", "клип/clip two"]
    assert store.recipe is not None and store.recipe.id == RECIPE
    for video, number, steps, duration in (("uniform", 2, 8, None), ("other writer", 3, 3, 3.0)):
        track = store.track(video)
        np.testing.assert_array_equal(track.values, values(number, steps))
        assert track.values.dtype == np.float16 and (track.duration, track.recipe) == (duration, RECIPE)
    track = store.track("клип/clip two")
    np.testing.assert_array_equal(track.values, values(1, 5))
    np.testing.assert_allclose(track.seconds(np.arange(6)), [0, 0.48, 1.0, 1.52, 2.0, 2.4])


def test_a_store_of_01_takes_further_videos(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    shutil.copytree(FROZEN, folder)
    store = FeatureStore.create(folder, STREAMS, recipe=FeatureStore.open(FROZEN).recipe, resume=True)
    with store.writer() as writer:
        writer.add("new", FeatureTrack(values(4, 2), Clock.uniform(0.5), STREAMS, RECIPE))
    store.refresh()
    assert len(store) == 4 and store.verify() == []
