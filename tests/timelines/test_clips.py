"""Collections are read as they are, and what is wrong with one is a single line that names it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.timelines.clips import ClipCollection, is_in_split, share_of
from densevid.tracks import Clock, FeatureTrack
from helpers.clip_collections import write_collection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "clips")


def change(folder: Path, clip: str, **values: object) -> None:
    content = json.loads((folder / "clips.json").read_text())
    content[clip] |= values
    (folder / "clips.json").write_text(json.dumps(content))


def test_the_rate_of_the_rows_is_found(folder: Path) -> None:
    collection = ClipCollection.read(folder)
    assert collection.seconds_per_row == 0.5
    assert collection.streams == (("clip", 16),)
    assert len(collection.split("test")) + len(collection.split("train")) == 150


def test_parts_of_a_split_share_no_source_and_make_up_the_whole(folder: Path) -> None:
    collection = ClipCollection.read(write_collection(folder.parent / "many", clips=800))
    fit, dev = collection.split("train-fit"), collection.split("train-dev")
    assert not {clip.source for clip in fit} & {clip.source for clip in dev}
    assert sorted(clip.name for clip in (*fit, *dev)) == sorted(clip.name for clip in collection.split("train"))
    assert 0.05 < len(dev) / (len(fit) + len(dev)) < 0.16


def test_folds_are_fifths_and_what_they_leave(folder: Path) -> None:
    collection = ClipCollection.read(write_collection(folder.parent / "folds", clips=800))
    whole, folds = collection.split("train"), [collection.split(f"train-fold{number}") for number in range(5)]
    assert sorted(clip.name for fold in folds for clip in fold) == sorted(clip.name for clip in whole)
    for number, fold in enumerate(folds):
        rest = collection.split(f"train-but{number}")
        assert len(rest) + len(fold) == len(whole) and 0.1 < len(fold) / len(whole) < 0.3
        assert not {clip.source for clip in rest} & {clip.source for clip in fold}


def test_an_entry_is_in_the_splits_that_hold_its_clip(folder: Path) -> None:
    collection = ClipCollection.read(folder)
    entries = json.loads((folder / "clips.json").read_text())
    for split in collection.splits():
        try:
            names = {clip.name for clip in collection.split(split)}
        except InputError:  # too small to have this part
            names = set()
        assert {name for name, entry in entries.items() if is_in_split(name, entry, split)} == names


def test_shares_are_fixed_for_ever_and_spread_evenly() -> None:
    expected = int(hashlib.sha256(b"development\0abc").hexdigest()[:16], 16) / 16**16
    assert share_of("abc", "development") == expected != share_of("abc", "background")
    shares = np.array([share_of(str(number), "background") for number in range(2000)])
    assert abs(np.histogram(shares, 10, (0, 1))[0] - 200).max() < 60


def test_the_recipe_does_not_depend_on_the_numbers(folder: Path) -> None:
    other = write_collection(folder.parent / "other", seed=1, clips=40)
    assert ClipCollection.read(folder).recipe.id == ClipCollection.read(other).recipe.id


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rows": 10**6}, "rows .* are not in features.npy"),
        ({"rows": 0}, "are not in features.npy"),
        ({"first_row": -1}, "are not in features.npy"),
        ({"first_row": "0"}, "must be whole numbers"),
        ({"seconds": 0}, "seconds must be a positive number"),
        ({"seconds": None}, "seconds must be a positive number"),
        ({"captions": "a man"}, "captions must be a list of sentences"),
        ({"captions": [1]}, "captions must be a list of sentences"),
        ({"split": 3}, "needs the name of its split"),
    ],
)
def test_a_bad_entry_is_one_line_that_names_the_clip(folder: Path, values: dict[str, object], message: str) -> None:
    change(folder, "clip3", **values)
    with pytest.raises(InputError, match=f"clip3: .*{message}"):
        ClipCollection.read(folder)


def test_missing_clips_and_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"clips.json: no such file"):
        ClipCollection.read(tmp_path / "nowhere")
    with pytest.raises(InputError, match="there is no split 'vall'; there are test, train, "):
        ClipCollection.read(folder).split("vall")
    (folder / "features.npy").unlink()
    with pytest.raises(InputError, match=r"needs features.npy or a folder clips/"):
        ClipCollection.read(folder)
    (folder / "clips").mkdir()
    with pytest.raises(InputError, match=r"clips/clip0.mp4 is missing \(150 of 150 are\)"):
        ClipCollection.read(folder)


def test_features_that_are_not_an_array_of_numbers_are_refused(folder: Path) -> None:
    (folder / "features.npy").write_bytes(b"not an array")
    with pytest.raises(InputError, match=r"features.npy: not a readable .npy array"):
        ClipCollection.read(folder)
    np.save(folder / "features.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"features.npy: not a readable .npy array"):
        ClipCollection.read(folder)
    np.save(folder / "features.npy", np.zeros((3, 4), dtype=np.int64))
    with pytest.raises(InputError, match="rows x width of floating-point numbers"):
        ClipCollection.read(folder)


def test_a_clip_name_cannot_leave_the_folder(folder: Path) -> None:
    content = json.loads((folder / "clips.json").read_text())
    content["../../secret"] = content.pop("clip3")
    (folder / "clips.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="not a usable clip name"):
        ClipCollection.read(folder)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_row_that_is_no_number_is_named_with_its_clip_when_the_collection_is_read(
    tmp_path: Path, wrong: float
) -> None:
    folder = write_collection(tmp_path / "clips", clips=20)
    values = np.load(folder / "features.npy")
    entry = json.loads((folder / "clips.json").read_text())["clip7"]
    values[entry["first_row"] + 3, 5] = wrong
    np.save(folder / "features.npy", values)
    row = entry["first_row"] + 3
    with pytest.raises(InputError, match=rf"features.npy: row {row} \(row 3 of clip7\) holds NaN or infinity; "):
        ClipCollection.read(folder)
    values[entry["first_row"] + 3, 5] = 0
    np.save(folder / "features.npy", np.concatenate([values, np.full((1, values.shape[1]), wrong, values.dtype)]))
    ClipCollection.read(folder)  # a row of no clip is never shown


def test_a_store_that_holds_nan_is_named_with_the_clip(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "clips", clips=20)
    streams = (("clip", 16),)
    store = FeatureStore.create(tmp_path / "store", streams, dtype="float32")
    for name in ("clip1", "clip2"):
        store.add(name, FeatureTrack(np.ones((9, 16), dtype=np.float32), Clock.uniform(0.5), streams))
    (data,) = (tmp_path / "store").glob("shard-*.data")
    content = bytearray(data.read_bytes())
    place = bytes(content).rindex(np.ones(9 * 16, dtype="<f4").tobytes())
    content[place + 4 * 16 * 2 : place + 4 * 16 * 2 + 4] = np.float32(np.nan).tobytes()
    data.write_bytes(content)
    with pytest.raises(InputError, match=r"store: row 2 of clip2 holds NaN or infinity; "):
        ClipCollection.read(folder, features=tmp_path / "store")
