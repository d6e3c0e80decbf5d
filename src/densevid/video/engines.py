"""Engines: run a `Network` with onnxruntime on the CPU or with torch on a GPU; both give the same vectors.

A network over time that may be run in bfloat16 runs in torch on a CPU that has such instructions
(`bfloat16_network.py`): two to five times as fast, and nearly the same vectors.

For onnxruntime the network is written as an ONNX file, which is a protocol-buffers message. A network needs only three
field types of that format, so a few functions here replace a large dependency; field numbers are those of `onnx.proto`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.device import Device, has_bfloat16_instructions, network_device
from densevid.errors import InputError
from densevid.io import atomic_path, cache_folder
from densevid.video.network import Network, Operation

FLOAT, UINT8 = 1, 2


class OnnxNetwork:
    """A network run by onnxruntime: a thread-safe function from uint8 pictures to vectors.

    Args:
        model: An ONNX file, or its content.
        threads: Threads per call.
        frugal: Give memory back after each call. A network of many frames would otherwise hold hundreds of megabytes,
            more with every number of frames; its speed is the same.
    """

    def __init__(self, model: Path | bytes, threads: int = 1, *, frugal: bool = False) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_cpu_mem_arena = options.enable_mem_pattern = not frugal
        source = str(model) if isinstance(model, Path) else model
        self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    def __call__(self, pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """One vector per picture or sequence of pictures; several per sequence from a network of `any_frames`."""
        return np.asarray(self._session.run(["vectors"], {"pictures": np.ascontiguousarray(pictures)})[0])


def onnx_bytes(network: Network) -> bytes:
    """The network with its weights as the content of an ONNX file."""
    axes = len(network.shape)
    channels_first = [0, axes + 1, *range(1, axes + 1)]
    frames: tuple[int | str, ...] = ("T",) if network.any_frames else network.shape[:-2]
    nodes = [
        _node("Cast", ["pictures"], "numbers", to=FLOAT),
        _node("Transpose", ["numbers"], "channels_first", perm=channels_first),
        _node("Sub", ["channels_first", "mean"], "centred"),
        _node("Mul", ["centred", "scale"], "normalised"),
        *(node for operation in network.operations for node in _nodes_of(operation)),
        _node("Identity", [network.output], "vectors"),
    ]
    constants = {"mean": network.mean, "scale": network.scale, "zero": 0.0}
    limits = {f"limit_{o.limit:g}": o.limit for o in network.operations if o.limit is not None}
    tensors = [_tensor(name, np.float32(value)) for name, value in {**constants, **limits}.items()]
    for operation in network.operations:
        if operation.weight is not None and operation.bias is not None:
            tensors += [_tensor(f"{operation.output}_weight", operation.weight)]
            tensors += [_tensor(f"{operation.output}_bias", operation.bias)]
    graph = _message(
        *((1, node) for node in nodes),
        (2, "densevid"),
        *((5, tensor) for tensor in tensors),
        (11, _value_info("pictures", UINT8, ["N", *frames, *network.shape[-2:], 3])),
        (12, _value_info("vectors", FLOAT, ["N", "t", "width"] if network.any_frames else ["N", "width"])),
    )
    return _message((1, 8), (2, "densevid"), (7, graph), (8, _message((1, ""), (2, 17))))


def _nodes_of(operation: Operation) -> Iterable[bytes]:
    inputs, output = list(operation.inputs), operation.output
    match operation.kind:
        case "convolve":
            settings = {**_window(operation), "group": operation.groups}
            yield _node("Conv", [*inputs, f"{output}_weight", f"{output}_bias"], output, **settings)
        case "max_pool":
            yield _node("MaxPool", inputs, output, **_window(operation))
        case "clip":
            limit = [] if operation.limit is None else [f"limit_{operation.limit:g}"]
            yield _node("Clip", [*inputs, "zero", *limit], output)
        case "average":
            yield _node("GlobalAveragePool", inputs, f"{output}_square")
            yield _node("Flatten", [f"{output}_square"], output, axis=1)
        case "average_space":
            yield _node("ReduceMean", inputs, f"{output}_columns", axes=(3, 4), keepdims=0)
            yield _node("Transpose", [f"{output}_columns"], output, perm=(0, 2, 1))
        case "concatenate":
            yield _node("Concat", inputs, output, axis=1)
        case "add":
            yield _node("Add", inputs, output)
        case kind:
            raise ValueError(f"there is no ONNX operation for {kind!r}")


def _window(operation: Operation) -> dict[str, Any]:
    before, after = zip(*operation.padding, strict=True)
    return {"kernel_shape": operation.kernel, "strides": operation.stride, "pads": (*before, *after)}


def _node(kind: str, inputs: list[str], output: str, **attributes: Any) -> bytes:
    """NodeProto."""
    fields = [*((1, name) for name in inputs), (2, output), (4, kind)]
    return _message(*fields, *((5, _attribute(name, value)) for name, value in attributes.items()))


def _attribute(name: str, value: Any) -> bytes:
    """AttributeProto: an integer (type 2) or a list of integers (type 7)."""
    if isinstance(value, int):
        return _message((1, name), (3, value), (20, 2))
    return _message((1, name), *((8, item) for item in value), (20, 7))


def _tensor(name: str, array: npt.NDArray[np.float32] | np.float32) -> bytes:
    """TensorProto with raw little-endian data."""
    raw = np.ascontiguousarray(array, "<f4").tobytes()
    return _message(*((1, size) for size in np.shape(array)), (2, FLOAT), (8, name), (9, raw))


def _value_info(name: str, element: int, shape: list[int | str]) -> bytes:
    """ValueInfoProto: a tensor with sizes that are numbers or names."""
    sizes = _message(*((1, _message((1 if isinstance(size, int) else 2, size))) for size in shape))
    return _message((1, name), (2, _message((1, _message((1, element), (2, sizes))))))


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protocol-buffers message: for each field its number and wire type, then a varint, or a length and bytes."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(_varint(number << 3) + _varint(value))
        else:
            content = value.encode() if isinstance(value, str) else value
            parts.append(_varint(number << 3 | 2) + _varint(len(content)) + content)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


PicturesToVectors = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]
WRITER_VERSION = 1  # of the ONNX files in the cache


def run_on(
    device: Device,
    name: str,
    build: Callable[[], Network],
    *,
    frugal: bool = False,
    bfloat16: bool = False,
) -> PicturesToVectors:
    """Make a network callable on a device.

    Args:
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        name: Identifies network and weights, for the cache of ONNX files.
        build: Builds the network; only called if it is needed.
        frugal: Give memory back after each call, as in `OnnxNetwork`.
        bfloat16: Whether a network over time may be computed in bfloat16 where a CPU is faster with it.

    Returns:
        A function from uint8 pictures to float32 vectors.

    Raises:
        ArgumentError: "cuda" was given and torch finds no GPU.
    """
    if network_device(device) == "cuda":
        from densevid.video.torch_network import TorchNetwork

        return TorchNetwork(build(), "cuda")
    if bfloat16 and has_bfloat16_instructions():
        from densevid.video.bfloat16_network import Bfloat16Network

        return Bfloat16Network(build())
    return _onnx_network(name, build, frugal)


def _onnx_network(name: str, build: Callable[[], Network], frugal: bool) -> OnnxNetwork:
    """Load the network from the cache, or build it and cache it if possible."""
    path = cache_folder() / f"{name}-{WRITER_VERSION}.onnx"
    try:
        return OnnxNetwork(path, frugal=frugal)
    except Exception:  # missing, truncated or unreadable: onnxruntime has no common error class
        content = onnx_bytes(build())
    with suppress(OSError, InputError), atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return OnnxNetwork(content, frugal=frugal)
