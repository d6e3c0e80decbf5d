"""Where a network runs: torch on a GPU, onnxruntime on the CPU. Both give the same vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from densevid.artifacts import atomic_path, cache_folder
from densevid.errors import InputError
from densevid.video.network import Network
from densevid.video.onnx_file import OnnxNetwork, onnx_bytes

Device = Literal["auto", "cpu", "cuda"]
PicturesToVectors = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]
WRITER_VERSION = 1  # of the files in the cache


def run_on(device: Device, name: str, build: Callable[[], Network]) -> PicturesToVectors:
    """The network as a function on the device; `name` says which network and which weights, for the cache."""
    if chosen_device(device) == "cuda":
        from densevid.video.torch_network import TorchNetwork

        return TorchNetwork(build(), "cuda")
    return OnnxNetwork(_cached_onnx(name, build))


def chosen_device(device: Device) -> Literal["cpu", "cuda"]:
    """What `auto` means here. torch is only asked where a driver is, for its import alone takes seconds."""
    if device == "cpu" or (device == "auto" and not Path("/dev/nvidiactl").exists()):
        return "cpu"
    from densevid.video.torch_network import gpu_is_there

    if gpu_is_there():
        return "cuda"
    if device == "cuda":
        raise InputError("torch sees no GPU here; use --device cpu, or install torch for this machine's GPU")
    return "cpu"


def _cached_onnx(name: str, build: Callable[[], Network]) -> Path | bytes:
    """The network's ONNX file, written on first use; where no cache can be written it stays in memory."""
    path = cache_folder() / f"{name}-{WRITER_VERSION}.onnx"
    if path.is_file():
        return path
    content = onnx_bytes(build())
    try:
        with atomic_path(path) as temporary:
            temporary.write_bytes(content)
    except (OSError, InputError):
        return content
    return path
