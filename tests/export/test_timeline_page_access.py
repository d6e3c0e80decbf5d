"""The page for everybody: no barriers, labels that can be read, no motion or no scripts for who wants none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from densevid.events import Event
from densevid.export.document import Figure, ShownEvent, TimelineDocument, references
from helpers.browsers import settle
from helpers.timeline_pages import Opened

LOOKS = {
    "desktop": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}


def in_all_colours(document: TimelineDocument) -> TimelineDocument:
    """As many references as there are colours, and predictions from unsure to sure."""
    truth = references([Event(1.2 * place, 1.2 * place + 1, "what a person wrote") for place in range(9)])
    many = tuple(ShownEvent(Event(place, place + 1, f"event {place}"), place / 9) for place in range(10))
    return replace(document, events=document.events + many + truth)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("kind", ["events", "missing", "empty"])
def test_axe_finds_no_barrier(opened: Opened, document: TimelineDocument, look: str, kind: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install 'densevid[dev]'").Axe()
    full = {"figures": (Figure("A title.", "What it shows.", b""),), "warning": "a part is damaged"}
    changes = {"events": full, "missing": {"video": None}, "empty": {"events": ()}}
    page = opened(replace(in_all_colours(document), **changes[kind]), at="#t=2", **LOOKS[look])
    settle(page)
    found = axe.run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]})
    assert not found.response["violations"], found.generate_report()
    assert "color-contrast" in {rule["id"] for rule in found.response["passes"]}


CONTRASTS = """() => {
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  const luminance = (...colours) => {
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    const parts = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
    const [red, green, blue] = parts.map((part) => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
    return .2126 * red + .7152 * green + .0722 * blue;
  };
  const page = getComputedStyle(document.querySelector(".timeline")).backgroundColor;
  return [...document.querySelectorAll(".bar")].map((bar) => {
    const style = getComputedStyle(bar);
    const [dark, light] = [luminance(page, style.color), luminance(page, style.backgroundColor)].sort((a, b) => a - b);
    return (light + .05) / (dark + .05);
  });
}"""


@pytest.mark.parametrize("look", LOOKS)
def test_labels_of_bars_can_be_read(opened: Opened, document: TimelineDocument, look: str) -> None:
    """Axe passes over the bars, which repeat the list for the eye alone; the eye wants contrast all the same."""
    page = opened(in_all_colours(document), **LOOKS[look])
    plain = page.evaluate(CONTRASTS)
    page.evaluate("() => document.querySelectorAll('.bar').forEach((bar) => bar.classList.add('current'))")
    settle(page)
    assert len(plain) == 23
    assert min(plain + page.evaluate(CONTRASTS)) >= 4.5


def test_reduced_motion_is_respected(opened: Opened, document: TimelineDocument) -> None:
    duration = "getComputedStyle(document.querySelector('.bar')).transitionDuration"
    assert opened(document, reduced_motion="reduce").evaluate(duration) == "0s"
    assert opened(document).evaluate(duration) != "0s"


def test_without_scripts_the_sentences_can_be_read(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document, java_script_enabled=False)
    assert page.locator(".list > li:visible").count() == 4
    assert "people talk" in page.locator(".list").text_content()
    assert page.is_visible("video")
