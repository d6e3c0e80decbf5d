"""Extract features: the frames of a video file through a backbone become a FeatureTrack.

Decoding runs in the calling thread and the backbone in other threads, with a bounded queue between them. `extract` is
the public function for one file, `data.extraction.extract_many` for many; `extractor_of` makes the extractor that
follows the recipe of a model.
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

from densevid.device import Device
from densevid.errors import InputError
from densevid.progress import ProgressCallback, no_progress
from densevid.tracks import Clock, FeatureRecipe, FeatureTrack
from densevid.video.backbones import DEFAULT, Backbone, Describe, Vectors, find_backbone
from densevid.video.continuous import ContinuousVectors, FrameNetwork, FrameRun
from densevid.video.frames import VideoSteps
from densevid.video.reduction import FILE, Reduction, reduced
from densevid.video.windows import Step

STEPS_AT_ONCE = 8  # batch size with the highest throughput per core


def extract(
    path: Path | str,
    *,
    backbone: str | Backbone = DEFAULT,
    seconds_per_step: float = 0.5,
    device: Device = "auto",
    fast: bool = False,
) -> FeatureTrack:
    """Compute the features of one video file.

        >>> track = densevid.extract("video.mp4", backbone="appearance")
        >>> len(track), track.widths
        (12, (1280,))

    Args:
        path: The video file. If only a part can be read, that part is returned with a warning.
        backbone: What describes the frames, by a name that `densevid extract --help` lists or as a `Backbone`.
        seconds_per_step: How much time a step of the track covers.
        device: "cpu", "cuda", or "auto" for a GPU where there is one.
        fast: Leave out the stream that takes most of the time (the actions of `scenes-and-actions`).

    Returns:
        The features of every step, with the clock that maps steps to seconds.

    Raises:
        InputError: The file cannot be read as a video, or there is no such backbone.
    """
    if not isinstance(path, str | Path):
        raise InputError("extract takes the path of one video; extract_many(inputs, out=STORE) takes several")
    chosen = find_backbone(backbone) if isinstance(backbone, str) else backbone
    extractor = Extractor(chosen, seconds_per_step, device=device, fast=fast)
    track, problem = extractor.extract(path)
    for line in (extractor.notice, problem and f"{path}: {problem}"):
        if line:
            warnings.warn(line, stacklevel=2)
    return track


class Extractor:
    """A backbone that is loaded on first use and then extracts any number of videos.

    Args:
        backbone: What describes the frames.
        seconds_per_step: Length of a step.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        threads: Threads for decoding and for the backbone; one per core by default.
        dtype: Precision of the features.
        fast: Leave out the continuous stream.

    Attributes:
        absent: Streams of the backbone that its tracks do not have.
        notice: A line about a stream that cannot be made here, with the remedy; None if all can.
    """

    def __init__(
        self,
        backbone: Backbone,
        seconds_per_step: float = 0.5,
        *,
        device: Device = "auto",
        threads: int | None = None,
        dtype: str = "float16",
        fast: bool = False,
    ) -> None:
        self.backbone, self.dtype = backbone, np.dtype(dtype)
        stream = backbone.continuous
        problem = stream.problem() if stream and not fast else None
        self.notice = f"features without the stream {stream.name}: {problem}" if stream and problem else None
        self.absent = (stream.name,) if stream and (fast or problem) else ()
        self.sampling = backbone.sampling(seconds_per_step, absent=self.absent)
        self.threads = threads or usable_cores()
        self._device = device

    @cached_property
    def recipe(self) -> FeatureRecipe:
        """The recipe of its tracks."""
        return self.backbone.recipe(self.sampling.seconds_per_step)

    @cached_property
    def _describe(self) -> Describe:
        return self.backbone.load(self._device)

    @cached_property
    def _network(self) -> FrameNetwork:
        """The network of the continuous stream."""
        assert self.backbone.continuous is not None
        return self.backbone.continuous.load(self._device)

    def extract(self, path: Path | str, on_progress: ProgressCallback = no_progress) -> tuple[FeatureTrack, str | None]:
        """Extract one file.

        Args:
            path: The video file.
            on_progress: Called with the stage and the share of it that is done.

        Returns:
            The track, and a line about what could not be read, None if all was.

        Raises:
            InputError: The file is not a video, or the backbone returned invalid values.
        """
        times: list[float] = []
        with VideoSteps(path, self.sampling, decoder_threads=self.threads) as video:
            total = max(1.0, (video.declared or 0.0) / self.sampling.seconds_per_step)
            steps = _watched(_remembering(video, times), lambda count: on_progress("decode", min(1.0, count / total)))
            runs = ContinuousVectors(video.continuous, self._run_vectors, self.threads)
            values = _joined(self._vectors(steps, runs, lambda count: on_progress("features", min(1.0, count / total))))
            try:
                clock = Clock.from_edges([*times, video.end])
                values = self._with_continuous(values, clock, runs)
                track = FeatureTrack(values, clock, self.backbone.streams, self.recipe.id, video.end, self.absent)
            except InputError as error:
                raise InputError(f"{path}: {error}") from error
            return track, video.warning

    def _with_continuous(self, values: Vectors, clock: Clock, runs: ContinuousVectors) -> Vectors:
        """The vectors of the steps with those of the continuous stream beside them, or zeros if it is absent."""
        stream = self.backbone.continuous
        if stream is None:
            return values
        joined = np.zeros((len(values), values.shape[1] + stream.width), self.dtype)
        joined[:, : values.shape[1]] = values
        if not self.absent:
            joined[:, values.shape[1] :] = runs.of_steps(clock.seconds(np.arange(len(values) + 1)))
        return joined

    def _vectors(
        self, steps: Iterator[Step], runs: ContinuousVectors, described: Callable[[int], None]
    ) -> Iterator[Vectors]:
        """The vectors of batches of steps, in order; as many batches run at a time as there are threads."""
        done = 0
        with ThreadPoolExecutor(self.threads, thread_name_prefix="backbone") as pool:
            running: deque[Future[Vectors]] = deque()
            while batch := list(islice(steps, STEPS_AT_ONCE)):
                running.append(pool.submit(self._batch_vectors, batch))
                runs.submit(pool)
                if len(running) > self.threads:
                    yield running.popleft().result()
                    described(done := done + STEPS_AT_ONCE)
            while running:
                yield running.popleft().result()
            runs.submit(pool)

    def _batch_vectors(self, batch: list[Step]) -> Vectors:
        pictures_SFHWC = np.stack([step.pictures_FHWC for step in batch])
        return self._kept(self._describe(pictures_SFHWC, np.stack([step.seconds_F for step in batch])))

    def _run_vectors(self, run: FrameRun) -> Vectors:
        return self._kept(run.vectors(self._network))

    def _kept(self, vectors: Vectors) -> Vectors:
        """Vectors in the precision of the track."""
        with np.errstate(over="ignore"):
            kept = vectors.astype(self.dtype)
        if not np.isfinite(kept).all():
            raise InputError(f"backbone {self.backbone.name} gave values that {self.dtype} cannot hold")
        return kept


def usable_cores() -> int:
    """Number of cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _remembering(video: VideoSteps, times: list[float]) -> Iterator[Step]:
    """Iterate over the steps of a video and append their times to `times`."""
    for step in video:
        times.append(step.time)
        yield step


