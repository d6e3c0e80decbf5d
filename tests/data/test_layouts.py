"""Layouts that others use: found by looking, read at their own precision; what is wrong names the video."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from densevid.data.layouts import open_features
from densevid.data.store.reader import FeatureStore, copy_features
from densevid.errors import InputError
from densevid.tracks import FeatureTrack

SECONDS = np.array([0.0, 1, 2.5])


def features(steps: int, width: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(steps, width)).astype(dtype)


def save_pair(folder: Path, video: str, steps: int = 4, seed: int = 0) -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    resnet, bn = features(steps, 6, seed=seed), features(steps, 3, seed=seed + 1)
    np.save(folder / f"{video}_resnet.npy", resnet)
    np.save(folder / f"{video}_bn.npy", bn)
    return np.hstack([resnet, bn])


def step_seconds(track: FeatureTrack) -> float:
    return float(track.seconds(1) - track.seconds(0))


# The release's pairs -------------------------------------------------------------------------------------------------


def test_the_release_puts_resnet_before_bn(tmp_path: Path) -> None:
    wanted = save_pair(tmp_path, "v_a_b")
    source = open_features(tmp_path)
    assert source.videos() == ["v_a_b"] and source.streams == (("resnet", 6), ("bn", 3)) and source.recipe is None
    track = source.track("v_a_b")
    np.testing.assert_array_equal(track.values, wanted)
    assert track.values.dtype == np.float32 and step_seconds(track) == 0.5
    assert "v_a_b" in source and "a_b" not in source and len(source) == 1
    again = pickle.loads(pickle.dumps(source))  # as a loading process gets it
    np.testing.assert_array_equal(again.track("v_a_b").values, wanted)


def test_the_release_in_split_folders(tmp_path: Path) -> None:
    save_pair(tmp_path / "training", "a")
    wanted = save_pair(tmp_path / "validation", "b", seed=5)
    assert open_features(tmp_path).videos() == ["a", "b"]
    source = open_features(tmp_path, split="val")
    assert source.videos() == ["b"]
    np.testing.assert_array_equal(source.track("b").values, wanted)
    with pytest.raises(InputError, match=r"no folder for the split 'testing', only training, validation"):
        open_features(tmp_path, split="testing")
    save_pair(tmp_path / "training", "b")
    with pytest.raises(InputError, match=r"b: its features are in .*training and in .*validation; choose a split"):
        open_features(tmp_path)


def test_the_two_formulas_for_seconds_per_step(tmp_path: Path) -> None:
    for video in ("a", "b", "unlisted"):
        save_pair(tmp_path / "f", video)
    table = tmp_path / "anet_duration_frame.csv"
    table.write_text("a,82.73,2068\nb, 10.9 ,300\n")
    activitynet = open_features(tmp_path / "f")  # found beside the folder
    assert step_seconds(activitynet.track("a")) == pytest.approx(82.73 * 12 / 2068, rel=1e-12)  # int(2068 / 82 / 2)
    assert step_seconds(activitynet.track("b")) == pytest.approx(10.9 * 15 / 300, rel=1e-12)  # int(300 / 10 / 2)
    assert step_seconds(activitynet.track("unlisted")) == 0.5
    youcook2 = open_features(tmp_path / "f", durations=table, duration_formula="youcook2")
    assert step_seconds(youcook2.track("a")) == pytest.approx(82.73 * 13 / 2068, rel=1e-12)  # ceil(12.498...)
    assert step_seconds(youcook2.track("b")) == pytest.approx(10.9 * 14 / 300, rel=1e-12)  # ceil(13.76...)
    given = open_features(tmp_path / "f", durations=table, seconds_per_step=0.48)
    assert step_seconds(given.track("a")) == 0.48 and given.track("a").duration == 82.73


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,0.5,20", "a: no step length from a duration of 0.5 s and 20 frames"),
        ("a,100,20", "a: no step length"),
        ("a,ten,20\n", None),
        ("x,1,1\na,ten,20", "line 2: expected id, duration, frames"),
        ("x,1,1\na,-3,20", "line 2"),
        ("x,1,1\na", "line 2"),
        ("x,1,1\na,nan,1", "line 2"),
    ],
)
def test_bad_duration_files_are_one_line(tmp_path: Path, text: str, reason: str | None) -> None:
    save_pair(tmp_path, "a")
    (tmp_path / "x_duration_frame.csv").write_text(text)
    if reason is None:  # a first line that is not numbers is taken for column names
        assert step_seconds(open_features(tmp_path).track("a")) == 0.5
        return
    with pytest.raises(InputError, match=reason):
        open_features(tmp_path).track("a")


def test_a_choice_of_duration_files_is_the_users(tmp_path: Path) -> None:
    save_pair(tmp_path, "a")
    for name in ("anet", "yc2"):
        (tmp_path / f"{name}_duration_frame.csv").write_text("a,10,300")
    with pytest.raises(InputError, match="several duration files"):
        open_features(tmp_path)
    assert step_seconds(open_features(tmp_path, seconds_per_step=0.25).track("a")) == 0.25
    with pytest.raises(InputError, match=r"nowhere\.csv: no such duration file"):
        open_features(tmp_path, durations=tmp_path / "nowhere.csv")


def test_a_broken_pair_names_the_video(tmp_path: Path) -> None:
    save_pair(tmp_path, "whole")
    save_pair(tmp_path, "longer")
    np.save(tmp_path / "longer_bn.npy", features(5, 3))
    np.save(tmp_path / "half_resnet.npy", features(4, 6))
    source = open_features(tmp_path)
    with pytest.raises(InputError, match=r"longer: its streams differ in rows: resnet has 4, bn has 5"):
        source.track("longer")
    with pytest.raises(InputError, match=r"half: its bn features are missing beside .*half_resnet.npy"):
        source.track("half")
    np.save(tmp_path / "stray.npy", features(4, 6))
    with pytest.raises(InputError, match=r"holds stray.npy among pairs"):
        open_features(tmp_path)


# One .npy a video ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_plain_arrays_keep_their_precision(tmp_path: Path, dtype: str) -> None:
    wanted = features(5, 4, dtype)
    np.save(tmp_path / "v_1.npy", wanted)
    track = open_features(tmp_path, seconds_per_step=0.64).track("v_1")
    np.testing.assert_array_equal(track.values, wanted)
    assert track.values.dtype == np.dtype(dtype).newbyteorder("=") and track.streams == (("features", 4),)
    np.testing.assert_allclose(track.seconds(SECONDS), SECONDS * 0.64)


def test_resampled_arrays_spread_over_the_video(tmp_path: Path) -> None:
    for video in ("a", "b"):
        np.save(tmp_path / f"{video}.npy", np.asfortranarray(features(100, 4)))
    source = open_features(tmp_path, durations={"a": 250.0, "b": None})
    assert step_seconds(source.track("a")) == 2.5 and source.track("a").duration == 250.0
    extent = source.extent("a")
    assert (extent.steps, extent.duration, float(extent.clock.seconds(100))) == (100, 250.0, 250.0)
    with pytest.raises(InputError, match="b: its duration is not known; give a duration file or the seconds per step"):
        source.track("b")
    (tmp_path / "any_duration_frame.csv").write_text("id,duration\nb,50\n")
    assert step_seconds(open_features(tmp_path).track("b")) == 0.5


def damage(path: Path, kind: str) -> None:
    whole = path.read_bytes()
    if kind == "pickle":
        path.write_bytes(pickle.dumps({"a": 1}))
    elif kind == "objects":
        np.save(path, np.array([[{}, []]], dtype=object), allow_pickle=True)
    elif kind == "archive":
        with path.open("wb") as file:
            np.savez(file, a=features(2, 2))
    elif kind == "nan":
        values = features(4, 6)
        values[2, 1] = np.nan
        np.save(path, values)
    elif kind in ("flat", "deep", "no rows", "no columns"):
        np.save(path, np.zeros({"flat": 6, "deep": (1, 4, 6), "no rows": (0, 6), "no columns": (4, 0)}[kind]))
    elif kind == "integers":
        np.save(path, np.ones((4, 6), int))
    elif kind == "other width":
        np.save(path, features(4, 7))
    elif kind == "long header":
        path.write_bytes(whole[:8] + b"\xff\xff" + b"(" * 70000)
    else:
        path.write_bytes({"empty": b"", "short": whole[:-1], "header only": whole[:40], "text": b"hello"}[kind])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("pickle", "not a whole .npy array"),
        ("objects", "not a whole .npy array"),
        ("archive", "not a whole .npy array"),
        ("empty", "not a whole .npy array"),
        ("short", "not a whole .npy array"),
        ("header only", "not a whole .npy array"),
        ("long header", "not a whole .npy array"),
        ("text", "not a whole .npy array"),
        ("nan", "NaN or infinity, first at row 2"),
        ("flat", r"shape \(6,\)"),
        ("deep", r"shape \(1, 4, 6\)"),
        ("no rows", r"shape \(0, 6\)|not a whole"),
        ("no columns", r"shape \(4, 0\)|not a whole"),
        ("integers", "holds int64"),
        ("other width", "it has features 7, a has features 6"),
    ],
)
def test_a_damaged_array_names_the_video_and_the_reason(tmp_path: Path, kind: str, reason: str) -> None:
    for video in ("a", "bad"):
        np.save(tmp_path / f"{video}.npy", features(4, 6))
    damage(tmp_path / "bad.npy", kind)
    source = open_features(tmp_path, seconds_per_step=1)
    with pytest.raises(InputError, match=rf"^bad: .*({reason})") as caught:
        source.track("bad")
    assert "\n" not in str(caught.value)
    assert len(source.track("a")) == 4


# HDF5 ----------------------------------------------------------------------------------------------------------------


def test_hdf5_with_a_dataset_per_video(tmp_path: Path) -> None:
    wanted = {"v_a": features(3, 4, "float16"), "v_b": features(9, 4, "float16", 1)}
    with h5py.File(tmp_path / "all.hdf5", "w") as file:
        for video, values in wanted.items():
            file.create_dataset(video, data=values, compression="gzip")
    source = open_features(tmp_path / "all.hdf5", durations={"v_a": 6.0, "v_b": 9.0})
    assert source.videos() == ["v_a", "v_b"] and source.streams == (("features", 4),)
    for video, values in wanted.items():
        track = source.track(video)
        np.testing.assert_array_equal(track.values, values)
        assert track.values.dtype == np.float16 and source.extent(video).steps == len(values)
    assert step_seconds(source.track("v_a")) == 2.0
    again = pickle.loads(pickle.dumps(source))  # as a loading process gets it
    np.testing.assert_array_equal(again.track("v_b").values, wanted["v_b"])


def test_hdf5_with_a_group_per_video(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "c3d.h5", "w") as file:
        file["v_a/c3d_features"] = features(3, 5)
        file["v_b/c3d_features"] = features(4, 5)
    source = open_features(tmp_path / "c3d.h5", seconds_per_step=0.64)
    assert source.streams == (("c3d_features", 5),) and len(source.track("v_b")) == 4


def test_hdf5_never_leads_to_another_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["data"] = features(3, 4)
    (tmp_path / "raw").write_bytes(bytes(96))
    with h5py.File(tmp_path / "all.h5", "w") as file:
        file["ok"] = features(3, 4)
        file["outside"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "data")
        file["soft"] = h5py.SoftLink("/ok")
        file.create_dataset("raw", (3, 4), "f8", external=[(str(tmp_path / "raw"), 0, 96)])
        virtual = h5py.VirtualLayout((3, 4), "f4")
        virtual[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "data", (3, 4))
        file.create_virtual_dataset("virtual", virtual)
        file.create_group("empty")
    source = open_features(tmp_path / "all.h5", seconds_per_step=1)
    assert len(source.track("ok")) == 3
    for video, reason in {
        "outside": "link",
        "soft": "link",
        "raw": "another",
        "virtual": "another",
        "empty": "empty",
    }.items():
        with pytest.raises(InputError, match=f"^{video} in .*{reason}"):
            source.track(video)


def test_a_damaged_hdf5_file_is_one_line(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "all.h5", "w") as file:
        for number in range(20):
            file.create_dataset(f"v{number:02d}", data=features(500, 40, seed=number), compression="gzip")
    whole = (tmp_path / "all.h5").read_bytes()
    (tmp_path / "short.h5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"short.h5: cannot be read as HDF5"):
        open_features(tmp_path / "short.h5", seconds_per_step=1)
    middle = len(whole) // 2
    (tmp_path / "holed.h5").write_bytes(whole[: middle - 3000] + b"\xff" * 6000 + whole[middle + 3000 :])
    source = open_features(tmp_path / "holed.h5", seconds_per_step=1)
    failed = []
    for video in source.videos():
        try:
            source.track(video)
        except InputError as error:
            failed.append(str(error))
    assert failed and all(line.startswith("v") for line in failed)


def test_hdf5_without_h5py_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "all.h5", "w") as file:
        file["v"] = features(2, 2)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"pip install densevid\[hdf5\]"):
        open_features(tmp_path / "all.h5", seconds_per_step=1)


# All of them ---------------------------------------------------------------------------------------------------------


def test_a_missing_or_empty_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        open_features(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no features"):
        open_features(tmp_path)
    (tmp_path / "file.txt").write_text("hello")
    with pytest.raises(InputError, match="neither a folder of features nor an HDF5 file"):
        open_features(tmp_path / "file.txt")
    with pytest.raises(InputError, match="seconds per step must be positive"):
        open_features(tmp_path, seconds_per_step=0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seconds_per_step": 0.25}, r"store: a store has its own clock; leave --seconds-per-step out"),
        ({"durations": "some.csv"}, r"store: a store has its own clock; leave --durations out"),
        ({"seconds_per_step": -2.0}, r"seconds per step must be positive"),
        ({"seconds_per_step": float("nan")}, r"seconds per step must be positive"),
    ],
)
def test_a_store_takes_no_other_clock(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    FeatureStore.create(tmp_path / "store", (("clip", 4),))
    with pytest.raises(InputError, match=message):
        open_features(tmp_path / "store", **given)
    open_features(tmp_path / "store", durations={"v": 3.0})  # what annotations know is no wish


def test_an_absent_duration_file_is_said_before_features_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.npy").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"absent\.csv: no such duration file$"):
        open_features(tmp_path / "in", durations=tmp_path / "absent.csv")


def test_an_unknown_id_is_no_path(tmp_path: Path) -> None:
    np.save(tmp_path / "outside.npy", features(2, 2))
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", features(2, 2))
    source = open_features(tmp_path / "in", seconds_per_step=1)
    with pytest.raises(InputError, match=r"^\.\./outside: no features in .*ids like 'a'"):
        source.track("../outside")


def test_any_layout_becomes_a_store(tmp_path: Path) -> None:
    wanted = {
        video: save_pair(tmp_path / "pairs", video, steps=3 + seed, seed=seed) for seed, video in enumerate("abc")
    }
    source = open_features(tmp_path / "pairs")
    store = FeatureStore.create(tmp_path / "store", source.streams, dtype="float32")
    assert copy_features(source, store) == 3
    opened = open_features(tmp_path / "store")
    assert isinstance(opened, FeatureStore) and opened.videos() == ["a", "b", "c"]
    for video, values in wanted.items():
        np.testing.assert_array_equal(opened.track(video).values, values)
