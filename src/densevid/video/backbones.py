"""Backbones: functions from the pictures of a step to its feature vector, by name, each with a recipe.

`two-stream` is the default: EfficientNet-Lite0 on the frame, and on the optical flow over five frames.
`scenes-and-actions` is EfficientNet-Lite0 on the frame, and I3D on continuous frames (`video.continuous`). Your own
network is a function from pictures to vectors, used as `--backbone module:function` or after `register`:

    def colours(pictures):                       # uint8, steps x frames x size x size x 3, RGB
        return pictures.mean(axis=(1, 2, 3))     # steps x width

    mine = plug_in(colours, frames_per_step=1, size=64, version="1")      # only if the defaults do not fit
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from densevid.device import Device
from densevid.errors import InputError, one_line
from densevid.io import fingerprint
from densevid.tracks import FeatureRecipe, Streams
from densevid.video.continuous import ContinuousSampling, ContinuousStream
from densevid.video.engines import run_on
from densevid.video.windows import Pictures, Sampling

Vectors = npt.NDArray[np.floating[Any]]
Seconds = npt.NDArray[np.float64]
Describe = Callable[[Pictures, Seconds], Vectors]  # (steps x frames x ..., steps x frames) -> steps x width
DEFAULT = "two-stream"
SAMPLING_RULE = "nearest presentation time"
RESIZING = "whole picture, bilinear, squeezed to a square"


@dataclass(frozen=True)
class Backbone:
    """A backbone: how the pictures of a step become a vector.

    Attributes:
        name: Name by which `densevid extract --backbone` finds it.
        version: Changes whenever the vectors do.
        streams: Names and widths of the vector's parts.
        frames_per_step: Consecutive frames it reads per step.
        size: Side of its square input pictures.
        weights: Hash of its weights.
        preprocessing: What is done to the pictures, for the recipe.
        load: Loads the function for a device, without the continuous stream; only called where it runs.
        reduction: The recipe of a PCA that follows, if any.
        continuous: The last of the streams where that is made of continuous frames; it may be absent.
    """

    name: str
    version: str
    streams: Streams
    frames_per_step: int
    size: int
    weights: str
    preprocessing: Mapping[str, Any]
    load: Callable[[Device], Describe]
    reduction: Mapping[str, Any] | None = None
    continuous: ContinuousStream | None = None

    def sampling(self, seconds_per_step: float, *, absent: Sequence[str] = ()) -> Sampling:
        """How videos are sampled for it, without the streams that are `absent`."""
        stream = self.continuous
        continuous = stream.sampling if stream and stream.name not in absent else None
        return Sampling(seconds_per_step, self.frames_per_step, self.size, continuous)

    def recipe(self, seconds_per_step: float) -> FeatureRecipe:
        """The recipe of its features, which contains everything that changes their values."""
        return FeatureRecipe(
            {
                "name": self.name,
                "version": self.version,
                "weights": self.weights,
                "sampling": {
                    "seconds_per_step": seconds_per_step,
                    "frames_per_step": self.frames_per_step,
                    "rule": SAMPLING_RULE,
                },
                "preprocessing": {"size": self.size, "resize": RESIZING, **self.preprocessing},
                **({self.continuous.name: self.continuous.table} if self.continuous else {}),
                **({"reduction": self.reduction} if self.reduction else {}),
            }
        )


def find_backbone(name: str) -> Backbone:
    """Find a backbone.

    Args:
        name: A registered name, or `module:function` for your own.

    Returns:
        The backbone.

    Raises:
        InputError: There is no such backbone, or it cannot be imported.
    """
    if name in _REGISTRY:
        return _REGISTRY[name]()
    if ":" in name:
        return _import_backbone(name)
    known = ", ".join(backbone_names())
    raise InputError(f"there is no backbone {name!r}; there are {known}, or module:function for one of your own")


def backbone_names() -> list[str]:
    """All registered names."""
    return list(_REGISTRY)


def register(backbone: Backbone) -> None:
    """Register a backbone by its name, for this process."""
    _REGISTRY[backbone.name] = lambda: backbone


def plug_in(
    function: Callable[[Pictures], Any],
    *,
    name: str | None = None,
    version: str = "1",
    frames_per_step: int = 1,
    size: int = 224,
    weights: Path | str | None = None,
) -> Backbone:
    """Make a backbone of any function from pictures to vectors. It is called once on black pictures to find its width.

    Args:
        function: Takes uint8 pictures, steps x frames x size x size x 3 (RGB); returns numbers, steps x width.
        name: Name of the backbone; `module:function` by default.
        version: Change it whenever the vectors change.
        frames_per_step: Consecutive frames per step.
        size: Side of the square pictures.
        weights: Weights file whose hash becomes part of the recipe; by default the function's source file.

    Returns:
        The backbone.

    Raises:
        InputError: The weights file is missing, or the function fails or returns something else.
    """
    own_name = name or f"{function.__module__}:{function.__qualname__}"
    if weights is not None and not Path(weights).is_file():
        raise InputError(f"backbone {own_name}: its weights file {weights} is not there")
    describe = partial(_call_plug_in, own_name, function)
    black = np.zeros((2, frames_per_step, size, size, 3), np.uint8)
    try:
        width = describe(black, np.zeros((2, frames_per_step))).shape[1]
    except InputError:
        raise
    except Exception as error:  # a user's function may raise anything
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"backbone {own_name}: fails on black pictures of shape {black.shape} ({reason})") from error
    made_of = weights or inspect.getsourcefile(function)
    digest = fingerprint(made_of) if made_of and Path(made_of).is_file() else "unknown"
    stream = own_name.rpartition(":")[2]
    return Backbone(own_name, version, ((stream, width),), frames_per_step, size, digest, {}, _Loaded(describe))


@dataclass(frozen=True)
class _Loaded:
    """`load` of a function that needs no loading; a class, so that it can be pickled for a worker."""

    describe: Describe

    def __call__(self, device: Device) -> Describe:
        return self.describe


def _call_plug_in(name: str, function: Callable[[Pictures], Any], pictures: Pictures, seconds: Seconds) -> Vectors:
    vectors = np.asarray(function(pictures))
    if vectors.ndim != 2 or len(vectors) != len(pictures) or vectors.shape[1] == 0 or vectors.dtype.kind not in "fiu":
        raise InputError(
            f"backbone {name}: got {len(pictures)} steps and must return as many vectors of numbers, "
            f"returned {vectors.dtype} {vectors.shape}"
        )
    return vectors.astype(np.float32, copy=False)


def _import_backbone(name: str) -> Backbone:
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:  # noqa: PTH109
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found = getattr(import_module(module), attribute)
    except InputError:
        raise
    except Exception as error:  # a user's module may raise anything
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"backbone {name}: cannot be imported ({reason})") from error
    if isinstance(found, Backbone):
        return found
    if not callable(found):
        raise InputError(f"backbone {name}: must be a function from pictures to vectors, not {found!r:.60}")
    return plug_in(found, name=name)


@cache
def _efficientnet_hash() -> str:
    from densevid.video.weights import efficientnet_file

    return fingerprint(efficientnet_file())


def _appearance() -> Backbone:
    streams = (("appearance", 1280),)
    normalisation = {"normalisation": "(x - 127) / 128"}
    return Backbone("appearance", "1", streams, 1, 224, _efficientnet_hash(), normalisation, _load_appearance)


def _two_stream() -> Backbone:
    from densevid.video.windows import FASTEST, UNIT

    preprocessing = {
        "normalisation": "(x - 127) / 128",
        "flow": "DIS fast, mean of the run, pixels per unit; red right, green down, blue speed",
        "flow_fastest": FASTEST,
        "flow_unit_seconds": UNIT,
    }
    streams = (("appearance", 1280), ("motion", 1280))
    return Backbone("two-stream", "1", streams, 5, 224, _efficientnet_hash(), preprocessing, _load_two_stream)


def _scenes_and_actions() -> Backbone:
    from densevid.video.weights import I3D_WEIGHTS, i3d_problem

    streams = (("appearance", 1280), ("actions", 1024))
    preprocessing = {"normalisation": "(x - 127) / 128"}
    actions = ContinuousStream(
        name="actions",
        width=1024,
        sampling=ContinuousSampling(),
        weights=I3D_WEIGHTS,
        preprocessing={
            "normalisation": "(x - 127.5) / 127.5",
            "resize": "bilinear, squeezed to a square",
        },
        load=_load_actions,
        problem=i3d_problem,
    )
    return Backbone(
        "scenes-and-actions",
        "1",
        streams,
        1,
        224,
        _efficientnet_hash(),
        preprocessing,
        _load_appearance,
        continuous=actions,
    )


def _i3d() -> Backbone:
    from densevid.video.weights import i3d_file

    preprocessing = {"normalisation": "(x - 127.5) / 127.5"}
    return Backbone("i3d", "1", (("i3d", 1024),), 16, 224, fingerprint(i3d_file()), preprocessing, _load_i3d)


def _load_appearance(device: Device) -> Describe:
    network = _efficientnet(device)
    return lambda pictures, seconds: network(pictures[:, 0])


def _load_two_stream(device: Device) -> Describe:
    from densevid.video.windows import flow_pictures

    network = _efficientnet(device)

    def describe(pictures_SFHWC: Pictures, seconds_SF: Seconds) -> Vectors:
        appearance = network(pictures_SFHWC[:, 0])
        return np.concatenate([appearance, network(flow_pictures(pictures_SFHWC, seconds_SF))], axis=1)

    return describe


def _load_i3d(device: Device) -> Describe:
    from densevid.video.weights import i3d, i3d_file

    name = f"i3d-{fingerprint(i3d_file())[-16:]}"
    network = run_on(device, name, partial(i3d, 16))
    return lambda pictures, seconds: network(pictures)


def _load_actions(device: Device) -> Callable[[Pictures], npt.NDArray[np.float32]]:
    from densevid.video.weights import I3D_WEIGHTS, i3d_over_time

    return run_on(device, f"i3d-over-time-{I3D_WEIGHTS[-16:]}", i3d_over_time, frugal=True, bfloat16=True)


def _efficientnet(device: Device) -> Callable[[Pictures], npt.NDArray[np.float32]]:
    from densevid.video.weights import efficientnet_lite0

    return run_on(device, f"efficientnet-lite0-{_efficientnet_hash()[-16:]}", efficientnet_lite0)


_REGISTRY: dict[str, Callable[[], Backbone]] = {
    "two-stream": _two_stream,
    "appearance": _appearance,
    "scenes-and-actions": _scenes_and_actions,
    "i3d": _i3d,
}
