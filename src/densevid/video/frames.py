"""A video file becomes the pictures of its steps, each with its true time; the second stop of a video.

One pass over the file, and never more than a few frames in memory. Time 0 is where a player's clock starts: the
earliest presentation time of any stream of the file. Only what some step uses is turned into a picture, and of what
no step uses only the frames that others are built upon are decoded (see `sampling`); the result is the same as if
every frame had been.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from densevid.errors import InputError, one_line
from densevid.video.container import MAX_PIXELS, declared_seconds, open_video
from densevid.video.sampling import BrokenClock, SkipPlan, StepSelector

Pictures = npt.NDArray[np.uint8]
VideoPacket: TypeAlias = "Packet[VideoStream]"
SKIPPABLE_CODECS = {"h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4"}
CARRIES_NO_PRESENTATION_TIME = {"avi"}
LONGEST_QUEUE = 4 * SkipPlan.REORDER
WORTH_A_WARNING = 0.5  # seconds


@dataclass(frozen=True)
class Sampling:
    """How a video is cut into steps: one every `seconds_per_step`, each with a run of contiguous frames from its own.

    `size` is the side of the square that a whole picture is squeezed into.
    """

    seconds_per_step: float = 0.5
    frames_per_step: int = 1
    size: int = 224

    def __post_init__(self) -> None:
        if not 0.01 <= self.seconds_per_step <= 60:
            raise InputError(f"seconds per step must be from .01 to 60, got {self.seconds_per_step}")
        if not 1 <= self.frames_per_step <= SkipPlan.REORDER or not 8 <= self.size <= 1024:
            raise InputError(f"a step has 1 to {SkipPlan.REORDER} frames of side 8 to 1024, not {self}")


@dataclass(frozen=True)
class Step:
    """One step: its time, and the frames F it is made of with the times of each."""

    time: float
    pictures_FHWC: Pictures
    seconds_F: npt.NDArray[np.float64]


class _Frame:
    """A decoded frame that becomes an RGB picture when first asked for."""

    def __init__(self, time: float, raw: VideoFrame) -> None:
        self.time = time
        self._raw: VideoFrame | None = raw
        self._picture: Pictures | None = None

    def picture(self, reformatter: VideoReformatter, size: int) -> Pictures:
        if self._picture is None:
            assert self._raw is not None
            small = reformatter.reformat(self._raw, size, size, "rgb24", interpolation="BILINEAR", threads=1)
            quarter_turns = round(self._raw.rotation / 90)
            self._picture = np.asarray(np.rot90(small.to_ndarray(), quarter_turns), np.uint8)
            self._raw = None
        return self._picture


class VideoSteps:
    """Iterates over the steps of one file; `end`, `lost_seconds` and `problems` are known when it is exhausted.

    `skip` decodes no more than it must; without it every frame is decoded, with the same result.
    """

    def __init__(
        self, path: Path | str, sampling: Sampling | None = None, *, decoder_threads: int = 1, skip: bool = True
    ) -> None:
        self.path = Path(path)
        self.sampling = sampling or Sampling()
        self.end = 0.0
        self.lost_seconds = 0.0
        self.problems: list[str] = []
        self._skip = skip
        self._opened = open_video(self.path, decoder_threads=decoder_threads)

    def __enter__(self) -> VideoSteps:
        self._container, self._stream = self._opened.__enter__()
        self.declared = declared_seconds(self._container, self._stream)
        self._times = _Times(self._container, self._stream)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.__exit__(kind, error, at)

    def __iter__(self) -> Iterator[Step]:
        windows = _Windows(self.sampling)
        try:
            for time, raw in self._frames():
                yield from windows.push(time, raw)
                self.end = time + self._times.length_of(raw)
        except BrokenClock as error:
            self.problems.append(str(error))
        if not windows.any_frame:
            raise InputError(f"{self.path}: holds no picture that can be decoded")
        yield from windows.finish(self.end)
        self._account_for_losses()

    def _frames(self) -> Iterator[tuple[float, VideoFrame]]:
        """Decoded frames with their times, in strictly increasing order; what does not fit is counted as lost."""
        latest = -np.inf
        for packet, needed in self._packets():
            for raw in self._decode(packet, needed):
                time = self._times.of_frame(raw)
                if time < 0 or time <= latest or raw.width * raw.height > MAX_PIXELS:
                    continue
                latest = time
                yield time, raw

    def _decode(self, packet: VideoPacket, needed: bool) -> list[VideoFrame]:
        context = self._stream.codec_context
        context.skip_frame = "DEFAULT" if needed else "NONREF"
        try:
            frames = packet.decode()
        except av.FFmpegError:
            self.lost_seconds += self._times.frame_seconds
            self._note("some frames are damaged")
            return []
        self.lost_seconds += self._times.frame_seconds * sum(frame.is_corrupt for frame in frames)
        return [frame for frame in frames if isinstance(frame, VideoFrame)]

    def _packets(self) -> Iterator[tuple[VideoPacket, bool]]:
        """Packets in decoding order, each with whether its frame is needed; held back until that is known."""
        plan = SkipPlan(self.sampling.seconds_per_step, self.sampling.frames_per_step) if self._may_skip() else None
        queue: deque[VideoPacket] = deque()
        for packet in self._demuxed():
            if plan is None:
                yield packet, True
                continue
            if not packet.is_discard and packet.size:
                plan.add(self._times.of_packet(packet))
            queue.append(packet)
            while queue and (len(queue) > LONGEST_QUEUE or plan.is_settled(self._times.of_packet(queue[0]))):
                packet = queue.popleft()
                yield packet, plan.needs(self._times.of_packet(packet))
        yield from ((packet, True) for packet in queue)

    def _demuxed(self) -> Iterator[VideoPacket]:
        try:
            yield from self._container.demux(self._stream)
        except (av.FFmpegError, OSError) as error:
            self._note(f"reading stopped: {getattr(error, 'strerror', None) or one_line(error)}")

    def _may_skip(self) -> bool:
        known = self._stream.codec_context.name in SKIPPABLE_CODECS
        return self._skip and known and self._times.source == "pts"

    def _account_for_losses(self) -> None:
        if self.declared is not None:
            self.lost_seconds += max(0.0, self.declared - (self.end - self._times.first))

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    @property
    def warning(self) -> str | None:
        """What a user should know about a file that was read in part; None if all of it was."""
        if self.lost_seconds < WORTH_A_WARNING and not self.problems:
            return None
        of = f" of {self.declared:.1f} declared" if self.declared else ""
        why = f" ({'; '.join(self.problems)})" if self.problems else ""
        return f"{self.lost_seconds:.1f}{of} seconds could not be read{why}"


class _Windows:
    """Turns frames into steps: remembers the last few frames until the run of each step is complete."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._selector = StepSelector(sampling.seconds_per_step)
        self._reformatter = VideoReformatter()
        self._frames: deque[_Frame] = deque(maxlen=sampling.frames_per_step + 1)
        self._count = 0
        self._pending: deque[tuple[float, int]] = deque()

    @property
    def any_frame(self) -> bool:
        """Whether there is anything to show."""
        return self._count > 0

    def push(self, time: float, raw: VideoFrame) -> Iterator[Step]:
        """The steps that are complete now that this frame is here."""
        shown = self._selector.push(time)
        self._frames.append(_Frame(time, raw))
        self._count += 1
        self._pending.extend((step, self._count - 2) for step in shown)
        while self._pending and self._pending[0][1] + self._sampling.frames_per_step <= self._count:
            yield self._step(*self._pending.popleft())

    def finish(self, end: float) -> Iterator[Step]:
        """The steps that still wait: they use the last frames there are."""
        self._pending.extend((step, self._count - 1) for step in self._selector.finish(end))
        for time, number in self._pending:
            yield self._step(time, number)

    def _step(self, time: float, number: int) -> Step:
        """The run that starts with frame `number`, moved back where the video ends too early for it."""
        oldest = self._count - len(self._frames)
        wanted = range(number, number + self._sampling.frames_per_step)
        beyond = max(0, wanted[-1] - (self._count - 1))
        run = [self._frames[max(0, index - beyond - oldest)] for index in wanted]
        pictures = np.stack([frame.picture(self._reformatter, self._sampling.size) for frame in run])
        return Step(time, pictures, np.array([frame.time for frame in run]))


