"""Bfloat16Network: run a network of three dimensions on a CPU that has bfloat16 instructions, with torch.

It takes a fifth to two fifths of onnxruntime's time; its vectors differ from float32 ones by about 1% of their length.
Values lie in memory with their channels last. Large ones are computed in blocks of frames, which stay in the cache and
keep memory small; a block reads whole values, so the numbers do not depend on its size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from densevid.video.network import Network, Operation

BLOCK_BYTES = 16 << 20  # of the largest value of a block
KINDS = ("convolve", "clip", "max_pool", "concatenate", "average_space")
FEW_CHANNELS = 8  # fewer leave the instructions idle


@dataclass(frozen=True)
class Group:
    """Operations that follow each other; those after the first read every frame by itself."""

    operations: tuple[Operation, ...]

    @property
    def output(self) -> str:
        """The name of its value."""
        return self.operations[-1].output


class Bfloat16Network:
    """A network as a thread-safe function from one sequence of uint8 pictures to vectors.

    One call runs at a time, on all threads of torch: two at once would only hold more memory.

    Args:
        network: A network of three dimensions that ends with `average_space`; a ReLU follows every convolution.
        dtype: Another precision, to compare with.

    Raises:
        ValueError: The network is another one.
    """

    def __init__(self, network: Network, dtype: torch.dtype = torch.bfloat16) -> None:
        self._network, self._dtype = network, dtype
        self._groups = tuple(_groups(network))
        self._convolutions = {
            operation.output: _Convolution(operation, dtype, network.scale)
            for group in self._groups
            for operation in group.operations
            if operation.kind == "convolve"
        }
        self._last_use = {name: group.output for group in self._groups for name in group.operations[0].inputs}
        self._lock = Lock()

    @torch.inference_mode()
    def __call__(self, pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """The vectors of 1 x frames x height x width x 3 pictures."""
        with self._lock:
            values = {"normalised": torch.from_numpy(np.ascontiguousarray(pictures))}
            for group in self._groups:
                inputs = [values[name] for name in group.operations[0].inputs]
                values[group.output] = self._run_group(group, inputs)
                for name in group.operations[0].inputs:
                    if self._last_use[name] == group.output:
                        values.pop(name, None)
            return np.asarray(values[self._network.output].numpy())

    def _run_group(self, group: Group, inputs: list[Tensor]) -> Tensor:
        first, *others = group.operations
        if first.kind != "convolve":
            return self._run(first, inputs)
        [value] = inputs
        count = (value.shape[1] + sum(first.padding[0]) - first.kernel[0]) // first.stride[0] + 1
        frames = self._frames_of_block(first, value)
        whole: Tensor | None = None
        for begin in range(0, count, frames):
            end = min(count, begin + frames)
            block = self._convolutions[first.output](self._read(first, value, begin, end))
            for operation in others:
                block = self._run(operation, [block])
            if frames >= count:
                return block
            whole = block.new_empty(1, count, *block.shape[2:]) if whole is None else whole
            whole[:, begin:end] = block
        assert whole is not None
        return whole

    def _frames_of_block(self, convolution: Operation, value: Tensor) -> int:
        height, width = (
            -(-size // stride) for size, stride in zip(value.shape[2:4], convolution.stride[1:], strict=True)
        )
        assert convolution.weight is not None
        return max(1, BLOCK_BYTES // (height * width * len(convolution.weight) * self._dtype.itemsize))

    def _read(self, convolution: Operation, value: Tensor, begin: int, end: int) -> Tensor:
        """The frames that outputs begin .. end of a convolution read, padded in time."""
        first = convolution.padding[0][0]
        start = begin * convolution.stride[0] - first
        stop = (end - 1) * convolution.stride[0] - first + convolution.kernel[0]
        read = value[:, max(0, start) : stop]
        if value.dtype == torch.uint8:
            read = read.to(self._dtype) - self._network.mean
        before, after = max(0, -start), max(0, stop - value.shape[1])
        return functional.pad(read, (0, 0, 0, 0, 0, 0, before, after)) if before or after else read

    def _run(self, operation: Operation, inputs: list[Tensor]) -> Tensor:
        match operation.kind:
            case "convolve":
                return self._convolutions[operation.output](inputs[0])
            case "max_pool":
                value = inputs[0]
                for axis, padding in enumerate(operation.padding):
                    value = _max_along(value, axis + 1, operation.kernel[axis], operation.stride[axis], padding)
                return value
            case "concatenate":
                return torch.cat(inputs, dim=-1)
            case "average_space":
                return inputs[0].float().mean((2, 3))
        raise AssertionError(operation.kind)


class _Convolution:
    """A convolution and the ReLU behind it; its padding in time is the caller's."""

    def __init__(self, operation: Operation, dtype: torch.dtype, scale: float) -> None:
        assert operation.weight is not None and operation.bias is not None
        reads_pictures = operation.inputs == ("normalised",)
        weight = torch.from_numpy(operation.weight) * (scale if reads_pictures else 1.0)
        self._bias = torch.from_numpy(operation.bias).to(dtype)
        self._stride = list(operation.stride)
        (top, bottom), (left, right) = operation.padding[1:]
        self._symmetric = top == bottom and left == right  # else it is padded here
        self._padding = [0, top, left] if self._symmetric else [0, 0, 0]
        self._pad = (0, 0, left, right, top, bottom)
        self._pairs = not self._symmetric and self._stride[2] == 2 and weight.shape[1] < FEW_CHANNELS
        if self._pairs:  # two columns become one with twice the channels
            weight = functional.pad(weight, (0, weight.shape[-1] % 2))
            weight = weight.unflatten(-1, (-1, 2)).movedim(-1, 1).flatten(1, 2)
            self._stride[2] = 1
        self._weight = weight.to(dtype).contiguous(memory_format=torch.channels_last_3d)

    def __call__(self, value: Tensor) -> Tensor:
        """Convolve frames (1 x time x height x width x channels), which are padded in time."""
        if not self._symmetric:
            value = functional.pad(value, self._pad)
        if self._pairs:
            value = functional.pad(value, (0, 0, 0, value.shape[3] % 2))
            value = value.unflatten(3, (-1, 2)).flatten(4)
        channels_first = value.permute(0, 4, 1, 2, 3)
        result = torch.conv3d(channels_first, self._weight, self._bias, self._stride, self._padding)
        return result.relu_().permute(0, 2, 3, 4, 1)


