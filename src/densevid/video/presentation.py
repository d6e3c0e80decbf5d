"""When a frame is presented, in seconds from where a player's clock starts."""

from __future__ import annotations

from typing import Literal, TypeAlias

import av
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

VideoPacket: TypeAlias = "Packet[VideoStream]"
CARRIES_NO_PRESENTATION_TIME = {"avi"}


class PresentationTimes:
    """The times of one stream. Time 0 is the earliest presentation time of any stream of the file.

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
