"""Caption collections: what is read of them, where their features stand, and how often each is drawn from."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densevid.config import FeaturesConfig
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.timelines.captions import CaptionCollection, CaptionFolder, CaptionMixture, read_captions
from densevid.timelines.clips import Clip
from densevid.tracks import Clock, FeatureRecipe, FeatureTrack

STREAMS = FeaturesConfig(streams=("scenes", "words", "actions"), widths=(4, 4, 3))


@pytest.mark.parametrize(
    ("text", "path", "weight"),
    [
        ("coco", "coco", 1.0),
        ("a/coco=0.5", "a/coco", 0.5),
        ("a=b/coco=2", "a=b/coco", 2.0),
        ("coco=1e-3", "coco", 0.001),
    ],
)
def test_a_folder_may_have_a_weight(text: str, path: str, weight: float) -> None:
    assert CaptionFolder.parse(text) == CaptionFolder(Path(path), weight)


@pytest.mark.parametrize("text", ["coco=", "coco=much", "coco=0", "coco=-1", "coco=nan", "coco=inf", "=2", "a=b/coco"])
def test_a_weight_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(InputError, match="expected FOLDER or FOLDER=WEIGHT with a positive number") as error:
        CaptionFolder.parse(text)
    assert text in str(error.value) and "\n" not in str(error.value)


def test_the_style_is_the_folders_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "coco").mkdir()
    monkeypatch.chdir(tmp_path / "coco")
    assert [CaptionFolder.parse(text).style for text in (".", "../coco/=2", str(tmp_path / "coco"))] == ["coco"] * 3


def write(folder: Path, width: int | None = 4, **changes: Any) -> CaptionFolder:
    """Three pictures of two sources and a clip of three rows, in an order other than that of their rows."""
    entries: dict[str, Any] = {
        "last": {"split": "train", "first_row": 5, "rows": 1, "captions": ["a dog runs", "a dog"], "source": "s1"},
        "clip": {"split": "train", "first_row": 1, "rows": 3, "captions": ["two cats"], "source": "s2", "seconds": 3.0},
        "test": {"split": "test", "first_row": 0, "rows": 1, "captions": ["a test"]},
        "mute": {"split": "train", "first_row": 0, "rows": 1, "captions": []},
        "first": {"split": "train", "first_row": 4, "rows": 1, "captions": ["a horse"], "source": "s1"},
    }
    folder.mkdir(parents=True)
    (folder / "clips.json").write_text(json.dumps(entries | changes))
    if width is not None:
        rows = np.arange(6)[:, None] + np.arange(width) / 8
        np.save(folder / "features.npy", rows.astype(np.float16))
    return CaptionFolder(folder)


def test_training_clips_with_captions_are_read_and_stand_one_after_the_other(tmp_path: Path) -> None:
    folder = write(tmp_path / "coco", width=11)
    found = CaptionCollection.read(folder, STREAMS)
    assert (found.style, found.weight, [clip.name for clip in found.clips]) == ("coco", 1.0, ["last", "clip", "first"])
    assert [(clip.first_row, clip.rows) for clip in found.clips] == [(0, 1), (1, 3), (4, 1)]
    assert found.features_RF[:, 0].tolist() == [5, 1, 2, 3, 4], "the rows of each clip go with it"
    assert found.sentences == ["a dog runs", "a dog", "two cats", "a horse"]
    assert found.clips[0].seconds == 0.5 and found.clips[1].seconds == 3


def test_clips_of_held_out_sources_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "coco", width=11)
    found = CaptionCollection.read(folder, STREAMS, {"s1", "nobody"})
    assert [clip.name for clip in found.clips] == ["clip"] and found.features_RF[:, 0].tolist() == [1, 2, 3]
    with pytest.raises(InputError, match="no clip of its split 'train' has captions and a source to learn from"):
        CaptionCollection.read(folder, STREAMS, {"s1", "s2"})


def test_features_of_one_stream_stand_in_its_place(tmp_path: Path) -> None:
    found = CaptionCollection.read(write(tmp_path / "coco", width=3), STREAMS)
    assert found.features_RF.shape == (5, 11) and not found.features_RF[:, :8].any()
    np.testing.assert_array_equal(found.features_RF[:, 8], [5, 1, 2, 3, 4])


@pytest.mark.parametrize("width", [4, 5, 7])
def test_features_that_fit_no_stream_or_two_are_refused(tmp_path: Path, width: int) -> None:
    with pytest.raises(InputError, match=f"its features are {width} wide, which fits no one stream of"):
        CaptionCollection.read(write(tmp_path / "coco", width=width), STREAMS)


def with_store(folder: CaptionFolder, stream: str, width: int = 4) -> CaptionFolder:
    recipe = FeatureRecipe({"name": "made"})
    store = FeatureStore.create(folder.path / "features", ((stream, width),), recipe=recipe)
    with store.writer(commit_every=9) as writer:
        for number, (name, rows) in enumerate({"first": 1, "clip": 3}.items(), start=1):
            values = np.full((rows, width), number, np.float32)
            writer.add(name, FeatureTrack(values, Clock.uniform(0.5), ((stream, width),)))
    return folder


def test_a_store_in_the_folder_names_its_stream(tmp_path: Path) -> None:
    found = CaptionCollection.read(with_store(write(tmp_path / "coco", width=None), "words"), STREAMS)
    assert [clip.name for clip in found.clips] == ["clip", "first"], "those that have features"
    np.testing.assert_array_equal(found.features_RF[:, 4:8], np.repeat([[2], [2], [2], [1]], 4, axis=1))
    assert not found.features_RF[:, :4].any() and not found.features_RF[:, 8:].any()


def test_without_features_it_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="features"):
        CaptionCollection.read(write(tmp_path / "coco", width=None), STREAMS)


def test_two_folders_of_one_name_are_refused(tmp_path: Path) -> None:
    folders = [write(tmp_path / parent / "coco", width=11) for parent in ("one", "two")]
    assert len(read_captions(folders[:1], STREAMS)) == 1
    with pytest.raises(InputError, match=r"two folders are named 'coco'.*rename one"):
        read_captions(folders, STREAMS)


def collection(style: str, weight: float, rows: list[int], value: float) -> CaptionCollection:
    first = np.cumsum([0, *rows]).tolist()
    clips = tuple(Clip(f"{style}{n}", "train", "s", 1.0, ("x",), first[n], count) for n, count in enumerate(rows))
    return CaptionCollection(style, weight, clips, np.full((sum(rows), 2), value, np.float16), style)


def mixture(own_weight: float = 1.0) -> CaptionMixture:
    own = [Clip(f"own{n}", "train", "s", 1.0, ("x",), 2 * n, 2) for n in range(4)]
    more = [collection("coco", 0.5, [1, 1, 1], 1.0), collection("vatex", 2.5, [4, 2], 2.0)]
    return CaptionMixture(own, np.zeros((9, 2), np.float16), more, own_weight)


@pytest.mark.parametrize("own_weight", [0.0, 1.0, 5.0])
def test_collections_are_drawn_by_their_weights_and_their_clips_alike(own_weight: float) -> None:
    rng, drawn, count = np.random.default_rng(0), Counter[str](), 12_000
    mixed = mixture(own_weight)
    for _ in range(count):
        style, clip, first = mixed.draw(rng)
        drawn[clip.name] += 1
        assert clip.name.startswith(style or "own")
        want = {None: 0.0, "coco": 1.0, "vatex": 2.0}[style]
        assert (mixed.footage[first : first + clip.rows] == want).all(), "its rows in the table of all"
        assert first + clip.rows <= len(mixed.footage)
    total = own_weight + 3
    chances = {f"own{n}": own_weight / 4 for n in range(4)} | {f"coco{n}": 0.5 / 3 for n in range(3)}
    for name, weight in (chances | {"vatex0": 1.25, "vatex1": 1.25}).items():
        expected = weight / total
        assert drawn[name] / count == pytest.approx(expected, abs=4 * (expected / count) ** 0.5 + 1e-9), name


def test_every_part_says_where_its_rows_begin() -> None:
    assert [(first, len(clips)) for first, clips in mixture().parts] == [(0, 4), (9, 3), (12, 2)]


def test_without_further_collections_all_is_the_timelines_own() -> None:
    own, footage = [Clip("a", "train", "s", 1.0, ("x",), 3, 2)], np.zeros((9, 2), np.float32)
    alone = CaptionMixture(own, footage, weight=0)
    assert alone.footage is footage and alone.draw(np.random.default_rng(0)) == (None, own[0], 3)


def test_the_fingerprint_is_that_of_collections_and_weights() -> None:
    def of(*collections: CaptionCollection) -> str:
        return CaptionMixture([], np.zeros((1, 2), np.float16), collections).fingerprint

    one, other = collection("coco", 0.5, [1, 1], 1.0), collection("coco", 1.0, [1, 1], 1.0)
    assert of(one) == of(collection("coco", 0.5, [1, 1], 1.0))
    assert len({of(one), of(other), of(one, other), of(), of(collection("vatex", 0.5, [1, 1], 1.0))}) == 5