def _max_along(value: Tensor, axis: int, kernel: int, stride: int, padding: tuple[int, int]) -> Tensor:
    """The maxima of windows along an axis; values are not negative (ReLU), so zeros pad them."""
    if kernel == 1:
        return value
    pad = [0, 0] * (value.ndim - 1 - axis) + list(padding)
    padded = functional.pad(value, pad) if any(padding) else value
    count = (padded.shape[axis] - kernel) // stride + 1

    def shifted(offset: int) -> Tensor:
        part = padded.narrow(axis, offset, (count - 1) * stride + 1)
        return part[(slice(None),) * axis + (slice(None, None, stride),)]

    result = torch.maximum(shifted(0), shifted(1))
    for offset in range(2, kernel):
        torch.maximum(result, shifted(offset), out=result)
    return result


def _groups(network: Network) -> Iterator[Group]:
    """The operations in groups, without the ReLUs, which belong to the convolutions."""
    renamed = {operation.output: operation.inputs[0] for operation in network.operations if operation.kind == "clip"}
    kept = [
        replace(operation, inputs=tuple(renamed.get(name, name) for name in operation.inputs))
        for operation in network.operations
        if operation.kind != "clip"
    ]
    rectified = {operation.inputs[0] for operation in network.operations if operation.kind == "clip"}
    for operation in network.operations:
        if operation.limit is not None or (operation.kind == "convolve" and operation.output not in rectified):
            raise ValueError(f"not a convolution with a ReLU behind it: {operation.kind} {operation.output}")
        if operation.groups != 1 or operation.kind not in KINDS:
            raise ValueError(f"no such operation in three dimensions: {operation.kind} with {operation.groups} groups")
    uses = Counter(name for operation in kept for name in operation.inputs)
    group: list[Operation] = []
    for operation in kept:
        each_frame = operation.kernel[:1] == (1,) and operation.stride[:1] == (1,)
        follows = bool(group) and operation.inputs == (group[-1].output,) and uses[group[-1].output] == 1
        if follows and each_frame and group[0].kind == "convolve":
            group.append(operation)
            continue
        if group:
            yield Group(tuple(group))
        group = [operation]
    yield Group(tuple(group))
