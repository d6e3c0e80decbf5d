"""TorchNetwork: run a `Network` with torch, on a GPU (and in tests on the CPU, to compare with onnxruntime)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from densevid.video.network import Network, Operation


class TorchNetwork:
    """A network on a device of torch: a function from uint8 pictures to vectors."""

    def __init__(self, network: Network, device: str) -> None:
        self._network, self._device = network, torch.device(device)
        self._tensors = {
            operation.output: tuple(torch.from_numpy(x).to(self._device) for x in (operation.weight, operation.bias))
            for operation in network.operations
            if operation.weight is not None and operation.bias is not None
        }

    @torch.inference_mode()
    def __call__(self, pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """One vector per picture (or sequence of pictures)."""
        on_device = torch.from_numpy(np.ascontiguousarray(pictures)).to(self._device)
        normalised = (on_device.movedim(-1, 1).float() - self._network.mean) * self._network.scale
        values = {"normalised": normalised}
        with torch.backends.cudnn.flags(allow_tf32=False):  # TF32 has 10 bits of mantissa and would differ from the CPU
            for operation in self._network.operations:
                values[operation.output] = self._run(operation, [values[name] for name in operation.inputs])
        return np.asarray(values[self._network.output].cpu().numpy())

    def _run(self, operation: Operation, inputs: list[Tensor]) -> Tensor:
        match operation.kind:
            case "convolve":
                weight, bias = self._tensors[operation.output]
                convolve: Callable[..., Tensor] = (functional.conv2d, functional.conv3d)[weight.ndim - 4]
                padded = _pad(inputs[0], operation, 0.0)
                return convolve(padded, weight, bias, operation.stride, groups=operation.groups)
            case "max_pool":
                pool: Callable[..., Tensor] = (functional.max_pool2d, functional.max_pool3d)[len(operation.kernel) - 2]
                return pool(_pad(inputs[0], operation, -torch.inf), operation.kernel, operation.stride)
            case "clip":
                return inputs[0].clamp(0, operation.limit)
            case "add":
                return inputs[0] + inputs[1]
            case "concatenate":
                return torch.cat(inputs, dim=1)
            case "average":
                return inputs[0].flatten(2).mean(2)
            case "average_space":
                return inputs[0].mean((3, 4)).transpose(1, 2)
        raise ValueError(f"no such operation: {operation.kind}")


def _pad(value: Tensor, operation: Operation, filler: float) -> Tensor:
    """Pad a value; torch lists axes from the last to the first."""
    return functional.pad(value, [n for sides in reversed(operation.padding) for n in sides], value=filler)


def read_torch_weights(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    """Read the arrays of a torch weights file, without executing pickled code."""
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.numpy() for name, tensor in tensors.items()}
