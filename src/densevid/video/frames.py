"""VideoSteps: iterate over the steps of a video file, each with its pictures and exact times.

One pass over the file with a few frames in memory. Time 0 is the earliest presentation time of any stream, where a
player's clock starts. Only frames that a step uses are converted to pictures, and frames that no step uses are decoded
only if others refer to them (see `video.sampling`); the result is the same as with every frame decoded.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import cast

import av
from av.video.frame import VideoFrame

from densevid.errors import InputError
from densevid.video.container import MAX_PIXELS, PresentationTimes, VideoPacket, declared_seconds, open_video
from densevid.video.continuous import ContinuousFrames
from densevid.video.sampling import BrokenClock, SkipPlan
from densevid.video.windows import Sampling, Step, Windows

SKIPPABLE_CODECS = {"h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4"}
LONGEST_QUEUE = 4 * SkipPlan.REORDER
WORTH_A_WARNING = 0.5  # seconds
UNUSUAL_GAP = 0.75  # seconds
MOST_READ_ERRORS = 32
NORMAL_OVERHEAD = 1 << 14  # bytes between two frames that belong to no packet
DAMAGED = "the file is damaged"


class VideoSteps:
    """Iterates over the steps of a video file, inside a `with` block.

    Args:
        path: The file.
        sampling: Step length, frames per step, and size of the pictures.
        decoder_threads: Threads of the decoder.
        skip: Decode only the frames that are needed; the result is the same without.

    Attributes:
        declared: Declared duration in seconds, None if unknown.
        continuous: Collects the frames of the continuous stream during the iteration; None if the sampling has none.
        end: End of the last frame in seconds, known after the iteration, as the following.
        lost_seconds: How much of the video could not be decoded.
        problems: What was wrong with the file.

    Raises:
        InputError: The file cannot be opened as a video, or no frame can be decoded.
    """

    def __init__(
        self, path: Path | str, sampling: Sampling | None = None, *, decoder_threads: int = 1, skip: bool = True
    ) -> None:
        self.path = Path(path)
        self.sampling = sampling or Sampling()
        self.continuous = ContinuousFrames(self.sampling.continuous) if self.sampling.continuous else None
        self.end = 0.0
        self.lost_seconds = 0.0
        self.problems: list[str] = []
        self._gaps = 0.0
        self._skip = skip
        self._opened = open_video(self.path, decoder_threads=decoder_threads)

    def __enter__(self) -> VideoSteps:
        self._container, self._stream = self._opened.__enter__()
        self.declared = declared_seconds(self._container, self._stream)
        self._times = PresentationTimes(self._container, self._stream)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.__exit__(kind, error, at)

    def __iter__(self) -> Iterator[Step]:
        windows = Windows(self.sampling)
        try:
            for time, raw in self._frames():
                yield from windows.push(time, raw)
                if self.continuous:
                    self.continuous.push(time, raw)
                self.end = time + self._times.length_of(raw)
        except BrokenClock as error:
            self.problems.append(str(error))
        if not windows.any_frame:
            raise InputError(f"{self.path}: holds no picture that can be decoded")
        if self.continuous:
            self.continuous.finish()
        yield from windows.finish(self.end)
        self._account_for_losses()

    def _frames(self) -> Iterator[tuple[float, VideoFrame]]:
        """Decoded frames with strictly increasing times; others are dropped."""
        latest = -1.0
        for packet, needed in self._packets():
            for raw in self._decode(packet, needed):
                time = self._times.of_frame(raw)
                if time < 0 or time <= latest or raw.width * raw.height > MAX_PIXELS:
                    continue
                if latest >= 0 and time - latest > UNUSUAL_GAP:
                    self._gaps += time - latest
                latest = time
                yield time, raw

    def _decode(self, packet: VideoPacket | None, needed: bool) -> list[VideoFrame]:
        """The frames that the decoder returns for a packet; None flushes the decoder."""
        context = self._stream.codec_context
        if not needed and context.codec.intra_only:
            return []
        context.skip_frame = "DEFAULT" if needed else "NONREF"
        try:
            frames = context.decode(packet)
        except EOFError:
            return []
        except av.FFmpegError:
            self._damaged(1)
            return []
        self._damaged(sum(frame.is_corrupt for frame in frames))
        return frames

    def _packets(self) -> Iterator[tuple[VideoPacket | None, bool]]:
        """Packets in decoding order, each with whether its frame is needed; queued until that is known."""
        plan = self._plan() if self._may_skip() else None
        queue: deque[VideoPacket] = deque()
        for packet in self._demuxed():
            if plan is None:
                yield packet, True
                continue
            if not packet.is_discard:
                plan.add(self._times.of_packet(packet))
            queue.append(packet)
            while queue and (len(queue) > LONGEST_QUEUE or plan.is_settled(self._times.of_packet(queue[0]))):
                packet = queue.popleft()
                yield packet, plan.needs(self._times.of_packet(packet))
        yield from ((packet, True) for packet in queue)
        yield None, True

    def _plan(self) -> SkipPlan:
        sampling = self.sampling
        rate = sampling.continuous.frames_per_second if sampling.continuous else 0.0
        return SkipPlan(sampling.seconds_per_step, sampling.frames_per_step, rate)

    def _demuxed(self) -> Iterator[VideoPacket]:
        """All readable packets; after a read error, reading continues behind it if the format allows that."""
        for _ in range(MOST_READ_ERRORS):
            try:
                yield from self._matroska() if "matroska" in self._container.format.name else self._plain()
                return
            except (av.FFmpegError, OSError):
                self._note(DAMAGED)

    def _plain(self) -> Iterator[VideoPacket]:
        return (packet for packet in self._container.demux(self._stream) if packet.size)

    def _matroska(self) -> Iterator[VideoPacket]:
        """Packets of a Matroska file, whose reader skips damage silently: it shows as a gap with unread bytes."""
        latest, behind, unread = math.inf, math.inf, 0.0
        for packet in self._container.demux():
            if not packet.size:
                continue
            if packet.pos is not None:
                unread += max(0.0, packet.pos - behind)
                behind = packet.pos + packet.size
            if packet.stream_index != self._stream.index:
                continue
            video_packet = cast(VideoPacket, packet)
            time = self._times.of_packet(video_packet)
            if time is not None:
                if time - latest > UNUSUAL_GAP and unread > NORMAL_OVERHEAD:
                    self._note(DAMAGED)
                latest, unread = time, 0.0
            yield video_packet

    def _may_skip(self) -> bool:
        """Whether frames can be skipped: the codec marks reference frames (or has none), and packets have times."""
        context = self._stream.codec_context
        known = context.name in SKIPPABLE_CODECS or context.codec.intra_only
        return self._skip and known and self._times.source == "pts"

    def _damaged(self, frames: int) -> None:
        if frames:
            self.lost_seconds += frames * self._times.frame_seconds
            self._note("some frames are damaged")

    def _account_for_losses(self) -> None:
        """Add what the file declares beyond its end; in a damaged file, gaps between frames count as lost."""
        if self.problems:
            self.lost_seconds = max(self.lost_seconds, self._gaps)
        if self.declared is not None:
            self.lost_seconds += max(0.0, self.declared - (self.end - self._times.first))

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    @property
    def warning(self) -> str | None:
        """A line about a file that was read in part; None if all of it was read."""
        if self.lost_seconds < WORTH_A_WARNING and not self.problems:
            return None
        of = f" of the {self.declared:.1f} it declares" if self.declared else ""
        lost = f"about {self.lost_seconds:.1f} seconds{of}" if self.lost_seconds >= 0.05 else "a moment of it"
        why = "; ".join(self.problems) or "it ends early"
        return f"{lost} could not be read ({why})"
