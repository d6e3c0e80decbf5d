"""Subtitles as ffmpeg's own demuxers and decoders read them, and muxed into a container."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densevid.events import Event
from densevid.export.subtitled_video import Mp4Options, shown_in_turn, write_subtitled
from densevid.export.subtitles import ffmpeg_metadata, srt, webvtt, youtube_chapters
from helpers.made_videos import constant, make_video, number_of, packet_times

NASTY = "a <b>dog</b> & a {\\an8}cat --> 00:00:01.000\n\n2\n\x1b[31mred\u2028end"
EVENTS = [
    Event(3.0, 4.25, "later, zwölf 视频"),
    Event(0.5, 2.0, NASTY),
    Event(1.5, 3.9996, "overlaps"),
    Event(3600.0, 3600.0001, "after an hour"),
]
TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=60)


def cues(path: Path) -> list[tuple[float, float, str]]:
    """Start, length and text of every cue, by ffmpeg."""
    with av.open(str(path)) as container:
        stream = container.streams.subtitles[0]
        found = []
        for packet in (packet for packet in container.demux(stream) if packet.size):
            decoded = stream.codec_context.decode2(packet)  # None for the gaps of an mp4
            start, length = float(packet.pts * packet.time_base), float(packet.duration * packet.time_base)
            found += [(start, length, subtitle.dialogue.decode()) for subtitle in decoded or ()]
        return found


@pytest.mark.parametrize(("write", "ending"), [(webvtt, "vtt"), (srt, "srt")])
def test_a_real_parser_reads_every_cue(write, ending, tmp_path) -> None:
    path = tmp_path / f"made.{ending}"
    path.write_text(write(EVENTS), encoding="utf-8", newline="\n")
    found = cues(path)
    times = [(start, length) for start, length, _ in found]
    np.testing.assert_allclose(times, [(0.5, 1.5), (1.5, 2.5), (3.0, 1.25), (3600.0, 0.001)], atol=1e-6)
    assert [text for _, _, text in found][1:] == ["overlaps", "later, zwölf 视频", "after an hour"]
    assert "dog" in found[0][2] and "red" in found[0][2] and "\n" not in found[0][2]


def test_webvtt_shows_a_sentence_to_the_letter(tmp_path) -> None:
    text = webvtt([Event(0, 1, "a <b>dog</b> & a cat --> b")])
    assert "a &lt;b&gt;dog&lt;/b&gt; &amp; a cat --&gt; b" in text
    assert text.startswith("WEBVTT\n\n1\n00:00:00.000 --> 00:00:01.000\n")


def test_srt_has_no_tags_of_a_sentence(tmp_path) -> None:
    body = srt([Event(0, 1, NASTY)]).split("\n", 2)[2]
    assert not set("<>{}") & set(body) and body.count("\n") == 1


def test_nothing_is_still_a_file_that_can_be_read() -> None:
    assert webvtt([]) == "WEBVTT\n" and srt([]) == ""


@given(st.lists(TEXTS, max_size=5))
def test_no_sentence_makes_or_breaks_a_cue(sentences) -> None:
    events = [Event(n, n + 0.5, sentence) for n, sentence in enumerate(sentences)]
    blocks = webvtt(events).split("\n\n")[1:]
    assert len(blocks) == len(events), "an event without words is called by its number"
    assert all(len(block.strip("\n").split("\n")) == 3 and block.count("-->") == 1 for block in blocks)
    assert srt(events).count("-->") == len(events)


def test_muxed_into_an_mkv_a_probe_finds_them(tmp_path) -> None:
    """As a player's user would do it: the .vtt beside a video, copied into one file."""
    (tmp_path / "made.vtt").write_text(webvtt(EVENTS), encoding="utf-8")
    video = make_video(tmp_path / "video.mp4", constant(5.0))
    with (
        av.open(str(tmp_path / "made.vtt")) as words,
        av.open(str(video)) as pictures,
        av.open(str(tmp_path / "both.mkv"), "w") as both,
    ):
        outputs = {s: both.add_stream_from_template(s) for s in (pictures.streams.video[0], words.streams.subtitles[0])}
        for source in (pictures, words):
            for packet in source.demux():
                if packet.size:
                    packet.stream = outputs[packet.stream]
                    both.mux(packet)
    assert [text for _, _, text in cues(tmp_path / "both.mkv")] == [text for _, _, text in cues(tmp_path / "made.vtt")]
    with av.open(str(tmp_path / "both.mkv")) as probed:
        assert [stream.type for stream in probed.streams] == ["video", "subtitle"]


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv", "late.mp4", "clip.avi", "clip.webm"])
def test_an_mp4_with_a_subtitle_track(name, tmp_path) -> None:
    codec = {"avi": "mpeg4", "webm": "libvpx-vp9"}.get(name[-4:].strip("."), "libx264")
    settings = {"fps": 25} if name.endswith("avi") else {"sound_from": 7.0 if "late" in name else 0.0}
    if name.endswith("webm"):
        settings = {}
    video = make_video(tmp_path / name, constant(4.0, start=7.0 if "late" in name else 0.0), codec=codec, **settings)
    write_subtitled(video, tmp_path / "out.mp4", [event for event in EVENTS if event.end < 5])
    found = [(start, text) for start, _, text in cues(tmp_path / "out.mp4") if text]
    np.testing.assert_allclose([start for start, _ in found], [0.5, 1.5, 3.0], atol=1e-3)
    assert "zwölf 视频" in found[2][1]
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert container.streams.video[0].codec_context.name in ("h264", "vp9")
        assert (container.streams.video[0].width, container.streams.video[0].height) == (192, 128)
        assert len(container.streams.audio) == len(av.open(str(video)).streams.audio)
        times = [frame.time for frame in container.decode(video=0)]
    np.testing.assert_allclose(times, packet_times(video), atol=0.002)


