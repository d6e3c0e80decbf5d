"""The page in a real browser, against a real server: videos become timelines, and nothing is lost on the way."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from densevid.app.job import Job
from densevid.app.settings import Limits, Settings
from helpers.made_videos import constant, make_video
from helpers.running_server import running, served
from helpers.tiny_captioner import write_tiny_model

VIDEOS = Path(__file__).parents[2] / ".." / "shared" / "data" / "videos"
SCRIPT = Path(__file__).parents[1] / "helpers" / "play_captioner.py"
LONG = 120_000  # milliseconds
MARKUP = "<img src=x onerror=alert(1)>&amp;.mp4"

QUIET = {"libx265": {"x265-params": "log-level=none"}}

Page = Any


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[[str], Page]]:
    """Open an address; afterwards nothing may have gone wrong in the page, and nothing asked of the outside."""
    context = browser.new_context()
    problems: list[str] = []
    asked: list[str] = []

    def visit(address: str) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("console", lambda told: "Content Security" in told.text and problems.append(told.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.locator("#limits:has-text('Up to')").wait_for()
        return page

    yield visit
    context.close()
    assert not problems
    assert all(re.match(r"(http://127\.0\.0\.1:\d+/|data:|blob:)", url) for url in asked), asked


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("videos") / "made.mp4", constant(4.0, fps=10))


def playing(folder: Path, mode: str, **limits: Any) -> Settings:
    command = [sys.executable, str(SCRIPT), mode]
    return Settings(folder, replace(Limits(), **limits), lambda video, out, title: [*command, str(video), str(out)])


def card(page: Page, name: str, state: str, timeout: int = LONG) -> Any:
    found = page.locator(f".card[data-state={state}]").filter(has_text=name)
    found.first.wait_for(timeout=timeout)
    return found.first


def file(name: str, content: bytes, kind: str = "video/mp4") -> dict[str, Any]:
    return {"name": name, "mimeType": kind, "buffer": content}


def test_a_real_video_becomes_a_timeline_that_seeks(visit: Callable[[str], Page], model: Path, tmp_path: Path) -> None:
    video = VIDEOS / "AskAnything_making_cake.mp4"
    if not video.is_file():
        pytest.skip(f"there is no {video}")
    with served(tmp_path, "--model", str(model)) as (address, process):
        page = visit(address)
        page.set_input_files("#choose", video)
        running_card = card(page, video.name, "running")
        bar = running_card.locator("[role=progressbar]")
        assert video.name in bar.get_attribute("aria-label")
        seen = {bar.get_attribute("aria-valuetext")}
        while page.locator("#viewer").is_hidden():  # it opens by itself: it is the only one
            page.wait_for_timeout(100)
            seen.add(page.locator(".card-status").text_content())
        assert any(words.startswith("Reading the pictures") for words in seen), seen
        assert len(seen) >= 3, f"it was seen to move: {seen}"
        timeline = page.frame_locator("#timeline")
        timeline.locator("h1", has_text=video.name).wait_for()
        result = json.loads(page.request.get(f"{address}/jobs/{page.url[-32:]}/result.json").text())
        ((named, events),) = result["results"].items()
        assert (
            named == video.stem
            and video.name in page.request.get(f"{address}/jobs/{page.url[-32:]}/result.html").text()
        )
        buttons = timeline.locator("#events li button")
        assert buttons.count() == len(events) > 2
        shown = timeline.locator("video")
        shown.evaluate("video => video.addEventListener('seeking', () => (video.dataset.sought = video.currentTime))")
        for number in (2, 1):
            buttons.nth(number).click()
            start = events[number]["timestamp"][0]
            page.wait_for_timeout(300)
            sought = float(shown.get_attribute("data-sought", timeout=5000) or "nan")
            assert sought == pytest.approx(start, abs=0.1), "the video went where the event begins"
        shown.evaluate("video => video.readyState >= 2 || new Promise(go => video.addEventListener('canplay', go))")
        page.click(".back")
        card(page, video.name, "done").locator(f".small-timeline i >> nth={len(events) - 1}").wait_for()
        surest = max(events, key=lambda event: event["proposal_score"])["sentence"]
        told = card(page, video.name, "done").locator(".card-status").text_content()
        assert told == f"{len(events)} events · {surest}", "what it is about is seen without opening it"
        for place in (".card-name a", ".small-timeline"):
            card(page, video.name, "done").locator(place).click()
            page.locator("#viewer").wait_for()
            page.click(".back")
        page.reload()
        done = card(page, video.name, "done")
        done.locator(".remove").click()
        assert done.locator(".remove").text_content() == "Really delete?"
        done.locator(".remove").click()
        done.wait_for(state="detached")
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("ending", "codec"), [("avi", "mpeg4"), ("mp4", "mpeg4"), ("mp4", "libx265"), ("mkv", "libx264")]
)
def test_a_video_that_browsers_do_not_play_is_made_into_one(
    visit: Callable[[str], Page], model: Path, tmp_path: Path, ending: str, codec: str
) -> None:
    old = make_video(tmp_path / f"old.{ending}", constant(3.0, fps=10), codec=codec, options=QUIET.get(codec), fps=10)
    with served(tmp_path / "work", "--model", str(model)) as (address, _):
        page = visit(address)
        page.set_input_files("#choose", old)
        shown = page.frame_locator("#timeline").locator("video")
        shown.wait_for(timeout=LONG)
        for _ in range(50):
            if (seconds := shown.evaluate("video => video.duration || 0")) > 0:
                break
            page.wait_for_timeout(100)
        assert seconds == pytest.approx(3.0, abs=0.2)
        assert shown.evaluate("video => video.videoWidth") == 192, "there are pictures, not sound alone"


def test_bad_files_are_told_apart_and_their_names_are_harmless(
    visit: Callable[[str], Page], made: Path, tmp_path: Path
) -> None:
    with running(playing(tmp_path, "quick", upload_bytes=1 << 20)) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file("notes.txt", b"hello", "text/plain"), file(MARKUP, made.read_bytes())])
        page.set_input_files("#choose", [file("empty.mp4", b""), file("huge.mp4", b"x" * (3 << 20))])
        reasons = {
            "notes.txt": "Not a video (no format is recognised)",
            "empty.mp4": "The file is empty.",
            "huge.mp4": "The file is larger than the 1 MB that are taken here.",
        }
        for name, reason in reasons.items():
            assert reason in card(page, name, "failed").locator(".card-status").text_content()
        anyway = (
            "bytes => fetch('/jobs', {method: 'POST', body: new Blob([new Uint8Array(bytes)])}).then(a => a.status)"
        )
        assert page.evaluate(anyway, 64 << 20) == 413, "sent anyway, it is answered and not just cut off"
        assert card(page, MARKUP, "done").locator("bdi").text_content() == MARKUP
        assert page.locator(".card img").count() == 0
        assert page.locator("#count").text_content() == "1 of 4 done, 3 failed"
        for name in reasons:
            card(page, name, "failed").locator(".remove").click()
        card(page, MARKUP, "done").locator(".open").click()
        page.frame_locator("#timeline").locator("text=the html of video").wait_for()
        assert page.title() == f"{MARKUP} · densevid"


@pytest.mark.slow
def test_twenty_at_once_all_get_there(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    content = made.read_bytes()
    with running(playing(tmp_path, "quick", workers=2, waiting=12)) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"video {number:02d}.mp4", content) for number in range(20)])
        page.locator("#count:has-text('20 of 20 done')").wait_for(timeout=LONG)
        assert page.locator(".card[data-state=done]").count() == 20
        assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 20


def test_a_killed_worker_costs_nothing_but_time(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "hang-once")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("first", "second")])
        killed: set[Path] = set()
        while len(killed) < 2:  # each hangs at its first attempt
            page.wait_for_timeout(100)
            for child in set(tmp_path.glob("*/child")) - killed:
                os.kill(int(child.with_name("starts").read_text().split()[0]), signal.SIGKILL)
                killed.add(child)
        page.locator("#count:has-text('2 of 2 done')").wait_for(timeout=LONG)


def test_cancelling_stops_the_work(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "hang")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", made)
        card(page, made.name, "running").locator("text=· 50 %").wait_for(timeout=LONG)
        (starts,) = tmp_path.glob("*/starts")
        pid = int(starts.read_text())
        page.locator(".remove").click()
        page.locator(".card").wait_for(state="detached")
        assert not Path(f"/proc/{pid}").exists()
        assert page.locator("#announcer").text_content() == f"{made.name}: removed"


KEPT = "() => JSON.parse(localStorage['densevid.jobs'] ?? '[]').length"


def wait_for(page: Page, script: str) -> None:
    """Ask until it is so; the page's own policy forbids Playwright to wait inside it."""
    for _ in range(100):
        if page.evaluate(script):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never: {script}")


