"""Runs ended by a full disk, a closed folder or a signal: what was done stays, and a line gives the reason."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from densevid.cli import main
from densevid.video.frames import VideoSteps
from helpers.made_videos import constant, make_video
from helpers.waiting import LIMIT_SECONDS, wait_until

HELD = """
import signal, sys
from densevid.cli import main
from densevid.video import extract

steps, opened = extract.VideoSteps, []

def held(path, *args, **options):
    opened.append(path)
    if len(opened) == 5:
        signal.pause()
    return steps(path, *args, **options)

extract.VideoSteps = held
sys.exit(main(sys.argv[1:]))
"""


def start(*words: str | Path, held: bool = False, **options: object) -> subprocess.Popen[str]:
    """`densevid caption`; one that is held goes no further than the fifth video."""
    command = [sys.executable, *(["-c", HELD] if held else ["-m", "densevid"]), "caption", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]


def lines_on_a_full_disk(*words: str | Path) -> list[str]:
    """The lines of a run that may write 9,000 bytes a file; its exit code is 2."""
    resource = pytest.importorskip("resource")
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))}
    process = start(*words, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, **limits)
    _, complaint = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 2, complaint
    return complaint.splitlines()


def no_video(folder: Path) -> Path:
    (folder / "notes.mp4").write_text("This is not a video.\n" * 50)
    return folder / "notes.mp4"


@pytest.mark.parametrize("flags", [[], ["--format", "mp4"], ["--format", "mp4", "--burn"]])
def test_a_full_disk_is_one_line_no_fault_of_the_video_and_the_end(flags, clip, tmp_path) -> None:
    two = [shutil.copy(clip, tmp_path / name) for name in ("a.mp4", "b.mp4")]
    (complaint,) = lines_on_a_full_disk(*two, *flags, *(["--progress", "none"] if flags else []))
    assert "a: File too large; free some space and give the same command again" in complaint
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.mp4", "b.mp4"], "nothing half-written"


def test_what_failed_before_the_disk_was_full_is_reported(clip, tmp_path) -> None:
    first, second = lines_on_a_full_disk(no_video(tmp_path), shutil.copy(clip, tmp_path / "z.mp4"), "--format", "html")
    assert "notes.mp4: not a video" in first
    assert "z: File too large; free some space and give the same command again" in second


def test_an_index_that_cannot_be_written_is_one_more_failure(clip, tmp_path, capsys) -> None:
    (tmp_path / "index.densevid.json").mkdir()
    videos = [shutil.copy(clip, tmp_path / "a.mp4"), no_video(tmp_path)]
    assert main(["caption", *map(str, videos), "--format", "json"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert (
        len(lines) == 2 and "index.densevid.json: it is a folder" in lines[0] and "notes.mp4: not a video" in lines[1]
    )
    assert (tmp_path / "a.densevid.json").is_file()


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_after_an_interrupt_or_a_kill_it_goes_on_where_it_was(stop, code, tmp_path, fresh_cache, monkeypatch) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for number in range(6):
        make_video(folder / f"{number}.mp4", constant(6.0 + number))
    process = start(folder, "--format", "json", held=True)
    wait_until((folder / "1.densevid.json").exists, process)
    process.send_signal(stop)
    _, complaint = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == code and "Traceback" not in complaint
    decoded: list[object] = []
    whole = VideoSteps

    def counting(path: object, *args: object, **options: object) -> object:
        decoded.append(path)
        return whole(path, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("densevid.video.extract.VideoSteps", counting)
    assert main(["caption", str(folder), "--format", "json"]) == 0
    assert len(list(folder.glob("?.densevid.json"))) == 6 and len(decoded) <= 4
