"""Many events of which most are unsure: a slider leaves out what is less sure than one wants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from densevid.events import Event
from densevid.export.document import ShownEvent, TimelineDocument, references
from helpers.browsers import wait_until
from helpers.timeline_pages import PLACE, Opened

LANES = "[...document.querySelectorAll('.group')].at(-1).style.getPropertyValue('--lanes')"


def many(document: TimelineDocument, number: int = 12, most: float = 0.88) -> TimelineDocument:
    """Events that all overlap, each surer than the one before."""
    sure = [most * place / (number - 1) for place in range(number)]
    events = tuple(ShownEvent(Event(place / 4, 11, f"event {place}"), one) for place, one in enumerate(sure))
    return replace(document, events=events)


def press(page: Any, key: str, times: int) -> None:
    for _ in range(times):
        page.keyboard.press(key)


def test_what_is_less_sure_leaves_the_list_and_the_lanes(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(many(document), events=many(document).events + references([Event(0, 4, "by a person")])))
    assert page.evaluate(LANES) == "12"
    page.focus("#sureness")
    press(page, "ArrowRight", 30)
    assert page.locator(".list > li:visible .sentence").all_text_contents()[0] == "by a person", "it has no confidence"
    assert page.locator(".list > li:visible").count() == 9 == page.locator(".bar:visible").count()
    assert page.text_content("#found") == "9 of 13" and page.inner_text(".sureness output") == "at least 30%"
    assert page.get_attribute("#sureness", "aria-valuetext") == "at least 30%"
    assert page.evaluate(LANES) == "8", "those that are left move together"
    page.keyboard.press("End")
    assert page.locator(".list > li:visible").count() == 2, "there is always the surest"
    page.keyboard.press("Home")
    assert page.locator(".bar:visible").count() == 13 and page.evaluate(LANES) == "12"
    assert page.text_content("#found") == "13" and not page.problems


def test_the_event_of_a_moment_is_one_that_is_left(opened: Opened, document: TimelineDocument) -> None:
    page = opened(many(document), at="#t=0.3")
    wait_until(page, f"{PLACE} === 1")
    page.focus("#sureness")
    press(page, "ArrowRight", 20)
    assert page.text_content(".now-time") == "Next event at 0:00.7"
    assert page.text_content(".now-sentence") == "Nothing is described at this moment."


def test_search_and_slider_work_together(opened: Opened, document: TimelineDocument) -> None:
    page = opened(many(document))
    page.fill("#search", "event 1")
    assert page.text_content("#found") == "3 of 12"
    page.focus("#sureness")
    page.keyboard.press("End")
    assert page.locator(".list > li:visible .sentence").all_text_contents() == ["event 11"]
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search", "other keys are the page's"


@pytest.mark.parametrize("number, most", [(10, 0.9), (30, 0.15)])
def test_few_or_equally_confident_events_have_no_slider(
    opened: Opened, document: TimelineDocument, number: int, most: float
) -> None:
    assert opened(many(document, number, most)).locator("#sureness").count() == 0


def test_it_fits_a_phone_and_axe_finds_no_barrier(opened: Opened, document: TimelineDocument) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'densevid[dev]'").Axe()
    for scheme in ("light", "dark"):
        page = opened(many(document), viewport={"width": 320, "height": 640}, color_scheme=scheme)
        assert page.is_visible("#sureness") and page.evaluate("document.documentElement.scrollWidth") <= 320
        found = axe.run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]})
        assert not found.response["violations"], found.generate_report()
        assert page.get_attribute(".viewport", "tabindex") == "0", "what is below can be reached"
    page = opened(many(document), java_script_enabled=False)
    assert not page.is_visible("#sureness"), "without scripts it could do nothing"
