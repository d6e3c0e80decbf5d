"""What the page shows of a moment: which of its events, and the mask of that event or why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from densevid.events import Event
from densevid.export.document import ShownEvent, TimedMask, TimelineDocument, references
from helpers.browsers import frames, wait_until
from helpers.timeline_pages import PLACE, TIME, Opened, point_at

MASK = TimedMask(0.0, 12.0, (0.1, 0.9, 0.9, 0.1))
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def play_to_the_end(page: Any) -> None:
    """Start the video and wait until the page has taken note of its end."""
    page.evaluate("() => document.querySelector('video').addEventListener('ended', () => (window.over = true))")
    page.keyboard.press("Space")
    wait_until(page, "window.over && document.querySelector('video').ended")
    frames(page)


def shown(*events: tuple[float, float, float]) -> tuple[ShownEvent, ...]:
    """Events by start, end and confidence, all with a mask."""
    return tuple(ShownEvent(Event(a, b, f"from {a} to {b}"), sure, MASK) for a, b, sure in events)


@pytest.mark.parametrize(
    "events, expected",
    [
        (((0, 8, 0.58), (3, 5, 0.16)), "from 0 to 8"),
        (((0, 8, 0.5), (2, 6, 0.5), (3, 9, 0.5)), "from 2 to 6"),
        (((0, 8, 0.0),), "from 0 to 8"),
    ],
)
def test_of_events_at_a_moment_the_surest_is_shown(
    opened: Opened, document: TimelineDocument, events: tuple[tuple[float, float, float], ...], expected: str
) -> None:
    truth = references([Event(3.5, 4.5, "what a person wrote")])
    page = opened(replace(document, events=truth + shown(*events)), at="#t=4")
    wait_until(page, f"Math.abs({TIME} - 4) < .01 && {PLACE} >= 0")
    assert page.text_content(".now-sentence") == expected


@pytest.mark.parametrize("confidence, percent", [(0.125, 12), (0.12496, 12), (0.375, 38), (0.9996, 100)])
def test_a_confidence_is_one_number_everywhere(
    opened: Opened, document: TimelineDocument, confidence: float, percent: int
) -> None:
    """Rounded to three digits first, or by the rule of another language, some would differ."""
    page = opened(replace(document, events=shown((0, 8, confidence))), at="#t=2")
    wait_until(page, f"{PLACE} === 0")
    assert page.inner_text(".list .score").split()[-1] == f"{percent}%"
    assert page.text_content(".now-time").endswith(f" {percent}%")
    assert f"confidence {percent}%" in point_at(page, ".bar").text_content()


def test_what_is_next_follows_the_moment(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(document, events=shown((2, 3, 0.9), (6, 7, 0.4))), at="#t=1")
    for seconds, expected in {1: "Next event at 0:02.0", 4: "Next event at 0:06.0", 8: ""}.items():
        page.evaluate("(seconds) => { location.hash = `t=${seconds}` }", seconds)
        wait_until(page, f"Math.abs({TIME} - {seconds}) < .01 && {PLACE} === -1")
        assert page.text_content(".now-time") == expected


def test_a_less_sure_event_is_shown_when_it_is_chosen(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(document, events=shown((0, 8, 0.58), (3, 5, 0.16))))
    page.click(".list > li:nth-child(2) button")
    wait_until(page, f"{PLACE} === 1 && {TIME} > 3.1")


def test_space_pauses_an_event_that_was_clicked_in_the_list(opened: Opened, document: TimelineDocument) -> None:
    """And does not choose it again, though its button has the focus; Enter does."""
    page = opened(replace(document, events=shown((0, 8, 0.58), (3, 5, 0.16))))
    paused = "document.querySelector('video').paused"
    page.click(".list > li:nth-child(2) button")
    wait_until(page, f"{TIME} > 3.2 && !{paused}")
    page.keyboard.press("Space")
    wait_until(page, f"{paused} && {TIME} > 3.2")
    page.keyboard.press("Space")
    wait_until(page, f"!{paused} && {TIME} > 3.4")
    page.keyboard.press("Enter")
    wait_until(page, f"{TIME} < 3.4")


def test_space_and_arrows_are_the_players_own_once_it_has_the_focus(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document)
    note = "(video) => ['play', 'pause'].forEach((n) => video.addEventListener(n, () => (window.log ??= []).push(n)))"
    page.locator("video").evaluate(note)
    page.click("video", position={"x": 60, "y": 60})
    wait_until(page, f"{TIME} > 0.1 && document.activeElement === document.querySelector('video')")
    page.keyboard.press("Space")
    wait_until(page, "window.log.length >= 2")
    frames(page)
    assert page.evaluate("window.log") == ["play", "pause"], "toggled once, not there and back"
    page.keyboard.press("Space")
    wait_until(page, "window.log.length >= 3")
    frames(page)
    assert page.evaluate("window.log") == ["play", "pause", "play"]


def test_a_link_to_the_start_of_an_event_means_that_event(opened: Opened, document: TimelineDocument) -> None:
    events = shown((0, 8, 0.58), (3.004, 5, 0.16), (3.004, 6, 0.12))
    page = opened(replace(document, events=events), at="#t=3.00")
    wait_until(page, f"Math.abs({TIME} - 3.004) < .002")
    assert page.text_content(".now-sentence") == "from 3.004 to 5"
    page.evaluate("() => { location.hash = 't=5.5' }")
    wait_until(page, f"{TIME} > 5")
    assert page.text_content(".now-sentence") == "from 0 to 8"


@pytest.mark.parametrize("duration, last", [(11.94, 11.94), (11.94, 11.9), (11.8, 11.8), (12.0, 12.0)])
def test_when_the_video_has_ended_its_last_event_stays(
    opened: Opened, document: TimelineDocument, duration: float, last: float
) -> None:
    """The browser's clock stops at 11.94; the timeline may end there, a little before or after."""
    changed = replace(document, duration=duration, events=shown((0, 5, 0.9), (10, last, 0.3)))
    page = opened(changed, at="#t=11.6")
    play_to_the_end(page)
    assert page.evaluate(TIME) == pytest.approx(11.94, abs=0.01)
    assert page.evaluate(PLACE) == 1
    assert page.text_content(".now-sentence") == f"from 10 to {last}"
    assert page.locator(".bar.current").get_attribute("data-place") == "1"


