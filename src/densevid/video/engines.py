"""Where a network runs: torch on a GPU, onnxruntime on the CPU. Both give the same vectors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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
    return _onnx_network(name, build)


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


def _onnx_network(name: str, build: Callable[[], Network]) -> OnnxNetwork:
    """The network from its file in the cache; made anew, and kept if that can be, where there is none that works."""
    path = cache_folder() / f"{name}-{WRITER_VERSION}.onnx"
    try:
        return OnnxNetwork(path)
    except Exception:  # not there, cut short, may not be read: onnxruntime has no class above its errors
        content = onnx_bytes(build())
    with suppress(OSError, InputError), atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return OnnxNetwork(content)