class _Times:
    """Presentation times in seconds from where a player's clock starts.

    AVI keeps no presentation times, and what is guessed for them is out of order where frames were reordered: there
    the order in which frames leave the decoder counts, at the pace of the file, from the first frame on.
    """

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self._unit = float(stream.time_base or 1 / 90000)
        self.source: Literal["pts", "order"] = "pts"
        if CARRIES_NO_PRESENTATION_TIME & set(container.format.name.split(",")):
            self.source = "order"
        rate = stream.average_rate or stream.guessed_rate
        self.frame_seconds = 1 / float(rate) if rate and 0.1 <= rate <= 1000 else 0.04
        self._zero = _zero(container, stream, self._unit)
        self.first = 0.0
        self._latest: float | None = None

    def of_packet(self, packet: VideoPacket) -> float | None:
        """When the packet's frame is presented, None if it does not say."""
        return None if packet.pts is None else self._seconds(packet.pts)

    def of_frame(self, frame: VideoFrame) -> float:
        """When the frame is presented; one that does not say follows the one before."""
        stamp = frame.pts if self.source == "pts" else frame.dts
        if self._latest is None:
            if self.source == "order" or self._zero is None:
                self._zero = (stamp or 0) * self._unit
            self.first = self._seconds(stamp or 0)
        time = self._seconds(stamp) if stamp is not None else (self._latest or 0.0) + self.frame_seconds
        self._latest = time
        return time

    def length_of(self, frame: VideoFrame) -> float:
        """How long the frame says it stays on the screen, or the usual time."""
        seconds = (frame.duration or 0) * self._unit
        return seconds if 0 < seconds < 3600 else self.frame_seconds

    def _seconds(self, stamp: int) -> float:
        time = stamp * self._unit - (self._zero or 0.0)
        return 0.0 if abs(time) < 1e-5 else time


def _zero(container: InputContainer, stream: VideoStream, unit: float) -> float | None:
    """Where a player's clock starts, in the exact time of the stream where that is what it is."""
    own = None if stream.start_time is None else stream.start_time * unit
    earliest = None if container.start_time is None else container.start_time / av.time_base
    if own is None or earliest is None or abs(own - earliest) < 1e-5:
        return own if own is not None else earliest
    return earliest