def test_a_track_shows_one_sentence_at_a_time_and_none_too_briefly(tmp_path) -> None:
    """Short events inside a long one, one that begins with it: what is read back at every tenth of a second."""
    events = [Event(0.0, 4.0, "long"), Event(0.0, 1.0, "short"), Event(2.0, 2.5, "inside"), Event(3.5, 4.0, "last")]
    video = make_video(tmp_path / "clip.mp4", constant(4.0), codec="libx264")
    write_subtitled(video, tmp_path / "out.mp4", events)
    found = [(start, length, text) for start, length, text in cues(tmp_path / "out.mp4") if text]
    assert all(length > 0.1 for _, length, _ in found)
    for tenth in range(40):
        now = tenth / 10 + 0.05
        want = "short" if now < 1 else "inside" if 2 <= now < 2.5 else "last" if now >= 3.5 else "long"
        assert next(text for start, length, text in found if start <= now < start + length).endswith(want)
        assert sum(start <= now < start + length for start, length, _ in found) == 1


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=6)


@given(SPANS)
def test_the_event_that_began_last_is_shown(spans: list[tuple[int, int]]) -> None:
    events = sorted(
        (Event(start / 10, (start + length) / 10, f"{number}") for number, (start, length) in enumerate(spans)),
        key=lambda event: event.place,
    )
    turns = shown_in_turn(events)
    assert all(begin < end for begin, end, _ in turns)
    assert all(before[1] <= after[0] for before, after in pairwise(turns))
    for time in range(0, 4300, 50):
        now = [
            event.sentence
            for event in events
            if event.start * 1000 <= time < max(event.end * 1000, event.start * 1000 + 1)
        ]
        assert [text for begin, end, text in turns if begin <= time < end] == now[-1:]


@pytest.mark.parametrize("burn", [False, True])
def test_pictures_that_are_encoded_anew_keep_their_size_and_shape(burn, tmp_path) -> None:
    """Words and sound come before the first picture, and must not decide about its size; its pixels are not square."""
    times = constant(2.0)
    video = make_video(
        tmp_path / "tall.mp4", times, codec="mpeg4", size=(96, 160), sound_from=0.0, aspect=Fraction(4, 3)
    )
    write_subtitled(video, tmp_path / "out.mp4", [Event(0.5, 1.5, "a dog runs")], Mp4Options(burn, web=True))
    with av.open(str(tmp_path / "out.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.width, stream.height) == ("h264", 96, 160)
        assert stream.sample_aspect_ratio == Fraction(4, 3)
        numbers = [number_of(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]
    assert burn or numbers == list(range(len(times)))


def test_burned_in_captions_change_the_pictures_while_they_last(tmp_path) -> None:
    grey = np.full((128, 192, 3), 200, np.uint8)
    video = make_video(tmp_path / "grey.mp4", constant(3.0), picture=lambda number: grey)
    write_subtitled(video, tmp_path / "out.mp4", [Event(1.0, 2.0, "a dog runs")], Mp4Options(burn=True))
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert not container.streams.subtitles
        frames = [(frame.time, frame.to_ndarray(format="gray")[100:]) for frame in container.decode(video=0)]
    darkest = {round(time, 2): int(picture.min()) for time, picture in frames}
    assert len(frames) == 75
    assert darkest[0.48] > 180 and darkest[2.48] > 180 and darkest[1.48] < 120
    assert max(picture.max() for time, picture in frames if 1.2 < time < 1.8) > 220, "letters are white"


def test_chapters_as_ffmpeg_reads_them(tmp_path) -> None:
    events = [Event(0, 10, "one; two = #3 \\ x"), Event(8, 20, "second"), Event(8, 12, "inside it"), Event(30, 31, "x")]
    (tmp_path / "made.ffmetadata").write_text(ffmpeg_metadata(events, title="a=b"), encoding="utf-8")
    with av.open(str(tmp_path / "made.ffmetadata"), format="ffmetadata") as container:
        chapters = container.chapters()
        assert container.metadata["title"] == "a=b"
    found = [(float(c["start"] * c["time_base"]), float(c["end"] * c["time_base"])) for c in chapters]
    assert found == [(0, 8), (8, 20), (30, 31)]
    assert [c["metadata"]["title"] for c in chapters] == ["one; two = #3 \\ x", "second", "x"]


def test_youtube_gets_what_it_accepts() -> None:
    """The first at 0:00, each at least ten seconds long, no angle brackets."""
    events = [Event(3, 9, "a <man> talks"), Event(9, 14, "too soon"), Event(15, 40, "a dog"), Event(55, 59, "too late")]
    assert youtube_chapters(events, 60.0) == "0:00 A ‹man› talks\n0:15 A dog\n"
    assert youtube_chapters([Event(20, 30, "x")], 4000.0) == "0:00:00 Opening\n0:00:20 X\n"


def test_youtube_s_first_chapter_is_the_first_event_also_of_a_short_video() -> None:
    assert youtube_chapters([Event(1, 6, "a"), Event(7, 10, "b")], 10.0) == "0:00 A\n"
    moved = [Event(5, 12, "a"), Event(12, 20, "b"), Event(22, 32, "c")]
    assert youtube_chapters(moved, 32.0) == "0:00 A\n0:12 B\n0:22 C\n", "ten seconds after 0:00, not after 0:05"
    assert youtube_chapters([], 10.0) == youtube_chapters([Event(12, 15, "too late")], 20.0) == ""
