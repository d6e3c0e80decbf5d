"""The queue with real processes: order, bounds, every way a process can end, and what survives a server."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from densevid.app.job import Job, State, is_id, new_id, shown_name
from densevid.app.jobs import Jobs, QueueFull
from densevid.app.settings import Limits, Settings
from densevid.errors import InputError
from helpers.made_videos import constant, make_sound, make_video
from helpers.waiting import alive, until

SCRIPT = Path(__file__).parents[1] / "helpers" / "play_captioner.py"


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("videos") / "made.mp4", constant(1.0))


def settings_for(folder: Path, mode: str = "quick", **limits: Any) -> Settings:
    return Settings(
        folder,
        replace(Limits(), **limits),
        lambda video, out, title: [sys.executable, str(SCRIPT), mode, str(video), str(out)],
    )


def put(jobs: Jobs, video: Path, name: str = "mine.mp4") -> Job:
    with jobs.place() as part:
        shutil.copyfile(video, part / "video")
        return jobs.add(part, name, video.stat().st_size)


def in_thread(body: Coroutine[Any, Any, None]) -> None:
    """Run it with a loop of its own, even where a browser's driver keeps one in this thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, body).result()


def run(settings: Settings, body: Callable[[Jobs], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        async with Jobs(settings) as jobs:
            await body(jobs)

    in_thread(inside())


def test_a_video_is_captioned_and_its_progress_is_known(tmp_path: Path, video: Path) -> None:
    async def body(jobs: Jobs) -> None:
        job = put(jobs, video)
        await until(lambda: job.progress == {"check": 1.0, "decode": 0.5, "features": 0.25})
        assert job.state is State.RUNNING
        (job.folder / "go").touch()
        await until(lambda: job.over)
        assert job.state is State.DONE and job.error == ""
        assert job.result("vtt").read_text() == "the vtt of video"
        assert (job.video["width"], job.video["height"]) == (192, 128) and job.upload.name == "video.mp4"
        assert job.public()["links"]["html"] == f"/jobs/{job.id}/result.html"

    run(settings_for(tmp_path, "held"), body)


def test_the_first_comes_first_and_no_more_run_than_workers(tmp_path: Path, video: Path) -> None:
    async def body(jobs: Jobs) -> None:
        all_jobs = [put(jobs, video) for _ in range(5)]
        for first in range(4):
            two, waiting = all_jobs[first : first + 2], all_jobs[first + 2 :]
            await until(lambda two=two: all((job.folder / "starts").exists() for job in two))
            assert {job.state for job in two} == {State.RUNNING}
            assert {job.state for job in waiting} <= {State.QUEUED}
            assert [jobs.position(job) for job in waiting] == list(range(1, len(waiting) + 1))
            (two[0].folder / "go").touch()
            await until(lambda job=two[0]: job.over)
        (all_jobs[-1].folder / "go").touch()
        await until(lambda: all(job.over for job in all_jobs))
        assert {job.state for job in all_jobs} == {State.DONE}

    run(settings_for(tmp_path, "held", workers=2), body)


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("bad", "holds only sound, there is nothing to see in it"),
        ("crash", "the work on it ended with exit code 1 and without a result"),
        ("empty", "the work on it ended with exit code 0 and without a result"),
        ("killed", "the work on it was killed 2 times (signal 9): out of memory?"),
    ],
)
def test_each_bad_end_is_one_line(tmp_path: Path, video: Path, mode: str, error: str) -> None:
    async def body(jobs: Jobs) -> None:
        job = put(jobs, video)
        await until(lambda: job.over)
        assert (job.state, job.error) == (State.FAILED, error)
        assert str(tmp_path) not in job.error

    run(settings_for(tmp_path, mode), body)


def test_lines_that_are_no_progress_change_nothing(tmp_path: Path, video: Path) -> None:
    async def body(jobs: Jobs) -> None:
        job = put(jobs, video)
        await until(lambda: job.over)
        assert job.state is State.DONE
        assert job.progress == {"check": 1.0, "decode": 0.5, "features": 0.25, "sentences": 1.0}

    run(settings_for(tmp_path, "chatter"), body)


def test_what_hangs_is_stopped_with_its_children(tmp_path: Path, video: Path) -> None:
    async def body(jobs: Jobs) -> None:
        loop, passed = asyncio.get_running_loop(), 0.0
        clock = loop.time
        loop.time = lambda: clock() + passed  # type: ignore[method-assign]
        job = put(jobs, video)
        await until(lambda: (job.folder / "child").exists())
        assert not job.over
        passed = 3601.0
        await until(lambda: job.over)
        assert job.error == "stopped: it took longer than 1 h 00 min"
        assert not alive(int((job.folder / "child").read_text()))

    run(settings_for(tmp_path, "hang", job_seconds=3600.0), body)


