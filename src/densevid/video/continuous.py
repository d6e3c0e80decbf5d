"""Continuous frames: a stream that reads all of a video at its own frame rate, beside the frames of the steps.

A `ContinuousStream` is what a backbone has of it; `ContinuousFrames` collects its frames while a video is decoded and
hands them out as overlapping runs; `ContinuousVectors` has the network turn these into vectors while decoding goes on,
and puts them on the step grid. The action stream of `scenes-and-actions` is the one that exists.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame

from densevid.video.sampling import FramePacer

if TYPE_CHECKING:  # the device layer loads torch
    from densevid.device import Device

Pictures = npt.NDArray[np.uint8]
Vectors = npt.NDArray[np.floating[Any]]
FrameNetwork = Callable[[Pictures], Vectors]  # 1 x frames x size x size x 3 -> 1 x vectors x width
FRAME_RULE = "the first frame at or after k / rate seconds from the first one"
STEP_RULE = "the vector whose span has the middle of the step"


@dataclass(frozen=True)
class ContinuousSampling:
    """How a video is sampled for a continuous stream.

    Attributes:
        frames_per_second: Frame rate; frames of slower videos are repeated.
        size: Side of the square that every frame is resized to.
        frames_per_vector: Frames that a vector covers.
        run: Frames whose vectors are kept of a run, a multiple of `frames_per_vector`.
        context: Frames that the network sees on either side of them, likewise.
    """

    frames_per_second: float = 8.0
    size: int = 224
    frames_per_vector: int = 8
    run: int = 64
    context: int = 8

    @property
    def seconds_per_vector(self) -> float:
        """Length of what a vector covers."""
        return self.frames_per_vector / self.frames_per_second


@dataclass(frozen=True)
class ContinuousStream:
    """A stream made of continuous frames, which may be absent.

    Attributes:
        name: Name of the stream, the last of its backbone.
        width: Width of its vectors.
        sampling: Frame rate, size and runs.
        weights: Hash of its weights, whether or not they are installed here.
        preprocessing: What is done to the frames, for the recipe.
        load: Loads the network for a device; only called where it runs.
        problem: Why the stream cannot be made here, with the remedy; None if it can.
    """

    name: str
    width: int
    sampling: ContinuousSampling
    weights: str
    preprocessing: Mapping[str, Any]
    load: Callable[[Device], FrameNetwork]
    problem: Callable[[], str | None]

    @property
    def table(self) -> dict[str, Any]:
        """Its part of a recipe."""
        return {
            "weights": self.weights,
            "frames_per_second": self.sampling.frames_per_second,
            "frames_per_vector": self.sampling.frames_per_vector,
            "run": self.sampling.run,
            "context": self.sampling.context,
            "size": self.sampling.size,
            "frames": FRAME_RULE,
            "steps": STEP_RULE,
            **self.preprocessing,
        }


@dataclass(frozen=True)
class FrameRun:
    """Consecutive frames with their context, and which of their vectors are kept."""

    frames: tuple[Pictures, ...]
    kept: slice

    def repeats(self, other: FrameRun | None) -> bool:
        """Whether it shows nothing but one frame that another run shows as long, so that the vectors are the same."""
        if other is None or self.kept != other.kept or len(self.frames) != len(other.frames):
            return False
        return all(frame is self.frames[0] for frame in (*self.frames, *other.frames))

    def vectors(self, network: FrameNetwork) -> Vectors:
        """The vectors of its own frames, without those of the context."""
        return network(np.stack(self.frames)[None])[0][self.kept]


class ContinuousFrames:
    """Collects the frames of a video at a constant rate and hands them out in runs.

    Attributes:
        first: Time of the first frame in seconds, where the first vector begins.
    """

    def __init__(self, sampling: ContinuousSampling) -> None:
        self.first = 0.0
        self.sampling = sampling
        self._pacer = FramePacer(sampling.frames_per_second)
        self._frames: deque[Pictures] = deque()  # the latest of `count` frames
        self._count = 0
        self._next = 0  # where the next run begins
        self._ended = False

    def push(self, time: float, raw: VideoFrame) -> None:
        """Add a decoded frame; it is converted if its turn has come."""
        if not self._count:
            self.first = time
        if turns := self._pacer.push(time):
            self._frames.extend([_picture(raw, self.sampling.size)] * turns)
            self._count += turns

    def finish(self) -> None:
        """End the video: the last frame is repeated until whole vectors are covered."""
        lacking = -self._count % self.sampling.frames_per_vector
        self._frames.extend([self._frames[-1]] * lacking)
        self._count += lacking
        self._ended = True

    def take(self) -> list[FrameRun]:
        """The runs that are complete and were not taken before."""
        runs = []
        margin = self.sampling.run + self.sampling.context
        while self._count >= self._next + margin or (self._ended and self._next < self._count):
            runs.append(self._run(min(self._count, self._next + margin)))
        return runs

    def _run(self, end: int) -> FrameRun:
        """The next run, whose context ends at frame `end`; frames that no later run needs are dropped."""
        start, per_vector = max(0, self._next - self.sampling.context), self.sampling.frames_per_vector
        oldest = self._count - len(self._frames)
        frames = tuple(self._frames[index - oldest] for index in range(start, end))
        begin = (self._next - start) // per_vector
        count = min(self.sampling.run, end - self._next) // per_vector
        self._next += count * per_vector
        for _ in range(max(0, self._next - self.sampling.context) - oldest):
            self._frames.popleft()
        return FrameRun(frames, slice(begin, begin + count))


class ContinuousVectors:
    """The vectors of a continuous stream, of runs that go to a thread pool as they arrive.

    Args:
        frames: The frames of the video; None if the stream is absent.
        describe: The vectors of a run; called in the threads of the pool.
        most: Runs that may wait in the pool.
    """

    def __init__(self, frames: ContinuousFrames | None, describe: Callable[[FrameRun], Vectors], most: int) -> None:
        self._frames, self._describe, self._most = frames, describe, most
        self._done: list[Vectors] = []
        self._running: deque[Future[Vectors]] = deque()
        self._latest: tuple[FrameRun, Future[Vectors]] | None = None

    def submit(self, pool: Executor) -> None:
        """Submit the runs that are complete; waits while too many are running."""
        for run in self._frames.take() if self._frames else ():
            if self._latest and run.repeats(self._latest[0]):
                future = self._latest[1]
            else:
                future = pool.submit(self._describe, run)
            self._latest = run, future
            self._running.append(future)
            while len(self._running) > self._most:
                self._done.append(self._running.popleft().result())

    def of_steps(self, edges: npt.NDArray[np.float64]) -> Vectors:
        """Wait for all vectors and put them on the grid of the steps, the nearest in time.

        Args:
            edges: The start of every step and the end of the last, in seconds.

        Returns:
            One vector per step.
        """
        assert self._frames is not None
        vectors = np.concatenate([*self._done, *(future.result() for future in self._running)])
        middle = (edges[:-1] + edges[1:]) / 2
        nearest = np.floor((middle - self._frames.first) / self._frames.sampling.seconds_per_vector).astype(np.int64)
        return np.asarray(vectors[np.clip(nearest, 0, len(vectors) - 1)])


def _picture(raw: VideoFrame, size: int) -> Pictures:
    """A frame as the network reads it: squeezed to a square by bilinear interpolation between the nearest pixels."""
    picture = cv2.resize(raw.to_ndarray(format="rgb24"), (size, size), interpolation=cv2.INTER_LINEAR)
    return np.asarray(np.rot90(picture, round(raw.rotation / 90)), np.uint8)