def _watched(steps: Iterator[Step], count: Callable[[int], None]) -> Iterator[Step]:
    """Iterate over steps and report their number."""
    for number, step in enumerate(steps, start=1):
        yield step
        count(number)


def _joined(parts: Iterator[Vectors]) -> Vectors:
    """Concatenate arrays into a buffer that grows in place, so that a long video is not in memory twice."""
    first = next(parts)
    held = bytearray(first.tobytes())
    for part in parts:
        held += part.tobytes()
    return np.frombuffer(held, first.dtype).reshape(-1, first.shape[1])


def extractor_of(
    recipe: FeatureRecipe,
    reduction: Reduction | None = None,
    *,
    device: Device = "auto",
    threads: int | None = None,
    fast: bool = False,
) -> Extractor:
    """Make the extractor whose tracks have a given recipe, as a model needs them.

    Args:
        recipe: The recipe of the features.
        reduction: The PCA of the recipe, if it has one.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        threads: Threads for decoding and for the backbone; one per core by default.
        fast: Leave out the continuous stream, if the recipe has one.

    Returns:
        The extractor.

    Raises:
        InputError: The features cannot be made here; the message names the reason and a remedy.
    """
    sampling: Any = recipe.table.get("sampling")
    if not isinstance(sampling, dict) or not isinstance(sampling.get("seconds_per_step"), float | int):
        raise InputError(
            f"the model reads features ({recipe.name}) that are not made from a video here; give it a feature store"
        )
    backbone = _with_reduction(find_backbone(recipe.name), recipe, reduction)
    extractor = Extractor(backbone, float(sampling["seconds_per_step"]), device=device, threads=threads, fast=fast)
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
