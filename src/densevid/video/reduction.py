"""Reduction: project every stream of features onto principal components (PCA).

A reduction is fitted on some videos and saved; `reduced` applies it to a backbone, for videos that come later. It is
part of the recipe, so features of different fits are never mixed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from densevid.errors import InputError
from densevid.io import tensor_path
from densevid.tracks import FeatureRecipe, FeatureTrack, Streams

if TYPE_CHECKING:  # training loads reductions on machines without a video decoder
    from densevid.device import Device
    from densevid.video.backbones import Backbone, Describe, Seconds, Vectors
    from densevid.video.continuous import ContinuousStream, FrameNetwork
    from densevid.video.windows import Pictures

FILE = "reduction.safetensors"
Array = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Reduction:
    """A fitted PCA of each stream.

    Attributes:
        means: Mean of each stream, by name.
        directions: Orthonormal directions of each stream, width x kept.
    """

    means: dict[str, Array]
    directions: dict[str, Array]

    @classmethod
    def fit(cls, tracks: Iterable[FeatureTrack], kept: int) -> tuple[Reduction, dict[str, float]]:
        """Fit principal components on all steps of some tracks.

        Args:
            tracks: Feature tracks with the same streams.
            kept: Components per stream.

        Returns:
            The reduction, and the share of each stream's variance that it keeps.

        Raises:
            InputError: There are no tracks, or fewer steps or channels than components.
        """
        names: list[str] = []  # of the streams, in their order
        sums: dict[str, tuple[Array, Array]] = {}  # sum of the steps, and sum of their outer products
        counts: dict[str, int] = {}
        for track in tracks:
            names = [name for name, _ in track.streams]
            for name, width in track.streams:
                if name in track.absent:
                    continue
                counts[name] = counts.get(name, 0) + len(track)
                values = np.asarray(track.stream(name), np.float64)
                total, products = sums.setdefault(name, (np.zeros(width), np.zeros((width, width))))
                total += values.sum(axis=0)
                products += values.T @ values
        if not names:
            raise InputError("there is no video to fit the reduction on")
        if missing := [name for name in names if name not in sums]:
            raise InputError(f"no video to fit the reduction on has the stream {', '.join(missing)}")
        fitted = {name: _principal(name, counts[name], *sums[name], kept) for name in names}
        reduction = cls({n: mean for n, (mean, _, _) in fitted.items()}, {n: d for n, (_, d, _) in fitted.items()})
        return reduction, {name: share for name, (_, _, share) in fitted.items()}

    @property
    def streams(self) -> Streams:
        """Names and widths of the reduced streams."""
        return tuple((name, directions.shape[1]) for name, directions in self.directions.items())

    @property
    def table(self) -> dict[str, Any]:
        """The reduction as a part of a recipe: the widths it keeps and a hash of the fit."""
        digest = hashlib.sha256()
        for name in self.means:
            digest.update(name.encode() + self.means[name].tobytes() + self.directions[name].tobytes())
        return {"kind": "principal components", "kept": list(self.widths), "fit": f"sha256:{digest.hexdigest()}"}

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the reduced streams."""
        return tuple(width for _, width in self.streams)

    def recipe(self, of: FeatureRecipe) -> FeatureRecipe:
        """The recipe of features that are made by recipe `of` and then reduced."""
        return FeatureRecipe({**of.table, "reduction": self.table})

    def apply(self, values: Vectors) -> Array:
        """Reduce an array of concatenated streams, steps x width.

        Raises:
            InputError: The array has another width.
        """
        starts = np.cumsum([0, *(len(mean) for mean in self.means.values())])
        if values.shape[1] != starts[-1]:
            raise InputError(f"the reduction is for features {starts[-1]} wide, these are {values.shape[1]}")
        parts = [
            (values[:, start : start + len(mean)].astype(np.float32) - mean) @ self.directions[name]
            for start, (name, mean) in zip(starts, self.means.items(), strict=False)
        ]
        return np.concatenate(parts, axis=1)

    def part(self, *names: str) -> Reduction:
        """The reduction of some of the streams."""
        return Reduction({n: self.means[n] for n in names}, {n: self.directions[n] for n in names})

    def apply_to_track(self, track: FeatureTrack, recipe: FeatureRecipe) -> FeatureTrack:
        """Reduce a track; the clock stays, and the recipe becomes the given one. Absent streams remain zeros."""
        made = replace(track, values=self.apply(track.values), streams=self.streams, recipe=recipe.id)
        for name in track.absent:
            made.stream(name)[:] = 0
        return made

    def save(self, path: Path) -> None:
        """Write it as a safetensors file; names of tensors begin with the index of their stream."""
        arrays = {f"{index}.{name}.mean": mean for index, (name, mean) in enumerate(self.means.items())}
        arrays |= {f"{index}.{name}.directions": d for index, (name, d) in enumerate(self.directions.items())}
        with tensor_path(path) as temporary:
            save_file(arrays, temporary)

    @classmethod
    def load(cls, path: Path | str) -> Reduction:
        """Read a reduction from its file, or from a store that was written with it.

        Raises:
            InputError: There is no such file, or it is not a reduction.
        """
        file = Path(path) / FILE if Path(path).is_dir() else Path(path)
        try:
            arrays = load_file(file)
            order = sorted({key.rpartition(".")[0] for key in arrays}, key=lambda key: int(key.partition(".")[0]))
            means = {key.partition(".")[2]: arrays[f"{key}.mean"] for key in order}
            directions = {key.partition(".")[2]: arrays[f"{key}.directions"] for key in order}
        except FileNotFoundError:
            raise InputError(f"{file}: no such file; a reduced store has one called {FILE}") from None
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise InputError(f"{file}: not a reduction ({error})") from error
        if not means or any(directions[name].shape[:1] != mean.shape for name, mean in means.items()):
            raise InputError(f"{file}: not a reduction, its arrays do not fit each other")
        return cls(means, directions)