def test_a_killed_process_is_tried_again(tmp_path: Path, video: Path) -> None:
    async def body(jobs: Jobs) -> None:
        job = put(jobs, video)
        await until(lambda: (job.folder / "child").exists())
        child = int((job.folder / "child").read_text())
        os.kill(int((job.folder / "starts").read_text().split()[0]), signal.SIGKILL)
        await until(lambda: job.over)
        assert (job.state, job.attempts) == (State.DONE, 2)
        assert not alive(child), "what it had started went with it"

    run(settings_for(tmp_path, "hang-once"), body)


def test_removing_stops_and_deletes(tmp_path: Path, video: Path) -> None:
    async def body(jobs: Jobs) -> None:
        running, waiting = put(jobs, video), put(jobs, video)
        await until(lambda: (running.folder / "child").exists())
        child = int((running.folder / "child").read_text())
        await jobs.remove(waiting)
        await jobs.remove(running)
        assert not alive(child) and jobs.get(running.id) is None
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]

    run(settings_for(tmp_path, "hang"), body)


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"pixels": 1000}, "its pictures are 192 x 128; the most taken here is 1,000 pixels"),
        ({"seconds": 0.5}, "it is longer than the limit of 0 s"),
    ],
)
def test_too_much_of_a_video_is_refused(tmp_path: Path, video: Path, limits: dict[str, Any], error: str) -> None:
    async def body(jobs: Jobs) -> None:
        job = put(jobs, video)
        await until(lambda: job.over)
        assert (job.state, job.error) == (State.FAILED, error)
        assert not (job.folder / "starts").exists(), "it was refused before the work"

    run(settings_for(tmp_path, **limits), body)


def test_the_work_knows_how_large_a_picture_may_be(tmp_path: Path, video: Path) -> None:
    program = "import os, sys; open(sys.argv[1], 'w').write(os.environ['DENSEVID_MAX_PIXELS'])"

    async def body(jobs: Jobs) -> None:
        job = put(jobs, video)
        await until(lambda: job.over)
        assert (job.folder / "limit").read_text() == "50000"

    settings = settings_for(tmp_path, pixels=50_000)
    run(replace(settings, command=lambda video, out, title: [sys.executable, "-c", program, str(out / "limit")]), body)


def test_what_is_no_video_is_refused(tmp_path: Path) -> None:
    sound = make_sound(tmp_path / "sound.mp4")
    text = tmp_path / "text.mp4"
    text.write_text("#EXTM3U\nfile:///etc/passwd\n")

    async def body(jobs: Jobs) -> None:
        by_name = {path.name: put(jobs, path, name=path.name) for path in (sound, text)}
        await until(lambda: all(job.over for job in by_name.values()))
        assert by_name["sound.mp4"].error == "holds only sound, there is nothing to see in it"
        assert by_name["text.mp4"].error.startswith("not a video")

    run(settings_for(tmp_path / "work"), body)


def test_a_full_queue_says_when_to_come_again(tmp_path: Path, video: Path) -> None:
    async def body(jobs: Jobs) -> None:
        running = put(jobs, video)
        await until(lambda: running.state is State.RUNNING)
        with jobs.place():  # an upload on its way counts too
            put(jobs, video)
            with pytest.raises(QueueFull) as full, jobs.place():
                pass
            assert 5 <= full.value.retry_after <= 300
        put(jobs, video)

    run(settings_for(tmp_path, "hang", waiting=2), body)


def test_room_is_what_is_left_when_all_uploads_are_whole(
    tmp_path: Path, video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(jobs: Jobs) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10_000))
        with jobs.place(1000) as first, jobs.place(5000):
            (first / "video").write_bytes(b"x" * 400)
            assert jobs.free_bytes() == 10_000 - 600 - 5000
        assert jobs.free_bytes() == 10_000

    run(settings_for(tmp_path), body)


def test_a_mistake_of_the_server_is_remembered(tmp_path: Path, video: Path) -> None:
    def broken(video: Path, out: Path, title: str) -> list[str]:
        raise ValueError("no such command")

    async def body(jobs: Jobs) -> None:
        job = put(jobs, video)
        await until(lambda: job.over)
        assert job.error == "the server could not work on it (no such command)"
        await until(lambda: Job.load(job.folder).state is State.FAILED)

    run(replace(settings_for(tmp_path), command=broken), body)


