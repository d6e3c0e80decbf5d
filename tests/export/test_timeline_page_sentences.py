"""Events whose sentence is sure, shortened or left out: both confidences, and the guess that unfolds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from densevid.events import Event
from densevid.export.document import ShownEvent, TimelineDocument
from densevid.pipeline.outputs import Target, write_outputs
from densevid.pipeline.result import CaptionResult, Detection
from helpers.browsers import new_context, settle
from helpers.timeline_pages import Opened, point_at

GUESS = '<img src=x onerror="document.title=1">a woman is making a cake'
EVENTS = (
    Event(0.0, 1.5, "a man walks in", 0.9, 0.64),
    Event(1.5, 4.0, "someone is cooking", 0.75, 0.7, GUESS, shortened=True),
    Event(3.0, 9.0, "", 0.6, 0.2, "a dog is running"),
    Event(9.5, 11, "all leave", 0.5, 0.55, sentence_model="other/model"),
)


@pytest.fixture(scope="module")
def judged(document: TimelineDocument) -> TimelineDocument:
    pairs = zip(EVENTS, document.events, strict=True)
    shown = tuple(ShownEvent(event, event.score, old.mask, old.thumbnail) for event, old in pairs)
    return replace(document, events=shown)


def test_both_confidences_are_named_and_no_line_is_empty(opened: Opened, judged: TimelineDocument) -> None:
    page = opened(judged, at="#t=3.5")
    items = page.locator(".list > li")
    assert items.nth(0).locator(".score").text_content() == "confidence event 90%"
    assert items.nth(0).locator(".sure").text_content() == "sentence 64%"
    assert items.nth(2).locator(".sentence").text_content() == "scene 3" and items.nth(2).locator("img").count() == 1
    assert items.nth(2).locator(".sure").text_content() == "no sentence is sure enough"
    assert page.text_content(".bar >> nth=2") == "scene 3"
    assert page.text_content(".now-time").endswith("event 75% · sentence 70%")
    assert "event 60% · no sentence" in point_at(page, ".bar >> nth=2").text_content()
    assert page.text_content(".note") == "The sentences are a small model's or by other/model and can be wrong."
    assert not page.problems


def test_a_guess_unfolds_by_keyboard_and_stays_text(opened: Opened, judged: TimelineDocument) -> None:
    page = opened(judged)
    guesses = page.locator(".guess")
    assert guesses.count() == 2 and not page.locator(".guess p:visible").count()
    page.focus(".list > li:nth-child(2) button")
    page.keyboard.press("Tab")
    summary = page.get_by_text("guess for 0:01.5–0:04.0")
    assert summary.evaluate("(element) => element === document.activeElement"), "one Tab from its event"
    page.keyboard.press("Enter")
    assert page.locator(".guess p:visible").all_text_contents() == [GUESS]
    page.keyboard.press("Space")
    assert not page.locator(".guess p:visible").count()
    assert page.evaluate("document.querySelector('video').paused"), "the key is the guess's, not the player's"
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.list')"), "the others are no stops on the way"
    assert page.title() == f"{judged.title} · timeline" and not page.problems


def test_without_scripts_a_guess_unfolds_too(opened: Opened, judged: TimelineDocument) -> None:
    page = opened(judged, java_script_enabled=False)
    page.locator(".guess summary").last.click()
    assert page.locator(".guess p:visible").all_text_contents() == ["a dog is running"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_axe_finds_no_barrier(opened: Opened, judged: TimelineDocument, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'densevid[dev]'").Axe()
    page = opened(judged, at="#t=3.5", viewport={"width": 320, "height": 640}, color_scheme=scheme)
    for summary in page.locator(".guess summary").all():
        summary.click()
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    found = axe.run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]})
    assert not found.response["violations"], found.generate_report()


def test_the_slider_is_about_the_events(opened: Opened, judged: TimelineDocument) -> None:
    many = tuple(ShownEvent(Event(n / 4, 11, f"event {n}", n / 12, 1 - n / 12), n / 12) for n in range(12))
    page = opened(replace(judged, events=many))
    assert page.text_content(".sureness label") == "Event confidence"
    page.focus("#sureness")
    page.keyboard.press("End")
    assert page.locator(".list > li:visible .sentence").all_text_contents() == ["event 11"]


@pytest.mark.parametrize("events", [EVENTS, (replace(EVENTS[0], sentence_score=None), Event(2, 3, "", 0.5))])
def test_the_page_saves_what_the_command_writes(browser: Any, tmp_path: Path, events: tuple[Event, ...]) -> None:
    result = CaptionResult("a", "a.mp4", None, 12.0, events, tuple(Detection(0, n) for n in range(len(events))))
    html, vtt, written = write_outputs(result, Target(tmp_path / "a"), ("html", "vtt", "json"))
    context = new_context(browser)
    page = context.new_page()
    page.goto(html.as_uri())
    page.wait_for_selector("html.ready", state="attached")
    saved = {}
    for kind in ("json", "vtt"):
        with page.expect_download() as waiting:
            page.click(f"#save-{kind}")
        saved[kind] = Path(waiting.value.path()).read_text(encoding="utf-8")
    context.close()
    assert json.loads(saved["json"])["results"] == json.loads(written.read_text(encoding="utf-8"))["results"]
    words = [line for line in vtt.read_text(encoding="utf-8").splitlines() if "scene" in line]
    assert words == [line for line in saved["vtt"].splitlines() if "scene" in line] and len(words) == 1
