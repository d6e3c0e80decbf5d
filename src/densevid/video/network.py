"""A convolutional network as a plain list of operations, so that two engines can run the very same one.

torch runs it on a GPU (`TorchNetwork`), onnxruntime on a CPU (`onnx_file`). Both read the list below; neither knows
which network it is. Batch normalisation is folded into the convolutions before they get here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]
Padding = tuple[tuple[int, int], ...]  # (before, after) for every axis of space (and time)


@dataclass(frozen=True)
class Operation:
    """One step: what it does, the values it reads and the one it makes; only what its kind uses is set."""

    kind: str  # convolve, max_pool, clip, add, concatenate, average
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
    """Operations in order, built by calling its methods; `pictures` uint8, channels last, become (x - mean) x scale."""

    shape: tuple[int, ...]  # of one input without its channels: (height, width) or (frames, height, width)
    mean: float
    scale: float
    operations: list[Operation] = field(default_factory=list)
    output: str = "normalised"
    _sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sizes[self.output] = self.shape

    def convolve(self, value: str, weight: Weights, bias: Weights, stride: int = 1) -> str:
        """A convolution whose output is as large as its input / stride; one input channel a filter means depthwise."""
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
        """The largest value of every window; beyond the border there is nothing."""
        size, padding = self._same(value, kernel, stride)
        return self._add("max_pool", (value,), size, kernel=kernel, stride=stride, padding=padding)

    def clip(self, value: str, limit: float | None = None) -> str:
        """Nothing below 0, nothing above `limit`."""
        return self._add("clip", (value,), self._sizes[value], limit=limit)

    def add(self, first: str, second: str) -> str:
        """The sum of two values."""
        return self._add("add", (first, second), self._sizes[first])

    def concatenate(self, *values: str) -> str:
        """The channels of all values, one after the other."""
        return self._add("concatenate", values, self._sizes[values[0]])

    def average(self, value: str) -> str:
        """The mean over space (and time): one vector."""
        return self._add("average", (value,), ())

    def _add(self, kind: str, inputs: tuple[str, ...], size: tuple[int, ...], **settings: object) -> str:
        self.output = f"{kind}_{len(self.operations)}"
        self.operations.append(Operation(kind, inputs, self.output, **settings))  # type: ignore[arg-type]
        self._sizes[self.output] = size
        return self.output

    def _same(self, value: str, kernel: tuple[int, ...], stride: tuple[int, ...]) -> tuple[tuple[int, ...], Padding]:
        """Size and padding of TensorFlow's "SAME": the odd row of padding goes to the end."""
        size = self._sizes[value]
        output = tuple(-(-n // s) for n, s in zip(size, stride, strict=True))
        total = [max((o - 1) * s + k - n, 0) for o, s, k, n in zip(output, stride, kernel, size, strict=True)]
        return output, tuple((t // 2, t - t // 2) for t in total)