def test_a_double_click_removes_one_video_and_no_other(
    visit: Callable[[str], Page], made: Path, tmp_path: Path
) -> None:
    with running(playing(tmp_path, "hang")) as server:
        page = visit(server.address)
        page.route("**/jobs/*", lambda route: (page.wait_for_timeout(300), route.continue_()))
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("one", "two", "three")])
        wait_for(page, f"({KEPT})() === 3")
        page.locator(".card").filter(has_text="two.mp4").locator(".remove").dblclick()
        page.locator(".card").filter(has_text="two.mp4").wait_for(state="detached")
        page.wait_for_timeout(500)
        assert page.locator(".card-name").all_text_contents() == ["one.mp4", "three.mp4"]
        assert page.evaluate(KEPT) == 2 and len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


def test_a_server_that_does_not_answer_at_first_costs_no_job(
    visit: Callable[[str], Page], made: Path, tmp_path: Path
) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("one", "two")])
        page.locator("#count:has-text('2 of 2 done')").wait_for(timeout=LONG)
        for what in ("**/limits", "**/jobs?*"):
            page.route(what, lambda route: route.abort(), times=1)
            page.reload()
            page.locator("#trouble:has-text('The server does not answer')").wait_for()
            page.locator("#count:has-text('2 of 2 done')").wait_for()
            assert page.evaluate(KEPT) == 2 and page.locator("#trouble").is_hidden()