def test_an_event_that_is_over_before_the_end_does_not_stay(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(document, events=shown((10, 11.7, 0.9))), at="#t=11.6")
    play_to_the_end(page)
    assert page.evaluate(PLACE) == -1


def test_without_a_video_the_end_has_its_event_too(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(document, video=None, events=shown((0, 5, 0.9), (10, 12, 0.3))), at="#t=12")
    wait_until(page, f"{PLACE} === 1")


@pytest.mark.parametrize("look", [{}, PHONE], ids=["desktop", "phone"])
def test_the_ribbon_names_the_event_of_its_mask_and_nothing_moves(
    opened: Opened, document: TimelineDocument, look: dict[str, Any]
) -> None:
    without = ShownEvent(Event(8, 10, "no mask of this"), 0.5)
    page = opened(replace(document, events=(*shown((1, 5, 0.9)), without)), **look)
    expected = {
        0.2: "Event mask: none, no event at this moment",
        2: "Event mask: 0:01.0–0:05.0",
        9: "Event mask: none for 0:08.0–0:10.0",
        11: "Event mask: none, no event at this moment",
    }
    boxes = []
    for seconds, text in expected.items():
        page.evaluate("(seconds) => { location.hash = `t=${seconds}` }", seconds)
        wait_until(page, f"Math.abs({TIME} - {seconds}) < .01")
        assert page.text_content(".ribbon-name") == text
        boxes.append(page.locator(".lanes").bounding_box())
    assert boxes == [boxes[0]] * len(boxes)


def test_the_ribbon_has_its_name_from_the_start(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(document, events=shown((1, 5, 0.9))))
    assert page.text_content(".ribbon-name") == "Event mask: none, no event at this moment"


def apart(first: dict[str, float], second: dict[str, float]) -> bool:
    """Whether one box lies wholly above the other."""
    return first["y"] + first["height"] <= second["y"] or second["y"] + second["height"] <= first["y"]


@pytest.mark.parametrize("look", [{}, PHONE], ids=["desktop", "phone"])
def test_no_mask_is_painted_over_the_name_of_the_ribbon(
    opened: Opened, document: TimelineDocument, look: dict[str, Any]
) -> None:
    full = replace(shown((0, 12, 0.9))[0], mask=TimedMask(0.0, 12.0, (1.0,) * 12))
    page = opened(replace(document, events=(full,)), at="#t=6", **look)
    wait_until(page, f"{PLACE} === 0")
    name, mask = (page.locator(f".ribbon {part}").bounding_box() for part in (".ribbon-name", "svg"))
    assert apart(name, mask)
    assert name["x"] >= 0 and name["x"] + name["width"] <= page.viewport_size["width"]


@pytest.mark.parametrize("height, place", [(800, 0), (800, 3), (800, 5), (420, 0)])
def test_the_card_does_not_cover_the_ribbon(
    opened: Opened, document: TimelineDocument, height: int, place: int
) -> None:
    """In lanes near the ribbon and far from it; in a low window the timeline lies at its top."""
    many = shown(*((start / 4, 11.0, 0.5) for start in range(6)))
    page = opened(replace(document, events=many), viewport={"width": 1280, "height": height})
    bar = page.locator(f".bar[data-place='{place}']")
    page.locator(".timeline").evaluate("(part) => part.scrollIntoView({ behavior: 'instant' })")
    point_at(page, f".bar[data-place='{place}']")
    card, ribbon = (page.locator(part).bounding_box() for part in (".card", ".ribbon"))
    assert apart(card, ribbon) and apart(card, bar.bounding_box())
    assert page.text_content(".ribbon-name").startswith(f"Event mask: 0:0{int(place / 4)}.")


def test_the_card_leaves_the_zoom_alone_and_goes_when_one_searches(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(document, events=shown((0, 1, 0.5), (10.5, 12, 0.4))))
    point_at(page, ".bar[data-place='1']")
    card, zoom = (page.locator(part).bounding_box() for part in (".card", ".zoom"))
    assert card["x"] + card["width"] <= zoom["x"] or apart(card, zoom)
    page.keyboard.press("/")
    page.keyboard.type("from")
    page.locator(".card").wait_for(state="hidden")


def test_the_ribbon_returns_to_the_moment_when_the_pointer_leaves_the_list(
    opened: Opened, document: TimelineDocument
) -> None:
    page = opened(replace(document, events=shown((0, 5, 0.9), (6, 8, 0.4))), at="#t=1")
    name = "document.querySelector('.ribbon-name').textContent"
    page.hover(".list > li:nth-child(2)")
    wait_until(page, f"{name} === 'Event mask: 0:06.0–0:08.0'")
    page.hover("h1")
    wait_until(page, f"{name} === 'Event mask: 0:00.0–0:05.0'")
