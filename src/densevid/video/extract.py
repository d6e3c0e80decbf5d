"""A video file becomes a feature track: frames through a backbone, with the clock that the frames gave.

Decoding runs in the calling thread, the networks in others, and the two overlap; what waits between them is bounded.

A recipe becomes the extractor that follows it: how a model's own kind of features is made from a new video.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from densevid.errors import InputError
from densevid.progress import ProgressCallback, no_progress
from densevid.tracks import Clock, FeatureRecipe, FeatureTrack
from densevid.video.backbones import DEFAULT, Backbone, Describe, Vectors, find_backbone
from densevid.video.engines import Device
from densevid.video.frames import VideoSteps
from densevid.video.reduction import FILE, Reduction, reduced
from densevid.video.windows import Step

STEPS_AT_ONCE = 8  # the batch at which one core does most pictures a second


def extract(
    path: Path | str, *, backbone: str | Backbone = DEFAULT, seconds_per_step: float = 0.5, device: Device = "auto"
) -> FeatureTrack:
    """Compute the features of one video file.

        >>> track = densevid.extract("video.mp4", backbone="appearance")
        >>> len(track), track.widths
        (12, (1280,))

    Args:
        path: The video file. If it can only be read in part, a warning says so and that part is returned.
        backbone: What describes the frames, by a name that `densevid extract --help` lists or as a `Backbone`.
        seconds_per_step: How much time a step of the track covers.
        device: "cpu", "cuda", or "auto" for a GPU where there is one.

    Returns:
        The features of every step, with the clock that maps steps to seconds.

    Raises:
        InputError: The file cannot be read as a video, or there is no such backbone.
    """
    if not isinstance(path, str | Path):
        raise InputError("extract takes the path of one video; extract_many(inputs, out=STORE) takes several")
    chosen = find_backbone(backbone) if isinstance(backbone, str) else backbone
    track, problem = Extractor(chosen, seconds_per_step, device=device).extract(path)
    if problem:
        warnings.warn(f"{path}: {problem}", stacklevel=2)
    return track


class Extractor:
    """One backbone, loaded when first used and then used for any number of videos."""

    def __init__(
        self,
        backbone: Backbone,
        seconds_per_step: float = 0.5,
        *,
        device: Device = "auto",
        threads: int | None = None,
        dtype: str = "float16",
    ) -> None:
        self.backbone, self.dtype = backbone, np.dtype(dtype)
        self.sampling = backbone.sampling(seconds_per_step)
        self.threads = threads or usable_cores()
        self._device = device

    @cached_property
    def recipe(self) -> FeatureRecipe:
        """How its tracks are made."""
        return self.backbone.recipe(self.sampling.seconds_per_step)

    @cached_property
    def _describe(self) -> Describe:
        return self.backbone.load(self._device)

    def extract(self, path: Path | str, on_progress: ProgressCallback = no_progress) -> tuple[FeatureTrack, str | None]:
        """The track of one file, and what could not be read of it."""
        times: list[float] = []
        with VideoSteps(path, self.sampling, decoder_threads=self.threads) as video:
            total = max(1.0, (video.declared or 0.0) / self.sampling.seconds_per_step)
            steps = _watched(_remembering(video, times), lambda count: on_progress("decode", min(1.0, count / total)))
            values = _joined(self._vectors(steps, lambda count: on_progress("features", min(1.0, count / total))))
            try:
                clock = Clock.from_edges([*times, video.end])
                track = FeatureTrack(values, clock, self.backbone.streams, self.recipe.id, video.end)
            except InputError as error:
                raise InputError(f"{path}: {error}") from error
            return track, video.warning

    def _vectors(self, steps: Iterator[Step], described: Callable[[int], None]) -> Iterator[Vectors]:
        """Batches of steps through the backbone, in order, as many at a time as there are threads."""
        done = 0
        with ThreadPoolExecutor(self.threads, thread_name_prefix="backbone") as pool:
            running: deque[Future[Vectors]] = deque()
            while batch := list(islice(steps, STEPS_AT_ONCE)):
                running.append(pool.submit(self._batch_vectors, batch))
                if len(running) > self.threads:
                    yield running.popleft().result()
                    described(done := done + STEPS_AT_ONCE)
            while running:
                yield running.popleft().result()

    def _batch_vectors(self, batch: list[Step]) -> Vectors:
        pictures_SFHWC = np.stack([step.pictures_FHWC for step in batch])
        vectors = self._describe(pictures_SFHWC, np.stack([step.seconds_F for step in batch]))
        with np.errstate(over="ignore"):
            kept = vectors.astype(self.dtype)
        if not np.isfinite(kept).all():
            raise InputError(f"backbone {self.backbone.name} gave values that {self.dtype} cannot hold")
        return kept


def usable_cores() -> int:
    """The cores this process may use, which need not be all of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _remembering(video: VideoSteps, times: list[float]) -> Iterator[Step]:
    """The steps of a video, their times noted on the way."""
    for step in video:
        times.append(step.time)
        yield step


def _watched(steps: Iterator[Step], count: Callable[[int], None]) -> Iterator[Step]:
    """The steps, each counted as it passes."""
    for number, step in enumerate(steps, start=1):
        yield step
        count(number)


def _joined(parts: Iterator[Vectors]) -> Vectors:
    """All parts as one array, over bytes that grow in place: those of a long video are too large to be held twice."""
    first = next(parts)
    held = bytearray(first.tobytes())
    for part in parts:
        held += part.tobytes()
    return np.frombuffer(held, first.dtype).reshape(-1, first.shape[1])


def extractor_of(
    recipe: FeatureRecipe, reduction: Reduction | None = None, *, device: Device = "auto", threads: int | None = None
) -> Extractor:
    """The extractor whose tracks have exactly this recipe, or one line that says what is in the way."""
    sampling: Any = recipe.table.get("sampling")
    if not isinstance(sampling, dict) or not isinstance(sampling.get("seconds_per_step"), float | int):
        raise InputError(
            f"the model reads features ({recipe.name}) that are not made from a video here; give it a feature store"
        )
    backbone = _with_reduction(find_backbone(recipe.name), recipe, reduction)
    extractor = Extractor(backbone, float(sampling["seconds_per_step"]), device=device, threads=threads)
    if extractor.recipe.id != recipe.id:
        keys = ", ".join(recipe.differences(extractor.recipe))
        raise InputError(
            f"the model was trained on features {recipe.id}, this densevid makes {extractor.recipe.id} (not the same:"
            f" {keys}); install the densevid or the weights that the model was trained with"
        )
    return extractor


def _with_reduction(backbone: Backbone, recipe: FeatureRecipe, reduction: Reduction | None) -> Backbone:
    if "reduction" not in recipe.table:
        return backbone
    if reduction is None:
        raise InputError(
            f"the model reads reduced features and has no {FILE}; copy it from the store it was trained on"
            " into the model folder"
        )
    return reduced(backbone, reduction)