def test_a_folder_without_a_record_is_removed(tmp_path: Path) -> None:
    for name, record in ((new_id(), None), (new_id(), "{"), (new_id(), '{"job": {}}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "video").write_bytes(b"x")
        if record:
            (tmp_path / name / "job.json").write_text(record)
    (tmp_path / "not ours").mkdir()

    async def body(jobs: Jobs) -> None:
        assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "not ours"]

    run(settings_for(tmp_path), body)


def test_jobs_outlive_a_server_that_stops_and_one_that_is_killed(tmp_path: Path, video: Path) -> None:
    async def stopped(jobs: Jobs) -> None:
        first = put(jobs, video)
        put(jobs, video)
        await until(lambda: (first.folder / "child").exists())

    run(settings_for(tmp_path, "hang"), stopped)
    for folder in (path for path in tmp_path.iterdir() if is_id(path.name)):
        assert Job.load(folder).state is State.QUEUED
    killed = Job.load(next(path for path in tmp_path.iterdir() if is_id(path.name)))
    killed.begin()
    killed.save()  # as a server that dies in the middle leaves it
    (tmp_path / f"{new_id()}.part").mkdir()
    (tmp_path / f"{new_id()}.part" / "video").parent.mkdir()

    async def next_one(jobs: Jobs) -> None:
        assert not list(tmp_path.glob("*.part"))
        found = [jobs.get(path.name) for path in tmp_path.iterdir() if is_id(path.name)]
        await until(lambda: all(job is not None and job.state is State.DONE for job in found))
        assert len(found) == 2

    run(settings_for(tmp_path, "quick"), next_one)


@pytest.mark.parametrize("killed", ["before the file has its ending", "after that"])
def test_a_server_that_is_killed_while_it_learns_what_a_video_is_finds_its_file_again(
    tmp_path: Path, video: Path, killed: str
) -> None:
    folder = tmp_path / new_id()
    folder.mkdir()
    shutil.copyfile(video, folder / "video")
    job = Job(folder, "x", video.stat().st_size)
    job.begin()
    job.save()
    job.learn({"ending": ".mp4"})
    if killed == "before the file has its ending":
        (folder / "video.mp4").rename(folder / "video")
    assert Job.load(folder).upload.is_file()

    async def next_one(jobs: Jobs) -> None:
        taken_up = jobs.get(folder.name)
        await until(lambda: taken_up is not None and taken_up.over)
        assert taken_up is not None and (taken_up.state, taken_up.error) == (State.DONE, "")
        assert taken_up.upload == folder / "video.mp4"

    run(settings_for(tmp_path, "quick"), next_one)


def test_what_took_the_server_down_twice_is_not_tried_again(tmp_path: Path, video: Path) -> None:
    folder = tmp_path / new_id()
    folder.mkdir()
    shutil.copyfile(video, folder / "video")
    Job(folder, "x", 1, state=State.RUNNING, attempts=2).save()

    async def body(jobs: Jobs) -> None:
        job = jobs.get(folder.name)
        assert job is not None and job.state is State.FAILED and "2 times" in job.error

    run(settings_for(tmp_path), body)


def test_the_jobs_of_a_killed_server_die_with_it(tmp_path: Path, video: Path) -> None:
    program = (
        "import asyncio, sys; from densevid.app.worker import run_process\n"
        f"command = [sys.executable, {str(SCRIPT)!r}, 'hang', {str(video)!r}, {str(tmp_path)!r}]\n"
        "asyncio.run(run_process(command, lambda line: True, 1e6, {}))"
    )
    server = subprocess.Popen([sys.executable, "-c", program])
    in_thread(until(lambda: (tmp_path / "child").exists()))
    worker = int((tmp_path / "starts").read_text())
    assert alive(worker)
    server.kill()
    server.wait()
    in_thread(until(lambda: not alive(worker)))
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_finished_jobs_are_removed_after_a_time(tmp_path: Path, video: Path) -> None:
    async def body(jobs: Jobs) -> None:
        job = put(jobs, video)
        await until(lambda: jobs.get(job.id) is None)
        assert job.state is State.DONE
        await until(lambda: not job.folder.exists())

    run(settings_for(tmp_path, keep_seconds=0.4), body)


def test_a_folder_has_one_server(tmp_path: Path) -> None:
    async def body(jobs: Jobs) -> None:
        with pytest.raises(InputError, match="another `densevid serve` uses it"):
            await Jobs(settings_for(tmp_path)).__aenter__()

    run(settings_for(tmp_path), body)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("holiday.mp4", "holiday.mp4"),
        ("../../etc/passwd", "passwd"),
        ("C:\\videos\\a b.mp4", "a b.mp4"),
        ("<img src=x onerror=alert(1)>.mp4", "<img src=x onerror=alert(1)>.mp4"),  # escaped where it is shown
        ("gnp\u202e4pm.exe\x00\n\t", "gnp4pm.exe"),
        ("", "video"),
        ("a" * 5000, "a" * 160),
        ("面白い 🎬.mp4", "面白い 🎬.mp4"),
    ],
)
def test_names_are_only_shown(sent: str, shown: str) -> None:
    assert shown_name(sent) == shown


def test_ids_are_random_and_plain() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000 and all(map(is_id, ids))
    assert not any(map(is_id, ("..", "a" * 31, "A" * 32, "/" * 32, "a" * 31 + "\n")))


def test_the_stage_of_a_job_is_what_it_waits_for(tmp_path: Path) -> None:
    job = Job(tmp_path, "x", 1)
    seen = [job.stage]
    for stage, done in [
        ("check", 0.5),
        ("check", 1),
        ("decode", 1),
        ("features", 0.2),
        ("features", 1),
        ("sentences", 1),
    ]:
        job.advance(stage, done)
        seen.append(job.stage)
    assert seen == ["", "check", "decode", "features", "features", "events", "sentences"]
    job = Job(tmp_path, "x", 1, progress={"decode": 0.9, "features": 0.5})
    assert job.stage == "decode", "of stages that overlap the first"
