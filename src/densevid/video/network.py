"""Network: a convolutional network as a list of operations, which two engines run identically.

`TorchNetwork` runs it with torch on a GPU, `OnnxNetwork` with onnxruntime on the CPU. Batch normalisation is folded
into the convolutions beforehand (see `video.weights`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]
Padding = tuple[tuple[int, int], ...]  # (before, after) for each spatial (and temporal) axis


@dataclass(frozen=True)
class Operation:
    """One operation: its kind, input and output values, and the parameters that its kind has."""

    kind: str  # convolve, max_pool, clip, add, concatenate, average, average_space
    inputs: tuple[str, ...]
    output: str
    weight: Weights | None = None
    bias: Weights | None = None
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: Padding = ()
    groups: int = 1
    limit: float | None = None


@dataclass
class Network:
    """A network, built by calling its methods, each of which returns the name of its output value.

    Attributes:
        shape: Shape of one input without channels: (height, width) or (frames, height, width).
        mean: Subtracted from the uint8 input (channels last).
        scale: Factor that follows.
        any_frames: Whether inputs may have another number of frames than `shape`, a multiple of the stride in time;
            it then ends with `average_space`.
        operations: All operations in order.
        output: Name of the last value.
    """

    shape: tuple[int, ...]
    mean: float
    scale: float
    any_frames: bool = False
    operations: list[Operation] = field(default_factory=list)
    output: str = "normalised"
    _sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sizes[self.output] = self.shape

    def convolve(self, value: str, weight: Weights, bias: Weights, stride: int = 1) -> str:
        """Convolution with "same" padding; weights with one input channel per filter make it depthwise."""
        kernel = weight.shape[2:]
        groups = weight.shape[0] if weight.shape[1] == 1 else 1
        size, padding = self._same(value, kernel, (stride,) * len(kernel))
        return self._add(
            "convolve",
            (value,),
            size,
            weight=weight,
            bias=bias,
            kernel=kernel,
            stride=(stride,) * len(kernel),
            padding=padding,
            groups=groups,
        )

    def max_pool(self, value: str, kernel: tuple[int, ...], stride: tuple[int, ...]) -> str:
        """Max pooling with "same" padding."""
        size, padding = self._same(value, kernel, stride)
        return self._add("max_pool", (value,), size, kernel=kernel, stride=stride, padding=padding)

    def clip(self, value: str, limit: float | None = None) -> str:
        """Clip values to 0 .. limit: ReLU, or ReLU6 with a limit of 6."""
        return self._add("clip", (value,), self._sizes[value], limit=limit)

    def add(self, first: str, second: str) -> str:
        """Sum of two values."""
        return self._add("add", (first, second), self._sizes[first])

    def concatenate(self, *values: str) -> str:
        """Concatenate values along the channels."""
        return self._add("concatenate", values, self._sizes[values[0]])

    def average(self, value: str) -> str:
        """Global average pooling: one vector."""
        return self._add("average", (value,), ())

    def average_space(self, value: str) -> str:
        """Average over height and width: one vector per frame that is left, batch x frames x channels."""
        return self._add("average_space", (value,), ())

    def _add(self, kind: str, inputs: tuple[str, ...], size: tuple[int, ...], **settings: object) -> str:
        self.output = f"{kind}_{len(self.operations)}"
        self.operations.append(Operation(kind, inputs, self.output, **settings))  # type: ignore[arg-type]
        self._sizes[self.output] = size
        return self.output

    def _same(self, value: str, kernel: tuple[int, ...], stride: tuple[int, ...]) -> tuple[tuple[int, ...], Padding]:
        """Output size and padding of TensorFlow's "SAME": an odd row of padding is at the end."""
        size = self._sizes[value]
        output = tuple(-(-n // s) for n, s in zip(size, stride, strict=True))
        total = [max((o - 1) * s + k - n, 0) for o, s, k, n in zip(output, stride, kernel, size, strict=True)]
        return output, tuple((t // 2, t - t // 2) for t in total)
