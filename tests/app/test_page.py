"""The page in a real browser, against a real server: videos become timelines, and nothing is lost on the way."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from densevid.app.job import Job
from densevid.app.settings import Limits, Settings
from helpers.browsers import frames, new_context, wait_until
from helpers.made_videos import constant, make_video
from helpers.running_server import running, served, unused_port
from helpers.tiny_captioner import write_tiny_model
from helpers.waiting import LIMIT_SECONDS
from helpers.waiting import wait_until as wait_here

VIDEOS = Path(__file__).parents[2] / ".." / "shared" / "data" / "videos"
SCRIPT = Path(__file__).parents[1] / "helpers" / "play_captioner.py"
MARKUP = "<img src=x onerror=alert(1)>&amp;.mp4"

CODEC_OPTIONS = {"libx265": {"x265-params": "log-level=none"}}

Page = Any


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[[str], Page]]:
    """Open an address; at the end no page may have had an error or sent a request to another host."""
    context = new_context(browser)
    problems: list[str] = []
    requested: list[str] = []

    def visit(address: str) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("console", lambda line: "Content Security" in line.text and problems.append(line.text))
        page.on("request", lambda request: requested.append(request.url))
        page.goto(address)
        page.locator("#limits:has-text('Up to')").wait_for()
        return page

    yield visit
    context.close()
    assert not problems
    assert all(re.match(r"(http://127\.0\.0\.1:\d+/|data:|blob:)", url) for url in requested), requested


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("videos") / "made.mp4", constant(4.0, fps=10))


def playing(folder: Path, mode: str, **limits: Any) -> Settings:
    command = [sys.executable, str(SCRIPT), mode]
    return Settings(folder, replace(Limits(), **limits), lambda video, out, title: [*command, str(video), str(out)])


def card(page: Page, name: str, state: str) -> Any:
    found = page.locator(f".card[data-state={state}]").filter(has_text=name)
    found.first.wait_for()
    return found.first


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def count_shows(page: Page, text: str) -> None:
    expect(page.locator("#count")).to_have_text(text)


def remove_done(page: Page, name: str) -> None:
    """Delete a finished video: the button wants a second click, and forgets the first when the pointer leaves it."""
    button = card(page, name, "done").locator(".remove")
    while button.count():
        button.click()
        if button.count() and button.text_content() == "Really delete?":
            button.click()
            button.wait_for(state="detached")


def file(name: str, content: bytes, kind: str = "video/mp4") -> dict[str, Any]:
    return {"name": name, "mimeType": kind, "buffer": content}


RECORD_STATUS = """() => {
  window.statuses = [];
  const note = () => {
    const text = document.querySelector(".card-status")?.textContent;
    if (text && text !== statuses.at(-1)) statuses.push(text);
  };
  new MutationObserver(note).observe(document.querySelector("#list"), { childList: true, subtree: true });
}"""


def test_a_real_video_becomes_a_timeline_that_seeks(visit: Callable[[str], Page], model: Path, tmp_path: Path) -> None:
    video = VIDEOS / "AskAnything_making_cake.mp4"
    if not video.is_file():
        pytest.skip(f"there is no {video}")
    work, go = tmp_path / "work", tmp_path / "go"
    with served(work, "--model", str(model), hold_until=go) as (address, process):
        page = visit(address)
        page.evaluate(RECORD_STATUS)
        page.set_input_files("#choose", video)
        bar = card(page, video.name, "running").locator("[role=progressbar]")
        assert video.name in bar.get_attribute("aria-label")
        expect(bar).to_have_attribute("aria-valuetext", "Decoding frames")
        go.touch()
        page.locator("#viewer").wait_for()  # it opens by itself: it is the only one
        assert len(page.evaluate("statuses")) >= 4, "the progress moved"
        timeline = page.frame_locator("#timeline")
        timeline.locator("h1", has_text=video.name).wait_for()
        result = json.loads(page.request.get(f"{address}/jobs/{page.url[-32:]}/result.json").text())
        ((named, events),) = result["results"].items()
        assert named == video.stem
        assert video.name in page.request.get(f"{address}/jobs/{page.url[-32:]}/result.html").text()
        buttons = timeline.locator("#events li button")
        assert buttons.count() == len(events) > 2
        shown = timeline.locator("video")
        shown.evaluate("video => video.addEventListener('seeking', () => (video.dataset.at = video.currentTime))")
        for number in (2, 1):
            start = events[number]["timestamp"][0]
            buttons.nth(number).click()
            wait_here(lambda start=start: abs(float(shown.get_attribute("data-at") or "nan") - start) < 0.1)
        shown.evaluate("video => video.readyState >= 2 || new Promise(go => video.addEventListener('canplay', go))")
        page.click(".back")
        card(page, video.name, "done").locator(f".small-timeline i >> nth={len(events) - 1}").wait_for()
        best = max(events, key=lambda event: event["proposal_score"])["sentence"]
        expect(card(page, video.name, "done").locator(".card-status")).to_have_text(f"{len(events)} events · {best}")
        for place in (".card-name a", ".small-timeline"):
            card(page, video.name, "done").locator(place).click()
            page.locator("#viewer").wait_for()
            page.click(".back")
        page.reload()
        card(page, video.name, "done").locator(".small-timeline i >> nth=0").wait_for()
        remove_done(page, video.name)
        assert [path.name for path in work.iterdir()] == [".lock"]
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 0


@pytest.mark.parametrize(
    ("ending", "codec"), [("avi", "mpeg4"), ("mp4", "mpeg4"), ("mp4", "libx265"), ("mkv", "libx264")]
)
def test_a_video_that_browsers_do_not_play_is_made_into_one(
    visit: Callable[[str], Page], model: Path, tmp_path: Path, ending: str, codec: str
) -> None:
    old = make_video(
        tmp_path / f"old.{ending}", constant(3.0, fps=10), codec=codec, options=CODEC_OPTIONS.get(codec), fps=10
    )
    with served(tmp_path / "work", "--model", str(model)) as (address, _):
        page = visit(address)
        page.set_input_files("#choose", old)
        shown = page.frame_locator("#timeline").locator("video")
        seconds = shown.evaluate(
            "video => video.duration || new Promise(go => video.addEventListener('loadedmetadata',"
            " () => go(video.duration)))"
        )
        assert seconds == pytest.approx(3.0, abs=0.2)
        assert shown.evaluate("video => video.videoWidth") == 192, "there are pictures, not sound alone"


def test_each_bad_file_has_its_reason_and_no_name_becomes_markup(
    visit: Callable[[str], Page], made: Path, tmp_path: Path
) -> None:
    with running(playing(tmp_path, "quick", upload_bytes=1 << 20)) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file("notes.txt", b"hello", "text/plain"), file(MARKUP, made.read_bytes())])
        page.set_input_files("#choose", [file("empty.mp4", b""), file("huge.mp4", b"x" * (3 << 20))])
        reasons = {
            "notes.txt": "Not a video (no format is recognised)",
            "empty.mp4": "The file is empty.",
            "huge.mp4": "The file is larger than the limit of 1 MB.",
        }
        for name, reason in reasons.items():
            expect(card(page, name, "failed").locator(".card-status")).to_contain_text(reason)
        anyway = (
            "bytes => fetch('/jobs', {method: 'POST', body: new Blob([new Uint8Array(bytes)])}).then(a => a.status)"
        )
        assert page.evaluate(anyway, 64 << 20) == 413, "sent anyway, it is answered and not just cut off"
        assert card(page, MARKUP, "done").locator("bdi").text_content() == MARKUP
        assert page.locator(".card img").count() == 0
        count_shows(page, "1 of 4 done, 3 failed")
        for name in reasons:
            card(page, name, "failed").locator(".remove").click()
        card(page, MARKUP, "done").locator(".open").click()
        page.frame_locator("#timeline").locator("text=the html of video").wait_for()
        expect(page).to_have_title(f"{MARKUP} · densevid")


@pytest.mark.slow
def test_twenty_at_once_all_get_there(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    content = made.read_bytes()
    with running(playing(tmp_path, "quick", workers=2, waiting=12)) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"video {number:02d}.mp4", content) for number in range(20)])
        count_shows(page, "20 of 20 done")
        assert page.locator(".card[data-state=done]").count() == 20
        assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 20


def test_a_killed_worker_costs_nothing_but_time(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "hang-once")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("first", "second")])
        for attempt in range(2):  # each hangs at its first attempt
            wait_here(lambda attempt=attempt: len(list(tmp_path.glob("*/child"))) > attempt)
            newest = max(tmp_path.glob("*/child"), key=lambda path: path.stat().st_mtime_ns)
            os.kill(int(newest.with_name("starts").read_text().split()[0]), signal.SIGKILL)
        count_shows(page, "2 of 2 done")


def test_cancelling_stops_the_work(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "hang")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", made)
        card(page, made.name, "running").locator("text=· 50 %").wait_for()
        (starts,) = tmp_path.glob("*/starts")
        pid = int(starts.read_text())
        page.locator(".remove").click()
        page.locator(".card").wait_for(state="detached")
        assert not Path(f"/proc/{pid}").exists()
        expect(page.locator("#announcer")).to_have_text(f"{made.name}: removed")


KEPT = "Object.keys(localStorage).filter((key) => key.startsWith('densevid.job.')).length"


@pytest.mark.parametrize("server_is", ["slow", "quick"])
def test_a_double_click_removes_one_video_and_no_other(
    visit: Callable[[str], Page], made: Path, tmp_path: Path, server_is: str
) -> None:
    with running(playing(tmp_path, "hang")) as server:
        page = visit(server.address)
        deleted: list[str] = []
        held: list[Any] = []
        page.on("request", lambda request: request.method == "DELETE" and deleted.append(request.url))
        if server_is == "slow":  # it deletes nothing before the second click
            page.route("**/jobs/*", lambda route: held.append(route))
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("one", "two", "three")])
        wait_until(page, f"{KEPT} === 3")
        two = page.locator(".card").filter(has_text="two.mp4")
        box = two.locator(".remove").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down(click_count=1)
        page.mouse.up(click_count=1)
        if server_is == "quick":  # another card lies there by then
            two.wait_for(state="detached")
        page.mouse.down(click_count=2)
        page.mouse.up(click_count=2)
        while server_is == "slow" and not held:  # the browser's driver hands requests over during its own calls
            frames(page)
        for route in held:
            route.continue_()
        page.unroute("**/jobs/*")
        two.wait_for(state="detached")
        page.evaluate("() => fetch('/limits').then(() => {})")  # a request of the second click would have come before
        assert page.locator(".card-name").all_text_contents() == ["one.mp4", "three.mp4"]
        assert len(deleted) == 1 and page.evaluate(KEPT) == 2
        assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


def test_a_server_that_does_not_answer_at_first_costs_no_job(
    visit: Callable[[str], Page], made: Path, tmp_path: Path
) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("one", "two")])
        count_shows(page, "2 of 2 done")
        for what in ("**/limits", "**/jobs?*"):
            page.route(what, lambda route: route.abort())
            page.reload()
            page.locator("#trouble:has-text('The server does not answer')").wait_for()
            page.unroute(what)
            count_shows(page, "2 of 2 done")
            expect(page.locator("#trouble")).to_be_hidden()
            assert page.evaluate(KEPT) == 2


def test_each_tab_shows_the_videos_of_the_others(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "quick")) as server:
        first, second = visit(server.address), visit(server.address)
        for page, name in ((first, "one"), (second, "two")):
            page.set_input_files("#choose", [file(f"{name}{part}.mp4", made.read_bytes()) for part in "ab"])
        for page in (first, second):
            count_shows(page, "4 of 4 done")
        remove_done(first, "twoa.mp4")
        for page in (first, second):
            count_shows(page, "3 of 3 done")
            wait_until(page, f"{KEPT} === 3")


def test_tabs_that_keep_videos_at_the_same_moment_lose_none(visit: Callable[[str], Page], tmp_path: Path) -> None:
    keep = """(first) => { window.kept = import('/page/memory.js').then(async ({ keep }) => {
      for (let number = first; number < first + 100; number += 1) {
        keep(number.toString(16).padStart(32, '0'), number);
        await new Promise((go) => setTimeout(go));
      }
    }); }"""
    with running(playing(tmp_path, "quick")) as server:
        tabs = [visit(server.address) for _ in range(2)]
        for tab in tabs:
            tab.goto(f"{server.address}/api")  # a page of the same origin that does not look these ids up
        for tab, first in zip(tabs, (1, 1001), strict=True):
            tab.evaluate(keep, first)
        for tab in tabs:
            tab.evaluate("() => kept")
        for tab in tabs:
            wait_until(tab, f"{KEPT} === 200")


def test_a_browser_that_remembers_version_0_1_still_shows_its_videos(
    visit: Callable[[str], Page], made: Path, tmp_path: Path
) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("one", "two")])
        count_shows(page, "2 of 2 done")
        page.evaluate("""() => {
          const ids = Object.keys(localStorage).map((key) => key.replace('densevid.job.', ''));
          localStorage.clear();
          localStorage['densevid.jobs'] = JSON.stringify(ids);
        }""")
        page.reload()
        count_shows(page, "2 of 2 done")
        assert page.evaluate("'densevid.jobs' in localStorage") is False


def test_back_shows_the_timeline_again(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("one", "two")])
        count_shows(page, "2 of 2 done")
        for name in ("one", "two"):
            card(page, name, "done").locator(".open").click()
            page.frame_locator("#timeline").locator("text=the html of video").wait_for()
            page.click(".back")
        for title in ("two.mp4", "densevid", "one.mp4", "densevid"):
            page.go_back()
            wait_until(page, f"document.title.startsWith({title!r})")
            if title != "densevid":
                page.frame_locator("#timeline").locator("text=the html of video").wait_for()
            else:
                expect(page.locator("#viewer")).to_be_hidden()


def test_more_videos_than_one_question_holds(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    many = 130
    for number in range(many):
        folder = tmp_path / f"{number:032x}"
        folder.mkdir()
        shutil.copyfile(made, folder / "video")
        Job(folder, f"video {number}.mp4", made.stat().st_size, created=number).save()
    with running(playing(tmp_path, "hang")) as server:
        page = visit(server.address)
        page.evaluate(
            "(many) => { for (let n = 0; n < many; n += 1)"
            " localStorage['densevid.job.' + n.toString(16).padStart(32, '0')] = n; }",
            many,
        )
        page.reload()
        page.locator(f".card >> nth={many - 1}").wait_for()
        card(page, "video 0.mp4", "running").locator("text=· 50 %").wait_for()
        expect(page.locator(".card[data-state=queued]")).to_have_count(many - 1)  # none is taken for deleted


def test_a_held_upload_that_is_cancelled_makes_room(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "hang", waiting=1)) as server:
        page = visit(server.address)
        page.set_input_files("#choose", made)
        card(page, made.name, "running")
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("b", "c", "d", "e", "f")])
        page.locator(".card[data-state=held] >> nth=2").wait_for()
        card(page, "f.mp4", "new")
        card(page, "", "held").locator(".remove").click()
        card(page, "f.mp4", "held")


def test_a_shared_address_leaves_a_small_timeline(visit: Callable[[str], Page], made: Path, tmp_path: Path) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_input_files("#choose", made)
        page.locator("#viewer").wait_for()
        result = {"results": {"made": [{"timestamp": [0, 2], "sentence": "a dog runs", "proposal_score": 1}]}}
        next(tmp_path.glob("*/video.densevid.json")).write_text(json.dumps(result))
        page.evaluate("() => localStorage.clear()")
        page.reload()
        page.locator("#viewer").wait_for()
        page.click(".back")
        card(page, made.name, "done").locator(".small-timeline i").wait_for()


def test_a_server_that_dies_in_the_middle_goes_on_where_it_was(
    visit: Callable[[str], Page], model: Path, made: Path, tmp_path: Path
) -> None:
    work, port = tmp_path / "work", unused_port()
    with served(work, "--model", str(model), port=port, hold_until=tmp_path / "never") as (address, process):
        page = visit(address)
        assert "server" not in page.request.get(f"{address}/limits").headers, "its software stays unknown"
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in ("first", "second")])
        card(page, "", "running")
        card(page, "", "queued")
        process.kill()
        process.wait()
        page.locator("#trouble:has-text('The server does not answer')").wait_for()
    with served(work, "--model", str(model), port=port):
        count_shows(page, "2 of 2 done")
        expect(page.locator("#trouble")).to_be_hidden()


def test_it_can_be_used_by_keyboard_and_small_screens(visit: Callable[[str], Page], tmp_path: Path) -> None:
    with running(playing(tmp_path, "quick")) as server:
        page = visit(server.address)
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 320, "nothing sticks out"
        page.keyboard.press("Tab")
        wait_until(page, "document.activeElement.className === 'skip'")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        wait_until(page, "document.activeElement.id === 'choose'")
        page.goto(f"{server.address}/api")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("look", ["light", "dark"])
def test_axe_finds_no_accessibility_barrier_on_the_upload_page(
    visit: Callable[[str], Page], made: Path, tmp_path: Path, look: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'densevid[dev]'").Axe()
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
    with running(playing(tmp_path, "held")) as server:
        page = visit(server.address)
        page.emulate_media(color_scheme=look, reduced_motion="reduce")
        page.set_input_files("#choose", [file("bad.mp4", b"hello")])
        card(page, "bad.mp4", "failed")
        names = ("good", "later1", "later2")  # one alone would be opened
        page.set_input_files("#choose", [file(f"{name}.mp4", made.read_bytes()) for name in names])
        card(page, "", "running")
        card(page, "", "queued")
        found = [axe.run(page, options=rules)]
        (tmp_path / "go").touch()
        count_shows(page, "3 of 4 done, 1 failed")
        found.append(axe.run(page, options=rules))
        page.goto(f"{server.address}/api")
        found.append(axe.run(page, options=rules))
    assert [result.generate_report() for result in found if result.violations_count] == []
