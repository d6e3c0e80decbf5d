from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import av
import numpy as np
import pytest

import densevid
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.video.backbones import plug_in
from densevid.video.extract import STEPS_AT_ONCE, Extractor, extract
from densevid.video.torch_network import TorchNetwork
from densevid.video.weights import efficientnet_lite0
from helpers.made_videos import constant, make_video, number_of, variable


def numbers(pictures):
    return np.array([[number_of(run[0])] for run in pictures], np.float32)


def too_large(pictures):
    return np.full((len(pictures), 2), 1e6)


def very_wide(pictures):
    return np.ones((len(pictures), 20_000), np.float32)


def fails(pictures):
    if pictures.any():
        raise RuntimeError("out of order")
    return np.zeros((len(pictures), 2))


def test_a_track_has_the_vectors_of_its_frames_in_order(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", variable(20.0))
    track = extract(path, backbone=plug_in(numbers, size=64))
    assert len(track) in (40, 41) and len(track) > 2 * STEPS_AT_ONCE
    times = np.array(variable(20.0))
    assert track.clock.edges[:-1] == pytest.approx(times[track.values[:, 0].astype(int)], abs=1e-4)
    assert track.duration == track.clock.edges[-1] > times[-1]


def test_appearance_is_what_a_plain_loop_computes(tmp_path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 120, 160, 3), dtype=np.uint8)
    smooth = [av.VideoFrame.from_ndarray(one, "rgb24").reformat(16, 16).reformat(160, 120) for one in noise]
    drawn = [one.to_ndarray(format="rgb24") for one in smooth]
    path = make_video(tmp_path / "a.mp4", constant(1.6), size=(160, 120), picture=lambda number: drawn[number])
    track = extract(path, backbone="appearance")
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    chosen = [min(frames, key=lambda frame, turn=turn: abs(frame.time - turn)) for turn in (0, 0.5, 1.0, 1.5)]
    pictures = np.stack([frame.reformat(224, 224, "rgb24").to_ndarray() for frame in chosen])
    expected = TorchNetwork(efficientnet_lite0(), "cpu")(pictures)
    assert np.abs(track.values - expected).max() < 2e-3 * np.abs(expected).max(), "up to half precision"
    assert track.recipe and track.recipe.startswith("appearance-")


def test_a_still_and_a_moving_video_differ_in_motion_and_not_in_their_first_picture(tmp_path) -> None:
    texture = np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8).repeat(16, 0).repeat(16, 1)
    still = make_video(tmp_path / "still.mp4", constant(1.0), picture=lambda number: texture)
    moving = make_video(tmp_path / "moving.mp4", constant(1.0), picture=lambda n: np.roll(texture, 2 * n, axis=1))
    one, other = extract(still), extract(moving)

    def apart(stream: str) -> float:
        return float(np.abs(one.stream(stream)[0] - other.stream(stream)[0]).mean())

    assert apart("motion") > 5 * apart("appearance")


def test_it_can_be_called_by_its_short_name(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(1.0))
    assert len(densevid.extract(str(path), backbone=plug_in(numbers, size=64))) == 2


def test_several_paths_are_sent_to_extract_many(tmp_path) -> None:
    with pytest.raises(InputError, match="extract_many"):
        extract([tmp_path / "a.mp4"])  # type: ignore[arg-type]


def test_a_long_track_is_held_once_until_it_is_on_the_disk(tmp_path) -> None:
    path = make_video(tmp_path / "long.mp4", constant(600.0, 2), size=(32, 32), options={"preset": "ultrafast"})
    extractor = Extractor(plug_in(very_wide, size=16), threads=1)
    store = FeatureStore.create(tmp_path / "store", extractor.backbone.streams, recipe=extractor.recipe)
    tracemalloc.start()
    try:
        track, _ = extractor.extract(path)
        store.add("long", track)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert track.values.nbytes == 1200 * 20_000 * 2
    assert peak < 1.35 * track.values.nbytes, "the track, what its array grew by, and a few batches"
    store.refresh()
    assert np.array_equal(store.track("long").values, track.values) and store.verify() == []


def test_the_number_of_threads_changes_nothing(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(12.0))
    backbone = plug_in(numbers, size=64)
    tracks = [Extractor(backbone, threads=threads).extract(path)[0] for threads in (1, 3)]
    assert np.array_equal(tracks[0].values, tracks[1].values)


def test_what_half_precision_cannot_hold_is_said(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(1.0))
    with pytest.raises(InputError, match="float16 cannot hold"):
        extract(path, backbone=plug_in(too_large))
    track, _ = Extractor(plug_in(too_large), dtype="float32").extract(path)
    assert track.values.max() == 1e6


def test_an_error_in_a_backbone_comes_out(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(30.0))
    with pytest.raises(RuntimeError, match="out of order"):
        extract(path, backbone=plug_in(fails))


def test_extraction_on_a_cpu_loads_neither_torch_nor_jax(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(1.0))
    extract(path, backbone="appearance", device="cpu")  # the network is in the cache now
    code = (
        "import sys, densevid; densevid.extract(sys.argv[1], backbone='appearance', device='cpu');"
        "assert not {'torch', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_the_package_itself_loads_nothing_of_this() -> None:
    code = "import sys, densevid; assert not {'av', 'cv2', 'onnxruntime', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