def reduced(backbone: Backbone, reduction: Reduction) -> Backbone:
    """A backbone followed by a reduction.

    Raises:
        InputError: The reduction was fitted on other streams.
    """
    fitted_on = tuple((name, len(mean)) for name, mean in reduction.means.items())
    if fitted_on != backbone.streams:
        raise InputError(f"the reduction was fitted on {fitted_on}, backbone {backbone.name} has {backbone.streams}")
    last = backbone.continuous
    names = [name for name, _ in backbone.streams if not last or name != last.name]
    made = replace(
        backbone,
        streams=reduction.streams,
        load=_LoadReduced(backbone, reduction.part(*names)),
        reduction=reduction.table,
    )
    if last is None:
        return made
    part = reduction.part(last.name)
    return replace(made, continuous=replace(last, width=part.widths[0], load=_LoadReducedRuns(last, part)))


@dataclass(frozen=True)
class _LoadReduced:
    """`load` of a reduced backbone; a class, so that it can be pickled for a worker."""

    backbone: Backbone
    reduction: Reduction

    def __call__(self, device: Device) -> Describe:
        describe = self.backbone.load(device)

        def describe_and_reduce(pictures: Pictures, seconds: Seconds) -> Vectors:
            return self.reduction.apply(describe(pictures, seconds))

        return describe_and_reduce


@dataclass(frozen=True)
class _LoadReducedRuns:
    """`load` of a reduced continuous stream."""

    stream: ContinuousStream
    reduction: Reduction

    def __call__(self, device: Device) -> FrameNetwork:
        network = self.stream.load(device)
        return lambda pictures: self.reduction.apply(network(pictures)[0])[None]


def _principal(name: str, count: int, total: Array, products: Array, kept: int) -> tuple[Array, Array, float]:
    """Mean, leading directions, and their share of the variance, from sums over all steps."""
    mean = total / count
    width = len(mean)
    if not 0 < kept <= width or count < kept:
        raise InputError(f"cannot keep {kept} of stream {name}: it is {width} wide, and {count} steps are fitted on")
    variances, directions = np.linalg.eigh(products / count - np.outer(mean, mean))
    leading = directions[:, ::-1][:, :kept]
    largest = leading[np.abs(leading).argmax(axis=0), np.arange(kept)]
    leading = leading * np.sign(largest)  # the sign of a direction is arbitrary: make its largest component positive
    share = float(variances[::-1][:kept].sum() / max(variances.sum(), np.finfo(np.float64).tiny))
    return mean.astype(np.float32), np.ascontiguousarray(leading, np.float32), share
