from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.video.frames import VideoSteps
from densevid.video.windows import Sampling, Step
from helpers.made_videos import constant, make_video, number_of, numbered, packet_times, variable

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
B_FRAMES = {"bf": "4", "x264-params": "b-pyramid=normal:b-adapt=0:keyint=50", "preset": "veryfast"}


def steps_of(path: Path, **settings: object) -> list[Step]:
    skip, threads = bool(settings.pop("skip", True)), int(settings.pop("threads", 1))  # type: ignore[call-overload]
    with VideoSteps(path, Sampling(**settings), skip=skip, decoder_threads=threads) as video:  # type: ignore[arg-type]
        return list(video)


def numbers_of(steps: list[Step]) -> list[int]:
    return [number_of(step.pictures_FHWC[0]) for step in steps]


FILES = {
    "plain.mp4": {},
    "plain.mov": {},
    "plain.mkv": {},
    "b-frames.mp4": {"options": B_FRAMES},
    "b-frames.mkv": {"options": B_FRAMES},
    "b-frames.ts": {"options": B_FRAMES},
    "hevc.mp4": {"codec": "libx265", "options": {"preset": "ultrafast", "x265-params": "log-level=none:bframes=4"}},
    "vp9.webm": {"codec": "libvpx-vp9", "options": {"deadline": "realtime", "cpu-used": "8"}},
    "ten-bit.mkv": {"codec": "libx265", "pixels": "yuv420p10le", "options": {"x265-params": "log-level=none"}},
    "mpeg4.mp4": {"codec": "mpeg4", "options": {"bf": "2"}},
    "tall.mp4": {"size": (66, 190)},
    "intra.mov": {"codec": "mjpeg", "pixels": "yuvj420p"},
}


@pytest.mark.parametrize("times", [constant(4.0), constant(3.0, 60), variable(4.0)], ids=["25", "60", "variable"])
@pytest.mark.parametrize("name", FILES)
def test_each_step_has_the_right_frame_at_its_own_presentation_time(name, times, tmp_path) -> None:
    path = make_video(tmp_path / name, times, **FILES[name])
    in_file = packet_times(path)
    assert len(in_file) == len(times)
    steps = steps_of(path)
    numbers = numbers_of(steps)
    assert np.abs([step.time for step in steps] - in_file[numbers]).max() < 1e-6, "the clock is the packets' own"
    turn = np.arange(len(steps)) * 0.5
    nearest = np.abs(in_file[:, None] - turn).min(axis=0)
    assert np.abs(in_file[numbers] - turn) == pytest.approx(nearest, abs=1e-6)


@pytest.mark.parametrize("frames_per_step", [1, 5])
@pytest.mark.parametrize("name", ["b-frames.mp4", "b-frames.mkv", "b-frames.ts", "hevc.mp4", "mpeg4.mp4", "intra.mov"])
def test_leaving_frames_undecoded_changes_nothing(name, frames_per_step, tmp_path) -> None:
    path = make_video(tmp_path / name, variable(6.0), **FILES[name])
    skipped, whole = (steps_of(path, frames_per_step=frames_per_step, skip=skip) for skip in (True, False))
    assert [step.time for step in skipped] == [step.time for step in whole]
    for one, other in zip(skipped, whole, strict=True):
        assert np.array_equal(one.pictures_FHWC, other.pictures_FHWC)
        assert np.array_equal(one.seconds_F, other.seconds_F)


@pytest.mark.parametrize("name", ["b-frames.mp4", "hevc.mp4"])
def test_decoding_with_threads_changes_nothing(name, tmp_path) -> None:
    path = make_video(tmp_path / name, variable(6.0), size=(640, 360), **FILES[name])
    threaded, plain = (steps_of(path, frames_per_step=5, threads=threads) for threads in (3, 1))
    assert [step.time for step in threaded] == [step.time for step in plain]
    assert all(np.array_equal(a.pictures_FHWC, b.pictures_FHWC) for a, b in zip(threaded, plain, strict=True))


@pytest.mark.parametrize(("name", "share"), [("b-frames.mp4", 0.7), ("intra.mov", 0.2)])
def test_frames_that_nothing_needs_are_really_not_decoded(name, share, tmp_path) -> None:
    path = make_video(tmp_path / name, constant(6.0, 50), **FILES[name])
    decoded = []
    for skip in (True, False):
        with VideoSteps(path, skip=skip) as video:
            decoded.append(sum(1 for _ in video._frames()))
    assert decoded[1] == 300
    assert decoded[0] < share * decoded[1]


def test_a_step_has_contiguous_frames_from_its_own_on_and_the_last_ones_at_the_end(tmp_path) -> None:
    path = make_video(tmp_path / "b.mp4", constant(2.1), options=B_FRAMES)
    runs = [[number_of(picture) for picture in step.pictures_FHWC] for step in steps_of(path, frames_per_step=5)]
    starts = [run[0] for run in runs]
    assert [run == list(range(run[0], run[0] + 5)) for run in runs] == [True] * 5
    assert starts[:4] in ([0, 12, 25, 37], [0, 12, 25, 38], [0, 13, 25, 38], [0, 13, 25, 37])
    assert starts[4] == len(constant(2.1)) - 5


