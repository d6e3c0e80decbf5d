from __future__ import annotations

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.tracks import Clock, FeatureTrack
from densevid.video.backbones import plug_in
from densevid.video.reduction import Reduction, reduced


def track(values: np.ndarray) -> FeatureTrack:
    return FeatureTrack(values.astype(np.float32), Clock.uniform(0.5), (("a", 6), ("b", 4)))


@pytest.fixture
def tracks() -> list[FeatureTrack]:
    random = np.random.default_rng(0)
    mixing = random.normal(size=(10, 10))
    return [track(random.normal(size=(30, 10)) @ mixing + 3) for _ in range(5)]


def test_it_is_the_projection_on_the_singular_vectors_of_each_stream(tracks) -> None:
    reduction, shares = Reduction.fit(tracks, 3)
    stacked = np.concatenate([one.values for one in tracks]).astype(np.float64)
    for name, columns in (("a", slice(0, 6)), ("b", slice(6, 10))):
        centred = stacked[:, columns] - stacked[:, columns].mean(axis=0)
        _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
        overlap = np.abs(np.sum(reduction.directions[name] * directions[:3].T, axis=0))
        assert overlap == pytest.approx(np.ones(3), abs=1e-5)
        assert shares[name] == pytest.approx((sizes[:3] ** 2).sum() / (sizes**2).sum(), abs=1e-5)
    assert reduction.apply(tracks[0].values).shape == (30, 6)


def test_keeping_all_keeps_all_distances(tracks) -> None:
    reduction, shares = Reduction.fit([track(one.values) for one in tracks], 4)
    values = tracks[0].values
    apart = np.linalg.norm(values[:5, 6:] - values[5:10, 6:], axis=1)
    projected = reduction.apply(values)[:, 4:]
    assert np.linalg.norm(projected[:5] - projected[5:10], axis=1) == pytest.approx(apart, rel=1e-4)
    assert shares["b"] == pytest.approx(1.0)


def test_it_survives_its_file_and_changes_the_recipe(tracks, tmp_path) -> None:
    reduction, _ = Reduction.fit(tracks, 2)
    reduction.save(tmp_path / "reduction.safetensors")
    again = Reduction.load(tmp_path)
    assert again.table == reduction.table
    assert np.array_equal(again.apply(tracks[1].values), reduction.apply(tracks[1].values))
    other, _ = Reduction.fit(tracks[:4], 2)
    assert other.table != reduction.table


def test_a_backbone_with_a_reduction_gives_reduced_vectors() -> None:
    backbone = plug_in(lambda p: p.mean(axis=(1, 2, 3)), name="colours", size=16)
    pictures = np.random.default_rng(0).integers(0, 256, (20, 1, 16, 16, 3), dtype=np.uint8)
    vectors = backbone.load("cpu")(pictures, np.zeros((20, 1)))
    reduction, _ = Reduction.fit([FeatureTrack(vectors, Clock.uniform(0.5), backbone.streams)], 2)
    narrow = reduced(backbone, reduction)
    assert narrow.streams == (("colours", 2),)
    assert np.allclose(narrow.load("cpu")(pictures, np.zeros((20, 1))), reduction.apply(vectors))
    assert narrow.recipe(0.5) == reduction.recipe(backbone.recipe(0.5))


def test_what_does_not_fit_is_refused(tracks, tmp_path) -> None:
    reduction, _ = Reduction.fit(tracks, 2)
    with pytest.raises(InputError, match="for features 10 wide, these are 9"):
        reduction.apply(np.zeros((2, 9), np.float32))
    with pytest.raises(InputError, match="cannot keep 5 of stream b"):
        Reduction.fit(tracks, 5)
    with pytest.raises(InputError, match="no video to fit"):
        Reduction.fit([], 2)
    with pytest.raises(InputError, match="no such file"):
        Reduction.load(tmp_path)
    (tmp_path / "reduction.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a reduction"):
        Reduction.load(tmp_path)
