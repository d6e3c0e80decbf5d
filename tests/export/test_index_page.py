"""The page over many videos, in a real browser: it searches, leads to the moment, and fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from densevid.events import Event
from densevid.export.document import TimelineDocument
from densevid.export.index_page import MOST_SHOWN, IndexRow, index_page
from densevid.export.thumbnails import thumbnails
from densevid.export.timeline_page import timeline_page
from helpers.browsers import new_context


@pytest.fixture
def folder(clip: Path, document: TimelineDocument, tmp_path: Path) -> Path:
    """A page of one video, and an index of it, of a video with many events, one with none, and one that failed."""
    (tmp_path / "a clip.html").write_text(timeline_page(replace(document, video=None)), encoding="utf-8")
    poster = thumbnails(clip, [2.0])[0]
    many = tuple(Event(place, place + 1.0, f"a juggler drops ball {place}") for place in range(9))
    rows = [
        IndexRow("a clip", Path("a clip.html"), 12.0, tuple(shown.event for shown in document.events), poster),
        IndexRow("many", None, 9.0, many, warning="about 9 s of <18> could not be read"),
        IndexRow("empty", None, 3.0),
        IndexRow("broken", error="broken.mp4: not a video <that> can be read"),
    ]
    (tmp_path / "index.html").write_text(index_page("holiday & more", rows, model="test"), encoding="utf-8")
    return tmp_path


@pytest.fixture
def page(browser: Any, folder: Path) -> Iterator[Any]:
    context = new_context(browser, viewport={"width": 1100, "height": 800})
    page = context.new_page()
    problems: list[str] = []
    requested: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text))
    page.on("request", lambda request: requested.append(request.url))
    page.goto((folder / "index.html").as_uri())
    page.wait_for_selector("html.ready", state="attached")
    yield page
    context.close()
    assert not problems and all(url.startswith(("file:", "data:")) for url in requested)


def test_the_index_lists_finished_and_failed_videos(page: Any) -> None:
    assert page.locator(".facts").text_content() == "3 of 4 videos captioned · 0:24 · 13 events"
    assert page.locator(".video").count() == 3
    assert page.locator(".failures li").text_content() == "broken.mp4: not a video <that> can be read"
    assert page.locator(".notice").count() == 1
    assert page.locator(".video").nth(1).locator(".notice").inner_text().endswith("About 9 s of <18> could not be read")
    poster = page.locator(".poster img").first
    assert poster.evaluate("(picture) => picture.decode().then(() => picture.naturalWidth)") > 100
    assert page.locator(".video").nth(1).locator(".sentences li:visible").count() == MOST_SHOWN
    assert page.locator(".poster").count() == 1  # no black place where there is no picture
    left = page.locator(".video").nth(1).locator("h2").bounding_box()["x"]
    assert left < page.locator(".video").first.locator("h2").bounding_box()["x"] - 100
    assert "nothing in it that the model is confident about" in page.locator(".video").nth(2).text_content()


def test_a_sentence_leads_to_its_moment(page: Any) -> None:
    page.click("text=people talk")
    page.wait_for_url("**/a%20clip.html#t=3.00")
    page.wait_for_selector("html.ready", state="attached")
    assert page.locator(".now-sentence").text_content() == "people talk"


def test_search_goes_through_all_videos_and_what_is_folded(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("Cafe")
    assert page.locator(".video:visible h2").all_text_contents() == ["a clip"]
    assert page.locator(".sentences li:visible").count() == 1
    page.fill("#search", "ball 8")
    assert page.locator(".sentences li:visible .sentence").all_text_contents() == ["a juggler drops ball 8"]
    assert page.locator("#found").text_content() == "1 of 3"
    page.fill("#search", "elephant")
    assert page.locator(".nothing-found").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".video:visible").count() == 3 and page.locator("details[open]").count() == 0


@pytest.mark.parametrize("look", ["light", "dark"])
def test_it_fits_a_phone_and_axe_finds_no_barrier(page: Any, look: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'densevid[dev]'").Axe()
    page.emulate_media(color_scheme=look)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 320
    result = axe.run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]})
    assert not result.violations_count, result.generate_report()


def test_events_that_overlap_lie_below_each_other_in_the_strip() -> None:
    events = (Event(0, 6, "one"), Event(2, 8, "two"), Event(6, 9, "three"))
    page = index_page("Both", [IndexRow("video", None, 10.0, events)], model="m")
    assert 'viewBox="0 0 1000 2"' in page
    drawn = re.findall(r'<rect x="([\d.]+)" width="([\d.]+)" y="(\d)"', page)
    assert drawn == [("0.0", "600.0", "0"), ("200.0", "600.0", "1"), ("600.0", "300.0", "0")]


def test_references_stand_above_what_was_predicted() -> None:
    predicted, truth = Event(0.0, 5.0, "a dog runs"), Event(5.0, 20.0, "a dog sleeps")
    row = IndexRow("video", Path("video.html"), 10.0, (predicted,), references=(truth,))
    page = index_page("Both", [row], model="m", about="What <this> is")
    assert page.index(">Reference<") < page.index(">Predicted<")
    assert 'x="0.0" width="250.0"' in page and 'x="250.0" width="750.0"' in page, "one clock for both, to the last end"
    assert '<p class="about">What &lt;this&gt; is</p>' in page
    assert ">Reference<" not in index_page("One", [IndexRow("video", None, 10.0, (predicted,))], model="m")