@pytest.mark.parametrize("name", ["late.mkv", "late.ts", "late.mp4"])
def test_time_zero_is_where_the_file_starts(name, tmp_path) -> None:
    path = make_video(tmp_path / name, constant(2.0, start=7.3))
    assert [round(step.time, 3) for step in steps_of(path)] == pytest.approx([0.0, 0.48, 1.0, 1.48], abs=0.041)
    assert steps_of(path)[0].time == 0.0


def test_pictures_that_start_after_the_sound_keep_their_distance_to_it(tmp_path) -> None:
    path = make_video(tmp_path / "sound.mkv", constant(2.0, start=1.2), sound_from=0.0)
    steps = steps_of(path)
    in_file = packet_times(path)
    assert in_file[0] > 1.1
    assert [step.time for step in steps] == pytest.approx(in_file[numbers_of(steps)], abs=1e-6)


@pytest.mark.parametrize("quarter_turns", [0, 1, 2, 3])
def test_rotation_metadata_turns_the_picture(quarter_turns, tmp_path) -> None:
    bright_corner = np.full((128, 192, 3), 20, np.uint8)
    bright_corner[:64, :96] = 230
    path = make_video(tmp_path / "turned.mp4", constant(1.0), picture=lambda number: bright_corner)
    _set_rotation(path, quarter_turns)
    picture = steps_of(path, size=64)[0].pictures_FHWC[0].astype(int).mean(axis=2)
    corners = {(row, column): picture[row * 32 + 16, column * 32 + 16] for row in (0, 1) for column in (0, 1)}
    clockwise = [(0, 0), (0, 1), (1, 1), (1, 0)]
    assert max(corners, key=lambda corner: corners[corner]) == clockwise[quarter_turns]


def _set_rotation(path: Path, quarter_turns: int) -> None:
    """Write the matrix of a clockwise turn into the track header, as phones do."""
    content = bytearray(path.read_bytes())
    header = content.index(b"tkhd")
    cosine, sine = [(1, 0), (0, 1), (-1, 0), (0, -1)][quarter_turns]
    one, last = 1 << 16, 1 << 30
    matrix = (cosine * one, sine * one, 0, -sine * one, cosine * one, 0, 0, 0, last)
    struct.pack_into(">9i", content, header + 4 + 40, *matrix)
    path.write_bytes(content)


def test_avi_with_reordered_frames_runs_at_its_own_pace(tmp_path) -> None:
    times = constant(4.0)
    path = make_video(tmp_path / "b.avi", times, codec="mpeg4", options={"bf": "2"}, fps=25)
    steps = steps_of(path)
    numbers = numbers_of(steps)
    assert numbers == [0, 12, 25, 37, 50, 62, 75, 87] or numbers == [0, 13, 25, 38, 50, 63, 75, 88]
    assert [step.time for step in steps] == pytest.approx([number / 25 for number in numbers], abs=1e-6)


def test_a_gif_holds_its_pictures(tmp_path) -> None:
    path = make_video(tmp_path / "slow.gif", [0.0, 1.2, 2.4], codec="gif", pixels="rgb8")
    steps = steps_of(path)
    assert numbers_of(steps)[:5] == [0, 0, 1, 1, 1]
    assert [step.time for step in steps][:5] == pytest.approx([0.0, 0.5, 1.2, 1.5, 2.0])


def test_the_setting_decides_how_many_steps_there_are(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(4.0))
    assert len(steps_of(path, seconds_per_step=0.2)) == 20
    assert len(steps_of(path, seconds_per_step=2.0)) == 2


@pytest.mark.parametrize("wrong", [{"seconds_per_step": 0}, {"frames_per_step": 0}, {"size": 0}])
def test_impossible_settings_are_refused(wrong) -> None:
    with pytest.raises(InputError):
        Sampling(**wrong)


def test_memory_does_not_grow_with_the_video(tmp_path) -> None:
    resource = pytest.importorskip("resource")
    grey, fast = np.full((240, 320, 3), 90, np.uint8), {"preset": "ultrafast"}
    settings = {"size": (320, 240), "picture": lambda number: grey, "options": fast}
    assert sum(1 for _ in _lazily(make_video(tmp_path / "short.mp4", constant(30.0, 10), **settings))) == 60
    long = make_video(tmp_path / "long.mp4", constant(300.0, 10), **settings)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in _lazily(long)) == 600
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000, "kilobytes; its frames are 345 MB, its pictures 450"


def _lazily(path: Path):
    with VideoSteps(path, Sampling(frames_per_step=5)) as video:
        yield from video


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared videos are not beside this checkout")
def test_real_files_are_the_same_with_and_without_skipping() -> None:
    clips = sorted((SHARED / "msrvtt" / "clips").glob("*.mp4"))[::60]
    for path in [*clips, SHARED / "videos" / "torchvision_basketball.mp4"]:
        skipped, whole = (steps_of(path, frames_per_step=5, skip=skip) for skip in (True, False))
        assert [step.time for step in skipped] == [step.time for step in whole]
        assert all(np.array_equal(a.pictures_FHWC, b.pictures_FHWC) for a, b in zip(skipped, whole, strict=True)), path
        in_file = packet_times(path)
        taken = np.array([step.time for step in skipped])
        assert np.abs(in_file[:, None] - taken).min(axis=0).max() < 1e-6


def test_marks_survive_being_a_picture() -> None:
    assert [number_of(numbered(number)) for number in (0, 1, 77, 4095)] == [0, 1, 77, 4095]