def test_tabs_know_of_each_others_videos(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "quick")) as server:
        first, second = visit(server.address), visit(server.address)
        for page, name in ((first, "one"), (second, "two")):
            page.set_input_files("#choose", [file(f"{name}{part}.mp4", made.read_bytes()) for part in "ab"])
        for page in (first, second):
            page.locator("#count:has-text('4 of 4 done')").wait_for(timeout=LONG)
        remove = card(first, "twoa.mp4", "done").locator(".remove")
        remove.click()
        remove.click()
        for page in (first, second):
            page.locator("#count:has-text('3 of 3 done')").wait_for()
            assert page.evaluate(KEPT) == 3


def test_back_shows_the_timeline_again(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("one", "two")])
        page.locator("#count:has-text('2 of 2 done')").wait_for(timeout=LONG)
        for name in ("one", "two"):
            card(page, name, "done").locator(".open").click()
            page.frame_locator("#timeline").locator("text=the html of video").wait_for()
            page.click(".back")
        for title in ("two.mp4", "densevid", "one.mp4", "densevid"):
            page.go_back()
            wait_for(page, f"document.title.startsWith({title!r})")
            if title != "densevid":
                page.frame_locator("#timeline").locator("text=the html of video").wait_for()
            else:
                assert page.locator("#viewer").is_hidden()


def test_more_videos_than_one_question_holds(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    many = 130
    for number in range(many):
        folder = tmp_path / f"{number:032x}"
        folder.mkdir()
        shutil.copyfile(made, folder / "video")
        Job(folder, f"video {number}.mp4", made.stat().st_size, created=number).save()
    with running(playing(tmp_path, "hang")) as server:
        page = visit(server.address)
        page.evaluate(f"() => localStorage['densevid.jobs'] = JSON.stringify({[f'{n:032x}' for n in range(many)]})")
        page.reload()
        page.locator(f".card >> nth={many - 1}").wait_for()
        card(page, "video 0.mp4", "running").locator("text=· 50 %").wait_for(timeout=LONG)
        assert page.locator(".card[data-state=queued]").count() == many - 1, "none is taken for deleted"


def test_a_held_upload_that_is_cancelled_makes_room(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "hang", waiting=1)) as server:
        page = visit(server.address)
        page.set_input_files("#choose", made)
        card(page, made.name, "running")
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("b", "c", "d", "e", "f")])
        page.locator(".card[data-state=held] >> nth=2").wait_for()
        card(page, "f.mp4", "new")
        card(page, "", "held").locator(".remove").click()
        card(page, "f.mp4", "held", timeout=5000)


def test_a_shared_address_leaves_a_small_timeline(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", made)
        page.locator("#viewer").wait_for(timeout=LONG)
        told = {"results": {"made": [{"timestamp": [0, 2], "sentence": "a thing happens", "proposal_score": 1}]}}
        next(tmp_path.glob("*/video.densevid.json")).write_text(json.dumps(told))
        page.evaluate("() => localStorage.clear()")
        page.reload()
        page.locator("#viewer").wait_for()
        page.click(".back")
        card(page, made.name, "done").locator(".small-timeline i").wait_for(timeout=5000)


def test_a_server_that_dies_in_the_middle_goes_on_where_it_was(
    visit: Callable[[str], Page], model: Path, made: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with served(tmp_path, "--model", str(model), port=port) as (address, process):
        page = visit(address)
        assert "server" not in page.request.get(f"{address}/limits").headers, "nobody is told what it runs on"
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("first", "second")])
        card(page, "", "running")
        page.locator(".card:not([data-state=uploading]):not([data-state=new])").nth(1).wait_for()
        process.kill()
        process.wait()
        page.locator("#trouble:has-text('The server does not answer')").wait_for()
    with served(tmp_path, "--model", str(model), port=port):
        page.locator("#count:has-text('2 of 2 done')").wait_for(timeout=LONG)
        assert page.locator("#trouble").is_hidden()


def test_it_can_be_used_by_keyboard_and_small_screens(visit: Callable[[str], Page], tmp_path: Path) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 320, "nothing sticks out"
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.id") == "choose"
        page.goto(f"{server.address}/api")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("look", ["light", "dark"])
def test_axe_finds_no_barrier(visit: Callable[[str], Page], made: Path, tmp_path: Path, look: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'densevid[dev]'").Axe()
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
    with running(playing(tmp_path, "slow")) as server:
        page = visit(server.address)
        page.emulate_media(color_scheme=look, reduced_motion="reduce")
        page.set_input_files("#choose", [file("good.mp4", made.read_bytes()), file("bad.mp4", b"hello")])
        page.set_input_files("#choose", [file(f"later{n}.mp4", made.read_bytes()) for n in "12"])  # one would be opened
        found = [axe.run(page, options=rules)]
        card(page, "bad.mp4", "failed")
        card(page, "good.mp4", "done")
        found.append(axe.run(page, options=rules))
        page.goto(f"{server.address}/api")
        found.append(axe.run(page, options=rules))
    assert [result.generate_report() for result in found if result.violations_count] == []
