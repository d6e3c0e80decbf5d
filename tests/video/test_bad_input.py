"""Files as they really come: each is used, or refused with one line that names the reason."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest

from densevid.errors import InputError
from densevid.video.backbones import plug_in
from densevid.video.container import open_video
from densevid.video.extract import extract
from densevid.video.frames import VideoSteps
from helpers.made_videos import constant, make_sound, make_video, number_of, numbered

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "videos"


def colours(pictures):
    return pictures.mean(axis=(1, 2, 3))


COLOURS = plug_in(colours, size=32)


def noisy(number: int) -> np.ndarray:
    """Noise makes files that are large enough to be damaged in the middle."""
    noise = np.random.default_rng(number).integers(-20, 20, (128, 192, 3))
    return np.clip(numbered(number) + noise, 0, 255).astype(np.uint8)


def read(path: Path) -> tuple[int, VideoSteps]:
    with VideoSteps(path) as video:
        return sum(1 for _ in video), video


def refused(path: Path | str) -> str:
    with pytest.raises(InputError) as caught:
        extract(path, backbone=COLOURS)
    text = str(caught.value)
    assert "\n" not in text and str(path) in text
    return text


def test_missing_file(tmp_path) -> None:
    assert "no such file" in refused(tmp_path / "nothing.mp4")


def test_folder(tmp_path) -> None:
    assert "a folder" in refused(tmp_path)


def test_empty_file(tmp_path) -> None:
    (tmp_path / "empty.mp4").touch()
    assert "empty" in refused(tmp_path / "empty.mp4")


@pytest.mark.parametrize("name", ["notes.mp4", "notes.txt", "notes.srt"])
def test_text_file(name, tmp_path) -> None:
    (tmp_path / name).write_text("1\n00:00:01,000 --> 00:00:02,000\nThis is not a video.\n" * 50)
    assert "not a video that can be read" in refused(tmp_path / name)


@pytest.mark.parametrize("content", [np.random.default_rng(0).bytes(100_000), b"Not a video.\n" * 50])
def test_what_is_of_no_format_was_not_cut_short(content, tmp_path) -> None:
    (tmp_path / "noise.mp4").write_bytes(content)
    assert "not a video (no format is recognised)" in refused(tmp_path / "noise.mp4")


def test_mp4_cut_short_before_its_index(tmp_path) -> None:
    whole = make_video(tmp_path / "whole.mp4", constant(4.0), picture=noisy).read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) * 6 // 10])
    assert "cut short" in refused(tmp_path / "cut.mp4")


def test_mkv_cut_short_gives_its_first_part(tmp_path) -> None:
    whole = make_video(tmp_path / "whole.mkv", constant(10.0), picture=noisy).read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) * 6 // 10])
    with pytest.warns(
        UserWarning, match=r"cut\.mkv: about [34]\.\d seconds of the 10\.0 it declares could not be read"
    ):
        track = extract(tmp_path / "cut.mkv", backbone=COLOURS)
    assert track.duration == pytest.approx(6.0, abs=0.5)
    assert len(track) == pytest.approx(12, abs=1)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_avi_cut_short_tells_how_much_is_missing(part, tmp_path) -> None:
    """The decoder guesses a duration that fits the part that is there."""
    whole = make_video(tmp_path / "whole.avi", constant(10.0), codec="mpeg4", fps=25, picture=noisy)
    assert read(whole)[1].warning is None and read(whole)[1].declared == pytest.approx(10.0, abs=0.1)
    content = whole.read_bytes()
    (tmp_path / "cut.avi").write_bytes(content[: int(len(content) * part)])
    _, video = read(tmp_path / "cut.avi")
    assert 10.0 - video.end > 0.3 and video.lost_seconds == pytest.approx(10.0 - video.end, abs=0.3)
    assert "seconds of the 10.0 it declares could not be read" in (video.warning or "")


@pytest.mark.parametrize("name", ["whole.mp4", "whole.mkv", "whole.ts"])
def test_a_hole_in_the_middle_is_counted_and_the_rest_is_used(name, tmp_path) -> None:
    whole = make_video(tmp_path / name, constant(10.0), picture=noisy).read_bytes()
    middle, fifth = len(whole) // 2, len(whole) // 5
    broken = tmp_path / f"broken-{name}"
    broken.write_bytes(whole[:middle] + bytes(fifth) + whole[middle + fifth :])
    count, video = read(broken)
    assert count == 20
    assert 1 < video.lost_seconds < 4, "about two, and what cannot be decoded without them"
    assert "damaged" in (video.warning or "")


@pytest.mark.parametrize("sound_from", [None, 0.0])
def test_a_hole_is_noticed_wherever_it_is(sound_from, tmp_path) -> None:
    """Behind some holes an mkv goes on as if nothing had been; a picture that is held for long is no hole."""
    whole = make_video(tmp_path / "whole.mkv", constant(10.0), picture=noisy, sound_from=sound_from).read_bytes()
    broken, fifth = tmp_path / "broken.mkv", len(whole) // 5
    for first in range(len(whole) // 3, len(whole) // 2, len(whole) // 60):
        broken.write_bytes(whole[:first] + bytes(fifth) + whole[first + fifth :])
        _, video = read(broken)
        assert 1 < video.lost_seconds < 6 and "damaged" in (video.warning or ""), first
    times = [time for time in constant(10.0) if not 4 < time < 7]
    _, video = read(make_video(tmp_path / "held.mkv", times, picture=noisy, sound_from=sound_from))
    assert video.lost_seconds < 0.1 and video.warning is None


def test_random_bytes_in_the_middle_never_bring_it_down(tmp_path) -> None:
    for name in ("whole.mp4", "whole.mkv", "whole.avi"):
        settings = {"codec": "mpeg4", "fps": 25} if name.endswith("avi") else {}
        whole = make_video(tmp_path / name, constant(3.0), picture=noisy, **settings).read_bytes()
        for seed in range(6):
            random = np.random.default_rng(seed)
            content = np.frombuffer(whole, np.uint8).copy()
            where = random.integers(0, len(content), 200)
            content[where] = random.integers(0, 256, 200)
            broken = tmp_path / f"{seed}-{name}"
            broken.write_bytes(content.tobytes())
            try:
                count, video = read(broken)
            except InputError:
                continue
            assert count >= 1 and video.end > 0


def test_sound_only(tmp_path) -> None:
    assert "only sound" in refused(make_sound(tmp_path / "sound.mp4"))


def test_one_frame(tmp_path) -> None:
    with VideoSteps(make_video(tmp_path / "one.mp4", [0.0])) as video:
        steps = list(video)
    assert len(steps) == 1
    assert video.end > 0
    track = extract(tmp_path / "one.mp4", backbone="two-stream")
    assert len(track) == 1


def test_no_frame_at_all(tmp_path) -> None:
    whole = make_video(tmp_path / "none.mp4", constant(1.0)).read_bytes()
    pictures, index = whole.index(b"mdat") + 4, whole.index(b"moov")
    (tmp_path / "none.mp4").write_bytes(whole[:pictures] + bytes(index - pictures) + whole[index:])
    assert "no picture" in refused(tmp_path / "none.mp4")


def test_zero_duration_in_the_header(tmp_path) -> None:
    path = make_video(tmp_path / "zero.mp4", constant(2.0))
    _patch_durations(path, 0)
    assert len(extract(path, backbone=COLOURS)) == 4


def test_absurd_duration_in_the_header(tmp_path) -> None:
    path = make_video(tmp_path / "forever.mp4", constant(2.0))
    _patch_durations(path, 0x7FFFFFFF)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        track = extract(path, backbone=COLOURS)
    assert len(track) == 4
    assert track.duration == pytest.approx(2.0, abs=0.1)


def _patch_durations(path: Path, duration: int) -> None:
    """Overwrite the durations of the movie, its track and its media."""
    content = bytearray(path.read_bytes())
    for box, offset in ((b"mvhd", 20), (b"tkhd", 24), (b"mdhd", 20)):
        struct.pack_into(">I", content, content.index(box) + offset, duration)
    path.write_bytes(content)


def test_absurd_size_in_the_header_where_the_pictures_know_better(tmp_path) -> None:
    path = make_video(tmp_path / "huge.avi", constant(1.0), codec="mjpeg", pixels="yuvj420p", fps=25)
    content = bytearray(path.read_bytes())
    struct.pack_into("<ii", content, content.index(b"strf") + 12, 60000, 60000)
    path.write_bytes(content)
    assert len(extract(path, backbone=COLOURS)) == 2


def test_absurd_size_that_the_decoder_would_believe(tmp_path) -> None:
    resource = pytest.importorskip("resource")
    path = make_video(tmp_path / "huge.gif", constant(1.0), codec="gif", pixels="rgb8")
    content = bytearray(path.read_bytes())
    struct.pack_into("<HH", content, 6, 60000, 60000)
    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "no picture that can be decoded" in refused(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes; believed, it is gigabytes"


def test_a_clock_that_jumps_by_days_is_followed_up_to_the_jump(tmp_path) -> None:
    path = make_video(tmp_path / "jump.mkv", [*constant(2.0), *constant(2.0, start=400_000.0)])
    count, video = read(path)
    assert count == 4
    assert "jumps" in (video.warning or "")


def test_metadata_that_is_not_unicode(tmp_path) -> None:
    path = make_video(tmp_path / "title.mp4", constant(1.0))
    content = path.read_bytes()
    assert content.count(b"Lavf") >= 1
    path.write_bytes(content.replace(b"Lavf", b"L\xff\xfef"))
    assert len(extract(path, backbone=COLOURS)) == 2


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared videos are not beside this checkout")
def test_every_shared_video_can_be_read_whole() -> None:
    files = sorted(SHARED.iterdir())
    assert any("cartwheel" in file.name for file in files)
    for file in files:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(extract(file, backbone=COLOURS)) >= 5, file


@pytest.mark.parametrize(
    "name",
    ["with space.mp4", 'it\'s "quoted".mp4', "видео 视频 🎬.mp4", "-dash.mp4", "50%.mp4", "file:x.mp4", "a|b.mp4"],
)
def test_odd_names(name, tmp_path, monkeypatch) -> None:
    make_video(tmp_path / "plain.mp4", constant(1.0)).rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert len(extract(name, backbone=COLOURS)) == 2


def test_a_name_that_is_not_unicode(tmp_path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.mp4")
    make_video(tmp_path / "plain.mp4", constant(1.0)).rename(odd)
    assert len(extract(odd, backbone=COLOURS)) == 2


def test_a_file_that_may_not_be_read(tmp_path) -> None:
    path = make_video(tmp_path / "secret.mp4", constant(1.0))
    path.chmod(0)
    user = os.geteuid()
    try:
        if user == 0:  # nothing is forbidden to root
            os.seteuid(65534)
        assert "Permission denied" in refused(path)
    finally:
        os.seteuid(user)


def test_a_pipe_is_not_waited_for(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    assert "not a regular file" in refused(tmp_path / "pipe.mp4")


@pytest.mark.parametrize("name", ["concat:a.mp4|a.mp4", "file:a.mp4", "subfile,,start,0,end,0,,:a.mp4", "pipe:0", "-"])
def test_a_name_is_never_a_protocol(name, tmp_path, monkeypatch) -> None:
    make_video(tmp_path / "a.mp4", constant(1.0))
    monkeypatch.chdir(tmp_path)
    assert "no such file" in refused(name)


@pytest.mark.parametrize("name", ["http://127.0.0.1:9/a.mp4", "rtmp://127.0.0.1/a"])
def test_no_network(name) -> None:
    with pytest.raises(InputError, match="no such file"):
        extract(name, backbone=COLOURS)


PLAYLISTS = {
    "list.m3u8": "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXTINF:2.0,\na.ts\n#EXT-X-ENDLIST\n",
    "list.ffconcat": "ffconcat version 1.0\nfile a.ts\n",
    "list.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
    "list.mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"></MPD>',
}


@pytest.mark.parametrize("renamed", [None, "clip.mp4"])
@pytest.mark.parametrize("name", PLAYLISTS)
def test_a_playlist_is_not_followed(name, renamed, tmp_path, monkeypatch) -> None:
    make_video(tmp_path / "a.ts", constant(1.0))
    playlist = tmp_path / (renamed or name)
    playlist.write_text(PLAYLISTS[name])
    monkeypatch.chdir(tmp_path)
    complaint = refused(playlist)
    assert "not a video" in complaint and "Invalid argument" not in complaint


def test_pictures_after_damage_are_the_right_ones(tmp_path) -> None:
    whole = make_video(tmp_path / "whole.mkv", constant(10.0), picture=noisy, options={"g": "25"}).read_bytes()
    middle = len(whole) // 2
    (tmp_path / "broken.mkv").write_bytes(whole[:middle] + bytes(3000) + whole[middle + 3000 :])
    with VideoSteps(tmp_path / "broken.mkv") as video:
        steps = list(video)
    last = steps[-4:]
    assert [number_of(step.pictures_FHWC[0]) for step in last] == [round(step.time * 25) for step in last]


@pytest.mark.parametrize("name", ["late.mkv", "late.webm", "late.ts", "late.mp4", "late.flv"])
def test_a_whole_file_that_starts_late_has_lost_nothing(name, tmp_path) -> None:
    codec = "libvpx-vp9" if name.endswith("webm") else "libx264"
    whole = make_video(tmp_path / name, constant(4.0, start=7.3), codec=codec)
    steps, video = read(whole)
    assert steps == 8 and video.warning is None


def test_a_cut_file_that_starts_late_has_lost_only_its_end(tmp_path) -> None:
    content = make_video(tmp_path / "whole.mkv", constant(8.0, start=7.3), picture=noisy).read_bytes()
    (tmp_path / "cut.mkv").write_bytes(content[: len(content) // 2])
    _, video = read(tmp_path / "cut.mkv")
    assert video.declared == pytest.approx(8.0, abs=0.1)
    assert video.lost_seconds == pytest.approx(8.0 - video.end, abs=0.1)


def test_a_picture_that_grows_in_the_middle_is_not_decoded_beyond_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broadcast may change its frame size; checking the first frame is not enough."""
    sizes = {"small.ts": ((192, 128), 0.0), "large.ts": ((640, 480), 2.0)}
    for name, (size, start) in sizes.items():
        make_video(tmp_path / name, constant(2, fps=10, start=start), size=size, container="mpegts")
    grows = tmp_path / "grows.ts"
    grows.write_bytes(b"".join((tmp_path / name).read_bytes() for name in sizes))
    assert decoded_sizes(grows) == {(192, 128), (640, 480)}
    monkeypatch.setattr("densevid.video.container.MAX_PIXELS", 100_000)
    assert decoded_sizes(grows) == {(192, 128)}


def decoded_sizes(video: Path) -> set[tuple[int, int]]:
    found = set()
    with open_video(video) as (container, stream):
        for packet in container.demux(stream):
            with suppress(av.FFmpegError):
                found |= {(frame.width, frame.height) for frame in packet.decode()}
    return found


def test_the_limit_of_pixels_can_be_lowered_and_not_raised() -> None:
    code = "from densevid.video.container import MAX_PIXELS; print(MAX_PIXELS)"
    for given, limit in (("1000", 1000), ("", 8192**2), ("many", 8192**2), (str(1 << 60), 8192**2)):
        environment = {**os.environ, "DENSEVID_MAX_PIXELS": given}
        assert int(subprocess.check_output([sys.executable, "-c", code], env=environment)) == limit
