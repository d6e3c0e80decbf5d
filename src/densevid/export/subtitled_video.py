"""The .mp4 of a captioned video: a subtitle track beside the untouched pictures, or sentences drawn into them.

Pictures and sound that an .mp4 can hold (with `web`: that browsers play) are copied as they are; others, and pictures
that are drawn on, are encoded as H.264 and AAC. Time 0 of the result is where a player starts the original.
"""

from __future__ import annotations

import errno
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.container import InputContainer, OutputContainer
from av.subtitles.subtitle import SubtitleSet
from av.video.frame import VideoFrame

from densevid.errors import InputError, one_line
from densevid.events import Event
from densevid.export.shown_sentences import as_shown, printable
from densevid.io import atomic_path
from densevid.video.container import PresentationTimes, open_video, plays_in_browsers

Picture = npt.NDArray[np.uint8]  # height x width x 3
SMALLEST_LETTER, LETTER_SHARE = 11, 1 / 20  # pixels; of the shorter side
WIDTH_OF_LETTERS = 0.5  # of their height, about
GROUND = 0.35  # how bright what lies behind the letters stays


def draw_sentence(picture: Picture, sentence: str) -> Picture:
    """The picture with the sentence in it, on as many lines as it takes."""
    height, width = picture.shape[:2]
    letter = max(SMALLEST_LETTER, round(min(height, width) * LETTER_SHARE))
    line_height = round(letter * 1.5)
    letters = max(8, int(width * 0.94 / (letter * WIDTH_OF_LETTERS)))
    lines = textwrap.wrap(printable(sentence), letters)[: max(1, height // (2 * line_height))]
    drawn = picture.copy()
    top = height - line_height * len(lines) - letter // 2
    drawn[max(0, top) :] = (drawn[max(0, top) :] * GROUND).astype(np.uint8)
    for number, line in enumerate(lines):
        baseline = top + line_height * number + round(letter * 1.15)
        drawn = _put_line(drawn, line, baseline, letter)
    return drawn


def _put_line(picture: Picture, line: str, baseline: int, letter: int) -> Picture:
    """One line in the middle; OpenCV 5 has a typeface with all letters, older ones draw ASCII alone."""
    width = picture.shape[1]
    if hasattr(cv2, "FontFace"):
        modern: Any = cv2
        face = modern.FontFace("sans")
        (_, _, wide, _) = modern.getTextSize((width, 0), line, (0, 0), face, letter)
        origin = (max(0, (width - wide) // 2), baseline)
        modern.putText(picture, line, origin, (255, 255, 255), face, letter)
        return picture
    plain = line.encode("ascii", "replace").decode()
    font, scale = cv2.FONT_HERSHEY_DUPLEX, letter / 30
    (wide, _), _ = cv2.getTextSize(plain, font, scale, 1)
    origin = (max(0, (width - wide) // 2), baseline)
    cv2.putText(picture, plain, origin, font, scale, (255, 255, 255), 1, cv2.LINE_AA)
    return picture


HOLDS = {"mov", "mp4", "matroska", "webm"}  # containers whose packets have times of presentation
COPIED_PICTURES = {"h264", "hevc", "av1", "vp9", "mpeg4"}
COPIED_SOUND = {"aac", "mp3", "ac3", "opus"}
ENCODER = {"preset": "veryfast", "crf": "20"}
TICK = Fraction(1, 90000)
ASS_HEADER = (  # what the encoder of subtitles wants to know: one plain style
    b"[Script Info]\r\nScriptType: v4.00+\r\nPlayResX: 384\r\nPlayResY: 288\r\n\r\n[V4+ Styles]\r\n"
    b"Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, "
    b"Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, "
    b"MarginV, Encoding\r\n"
    b"Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,1\r\n\r\n"
    b"[Events]\r\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\r\n"
)
KEY = "made by densevid from "
FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}  # no fault of the video's
Draw = Callable[[Picture, float], Picture]


@dataclass(frozen=True)
class Mp4Options:
    """How an .mp4 is made: whether sentences go into the pictures, and whether browsers must play it.

    `key` stands for all that decides about its content: a file that carries it need not be written again.
    """

    burn: bool = False
    web: bool = False
    key: str | None = None


def write_subtitled(video: Path, out: Path, events: Sequence[Event], options: Mp4Options | None = None) -> None:
    """Write `out`, unless it is there; what the file cannot give is one line, what the disk cannot take an OSError."""
    options = options or Mp4Options()
    if options.key and _key_of(out) == options.key:
        return
    shown = as_shown(events)
    try:
        with (
            open_video(video) as (source, stream),
            atomic_path(out) as temporary,
            av.open(str(temporary), "w", format="mp4", options={"movflags": "+faststart"}) as target,
        ):
            if options.key:
                target.metadata["comment"] = f"{KEY}{options.key}"
            _Copy(video, (source, stream), target, shown, options).run()
    except (av.FFmpegError, UnicodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or one_line(error)
        if getattr(error, "errno", None) in FULL_DISK:
            raise OSError(error.errno, reason, str(out)) from error  # type: ignore[union-attr]
        raise InputError(f"{video}: cannot be written as an mp4 ({reason})") from error


def _key_of(out: Path) -> str | None:
    """The hash of what an existing file was made of, None if densevid did not write it."""
    try:
        with open_video(out) as (container, _):
            comment = container.metadata.get("comment", "")
    except InputError:
        return None
    return comment.removeprefix(KEY) if comment.startswith(KEY) else None


class _Copy:
    """One source on its way into one target."""

    def __init__(
        self, video: Path, opened: tuple[InputContainer, Any], target: OutputContainer, events: Any, options: Mp4Options
    ) -> None:
        self.video, self.target, self.events = video, target, events
        self.source, self.stream = source, stream = opened
        self.zero = (source.start_time or 0) / av.time_base
        self.sound: Any = next(iter(source.streams.audio), None)
        keeps_times = bool(HOLDS & set(source.format.name.split(",")))
        self.copies = keeps_times and not options.burn and _copied(stream, COPIED_PICTURES, options)
        self.copies_sound = self.sound is not None and _copied(self.sound, COPIED_SOUND, options)
        self.draw: Draw | None = self._draw if options.burn else None
        self.times = PresentationTimes(source, stream)
        self.decoded: dict[int, int] = {}
        self.wants_track = bool(events) and not options.burn

    def run(self) -> None:
        """Subtitles first, for they are few and the muxer sorts; then packet by packet as the source has them."""
        pictures_out = self._pictures_out()
        sound_out = self._sound_out()
        if self.wants_track:
            self.target.mux(list(self._subtitle_packets()))
        used = [stream for stream, out in ((self.stream, True), (self.sound, sound_out)) if stream and out]
        for packet in self._readable(used):
            if packet.stream is self.stream:
                self._copy(packet, pictures_out) if self.copies else self._encode(packet, pictures_out)
            elif self.copies_sound:
                self._copy(packet, sound_out)
            else:
                self._encode_sound(packet, sound_out)
        if not self.copies:
            self._encode(None, pictures_out)
            self.target.mux(pictures_out.encode(None))
        if sound_out is not None and not self.copies_sound:
            self.target.mux(sound_out.encode(None))

    def _pictures_out(self) -> Any:
        if self.copies:
            return self.target.add_stream_from_template(self.stream)
        out: Any = self.target.add_stream("libx264", rate=25, options=ENCODER)
        out.pix_fmt, out.codec_context.time_base, out.time_base = "yuv420p", TICK, TICK
        first = _first_frame(self.video)  # the size is needed before any packet, of sound or words, is written
        out.height, out.width = _upright(first).shape[:2]
        shape = self.stream.sample_aspect_ratio
        if shape:  # pixels that are not square stay so
            out.codec_context.sample_aspect_ratio = 1 / shape if first.rotation % 180 else shape
        return out

    def _sound_out(self) -> Any:
        """The track of the sound; a coding that is not known here has none."""
        if self.sound is None or self.sound.codec_context is None:
            return None
        if self.copies_sound:
            return self.target.add_stream_from_template(self.sound)
        return self.target.add_stream("aac", rate=self.sound.codec_context.sample_rate or 44100)

    def _readable(self, streams: list[Any]) -> Iterator[Any]:
        """Packets up to where the file ends or breaks; those that end a stream are empty."""
        try:
            yield from _decodable(packet for packet in self.source.demux(streams) if packet.size)
        except av.FFmpegError:
            return

    def _copy(self, packet: Any, out: Any) -> None:
        shift = round(self.zero / packet.time_base)
        packet.dts = max(packet.dts - shift, self.decoded.get(out.index, packet.dts - shift - 1) + 1)
        packet.pts = packet.dts if packet.pts is None else max(packet.dts, packet.pts - shift)
        self.decoded[out.index] = packet.dts  # damaged files repeat a time, which an .mp4 cannot hold
        packet.stream = out
        self.target.mux(packet)

    def _encode(self, packet: Any, out: Any) -> None:
        try:
            frames = self.stream.codec_context.decode(packet)
        except (EOFError, av.FFmpegError):  # damaged pictures are left out, as they are of the features
            return
        for frame in frames:
            seconds = self.times.of_frame(frame)
            picture = _upright(frame)
            made = VideoFrame.from_ndarray(self.draw(picture, seconds) if self.draw else picture, format="rgb24")
            made.pts, made.time_base = round(seconds / TICK), TICK
            self.target.mux(out.encode(made))

    def _encode_sound(self, packet: Any, out: Any) -> None:
        try:
            frames = self.sound.codec_context.decode(packet)
        except av.FFmpegError:
            return
        for frame in frames:
            if frame.pts is not None:
                frame.pts -= round(self.zero / frame.time_base)
            self.target.mux(out.encode(frame))

    def _subtitle_packets(self) -> Iterator[Any]:
        """One cue after another, as a track must have them."""
        track: Any = self.target.add_stream("mov_text")
        track.metadata["language"] = "eng"
        context = track.codec_context
        context.subtitle_header, context.time_base = ASS_HEADER, Fraction(1, 1000)
        for begin, end, sentence in shown_in_turn(self.events):
            text = printable(sentence).replace("{", "(").replace("}", ")").replace("\\", "/")
            subtitle = SubtitleSet.create(f"0,0,Default,,0,0,0,,{text}".encode(), 0, end - begin, begin)
            packet = context.encode_subtitle(subtitle)
            packet.pts = packet.dts = begin
            packet.duration, packet.time_base, packet.stream = end - begin, Fraction(1, 1000), track
            yield packet

    def _draw(self, picture: Picture, seconds: float) -> Picture:
        event = _shown_at(self.events, seconds)
        return draw_sentence(picture, event.sentence) if event else picture


def shown_in_turn(events: Sequence[Event]) -> list[tuple[int, int, str]]:
    """Which sentence is shown from when to when, in milliseconds, one at a time: an event that is overlapped by a later
    one is shown again when that has ended, and one of no length for a millisecond.
    """
    placed = [
        replace(event, start=float(begin), end=float(max(round(event.end * 1000), begin + 1)))
        for event in events
        for begin in [round(event.start * 1000)]
    ]
    turns: list[tuple[int, int, str]] = []
    for begin, end in pairwise(sorted({border for event in placed for border in (event.start, event.end)})):
        if event := _shown_at(placed, begin):
            goes_on = bool(turns) and turns[-1][1:] == (begin, event.sentence)
            turns.append((turns.pop()[0] if goes_on else int(begin), int(end), event.sentence))
    return turns


def _shown_at(events: Sequence[Event], time: float) -> Event | None:
    """Of the events at a time, which are in order, the one that began last."""
    return next((event for event in reversed(events) if event.start <= time < event.end), None)


def _first_frame(video: Path) -> VideoFrame:
    with open_video(video) as (source, stream):
        for packet in source.demux(stream):
            with suppress(av.FFmpegError, EOFError):
                for frame in packet.decode():
                    return frame
    raise InputError(f"{video}: not one of its pictures can be decoded")


def _upright(frame: VideoFrame) -> Picture:
    """The picture of a frame as players show it, with even sides, as H.264 requires."""
    picture = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))
    return np.ascontiguousarray(picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2])


def _copied(stream: Any, codings: set[str], options: Mp4Options) -> bool:
    """Whether a stream goes into the .mp4 as it is."""
    context = stream.codec_context
    return context is not None and context.name in codings and (not options.web or plays_in_browsers(stream))


def _decodable(packets: Iterator[Any]) -> Iterator[Any]:
    """Packets that all have a time of decoding: Matroska leaves it out of the first."""
    waiting: dict[int, list[Any]] = {}
    begun: set[int] = set()
    for packet in packets:
        stream = packet.stream.index
        if packet.dts is None and stream not in begun:
            waiting.setdefault(stream, []).append(packet)
        elif packet.dts is not None:
            begun.add(stream)
            yield from _dated(waiting.pop(stream, []), packet.dts)
            yield packet
    for left in waiting.values():
        yield from _dated(left, min(packet.pts or 0 for packet in left) + 1)


def _dated(waiting: list[Any], before: int) -> list[Any]:
    """Give packets the times at which they are decoded, one after the other, so that all are before a time."""
    for number, packet in enumerate(reversed(waiting), start=1):
        packet.dts = before - number * max(1, packet.duration or 1)
    return waiting
