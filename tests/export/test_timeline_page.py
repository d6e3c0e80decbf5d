"""The page as people use it: in a real browser, from disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from densevid.events import Event
from densevid.export.document import ShownEvent, ShownVideo, TimedMask, TimelineDocument, references
from densevid.export.plots import recall_figure
from helpers.browsers import frames, wait_until
from helpers.timeline_pages import PAUSED, PLACE, TIME, Opened, point_at


@pytest.mark.parametrize("what", [".bar[data-place='2']", ".list > li:nth-child(3) button"])
def test_a_click_seeks_and_plays(opened: Opened, document: TimelineDocument, what: str) -> None:
    page = opened(document)
    assert page.evaluate(PAUSED)
    page.click(what)
    wait_until(page, f"!{PAUSED} && {TIME} > 3.05 && {TIME} < 9 && {PLACE} === 2")
    assert page.text_content(".now-sentence") == "people talk"
    assert not page.problems


def test_the_current_event_is_highlighted_while_playing(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document, at="#t=1.2")
    wait_until(page, f"{PLACE} === 0")
    page.keyboard.press("Space")
    current = "document.querySelector('.bar.current')?.dataset.place"
    wait_until(page, f"{PLACE} === 1 && {current} === '1' && {TIME} >= 1.5 && {TIME} < 3.5")
    page.evaluate("document.querySelector('video').currentTime = 9.2")
    wait_until(page, f"{PLACE} === -1")
    assert page.text_content(".now-sentence").startswith("Nothing is described")


def test_keys_move_between_events_and_seconds(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    wait_until(page, f"Math.abs({TIME} - 3) < .01 && {PLACE} === 2")
    page.keyboard.press("ArrowUp")
    wait_until(page, f"Math.abs({TIME} - 1.5) < .01 && {PLACE} === 1")
    page.keyboard.press("ArrowRight")
    wait_until(page, f"Math.abs({TIME} - 6.5) < .01")
    page.keyboard.press("ArrowLeft")
    wait_until(page, f"Math.abs({TIME} - 1.5) < .01")
    page.keyboard.press("Space")
    wait_until(page, f"!{PAUSED}")
    page.keyboard.press("Space")
    wait_until(page, PAUSED)


def test_arrows_carry_the_focus_along_the_list(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document)
    page.focus(".list > li:nth-child(1) button")
    page.keyboard.press("ArrowDown")
    wait_until(page, "document.activeElement.closest('li')?.dataset.start === '1.500'")
    page.keyboard.press("Enter")
    wait_until(page, f"!{PAUSED}")
    assert page.locator(".list button[tabindex='0']").count() == 1, "one stop for the Tab key, not one per event"


def test_search_finds_words_anywhere_without_accents(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document)
    page.keyboard.press("/")
    page.keyboard.type("caf senor")
    assert page.locator(".list > li:visible").all_text_contents()[0].endswith("a señor sits at a café table")
    assert page.text_content("#found") == "1 of 4"
    assert page.locator("mark").all_text_contents() == ["señor", "caf"]
    assert page.locator(".bar.faded").count() == 3
    assert page.evaluate(PAUSED), "a space in the search is a space"
    page.keyboard.press("Enter")
    wait_until(page, f"Math.abs({TIME} - 1.5) < .01")
    page.keyboard.press("/")
    page.keyboard.type("zebra")
    assert page.is_visible(".nothing-found")
    page.keyboard.press("Escape")
    assert page.locator(".list > li:visible").count() == 4
    wait_until(page, "document.activeElement === document.body")


def test_search_marks_the_right_letters_behind_an_emoji(opened: Opened, document: TimelineDocument) -> None:
    sentences = ("a dog 🐶🐶 runs", "👩‍🚀 é ff runs", "she runs 🏃")
    page = opened(replace(document, events=tuple(ShownEvent(Event(0, 4, text), 0.5) for text in sentences)))
    for words, marked in {"runs": ["runs"] * 3, "🐶": ["🐶🐶"], "🏃": ["🏃"], "e ff": ["é", "ff"]}.items():
        page.fill("#search", words)
        assert page.locator("mark").all_text_contents() == marked
    assert not page.problems


def test_tab_reaches_the_list_whatever_is_filtered(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document, at="#t=2")
    wait_until(page, f"{PLACE} === 1")
    page.fill("#search", "leave")
    page.keyboard.press("Tab")
    wait_until(page, "document.activeElement.closest('li')?.dataset.start === '9.500'")
    page.fill("#search", "")
    assert page.locator(".list button[tabindex='0']").count() == 1


def test_a_zoomed_timeline_follows_a_reader_who_does_not_scroll(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document, viewport={"width": 880, "height": 800})
    page.click("#zoom-in")
    left = "document.querySelector('.viewport').scrollLeft"
    page.evaluate("() => document.activeElement.blur()")  # on a button Space would press it again
    page.keyboard.press("Space")
    wait_until(page, f"{TIME} > 0.1")
    page.evaluate("() => { document.querySelector('.viewport').scrollLeft = 1e6 }")
    away, seconds = page.evaluate(left), page.evaluate(TIME)
    wait_until(page, f"{TIME} > {seconds} + 0.2")
    assert away > 100 and page.evaluate(left) == away, "what was scrolled to stays"
    page.evaluate("() => { document.querySelector('.viewport').scrollLeft = 0 }")
    frames(page)
    page.evaluate("() => { document.querySelector('video').currentTime = 11 }")
    wait_until(page, f"{left} > 100")


def test_pointing_at_a_bar_shows_mask_score_and_picture(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document)
    card = point_at(page, ".bar[data-place='1']")
    assert "confidence 70%" in card.text_content()
    assert card.locator("img").evaluate("(picture) => picture.decode().then(() => picture.naturalWidth)") > 100
    path = card.locator("path").get_attribute("d")
    assert path.startswith("M0.0 100L0.0 90.") and path.endswith("L1000.0 100Z"), (
        "the mask starts at .1, ends at the end"
    )
    page.hover("h1")
    card.wait_for(state="hidden")


def test_a_mask_of_a_later_window_lies_where_the_window_does(opened: Opened, document: TimelineDocument) -> None:
    late = replace(document.events[3], mask=TimedMask(6.0, 12.0, (0.2, 0.9)))
    page = opened(replace(document, events=(late,)))
    point_at(page, ".bar")
    ribbon, card = (page.locator(f"{place} path").get_attribute("d") for place in (".ribbon", ".card"))
    assert ribbon.startswith("M500.0 100L500.0 ") and ribbon.endswith("L1000.0 100Z")
    assert card.startswith("M0.0 100L0.0 ") and card.endswith("L1000.0 100Z"), "the card shows the window alone"


def test_an_event_can_be_repeated(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document, at="#t=10.7")
    wait_until(page, f"{PLACE} === 3")
    page.keyboard.press("l")
    page.keyboard.press("Space")
    wait_until(page, f"{TIME} < 10.4 && {TIME} >= 9.4 && !{PAUSED}")
    assert page.get_attribute("#loop", "aria-pressed") == "true"
    page.keyboard.press("Shift+L")
    assert page.get_attribute("#loop", "aria-pressed") == "false", "the help writes it as a capital"
    last = replace(document, events=(ShownEvent(Event(10.5, 12, "the very end")),))
    page = opened(last, at="#t=11.7")
    wait_until(page, f"{PLACE} === 0")
    page.keyboard.press("l")
    page.keyboard.press("Space")
    wait_until(page, f"{TIME} < 11.4 && {TIME} >= 10.4 && !{PAUSED}")


def crowded(document: TimelineDocument, number: int, seconds: float) -> TimelineDocument:
    starts = [place * seconds / number for place in range(number)]
    shown = tuple(ShownEvent(Event(start, start + 40, f"event number {start:.0f} of a long day")) for start in starts)
    return replace(document, duration=seconds + 40, events=shown)


def test_a_phone_never_scrolls_sideways(opened: Opened, document: TimelineDocument) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    one_word = replace(document, title="x" * 300, events=(ShownEvent(Event(0, 5, "y" * 300)), *document.events))
    for shown in (document, one_word, crowded(document, 300, 9000), replace(document, events=())):
        page = opened(shown, **phone)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page = opened(document, **phone)
    page.tap(".list > li:nth-child(3) button")
    wait_until(page, f"{TIME} > 3")
    page.evaluate("scrollTo(0, 1e6)")
    frames(page)
    assert page.locator("video").bounding_box()["y"] <= 1, "the video stays in sight while the list scrolls"


@pytest.mark.parametrize("width, height", [(1440, 900), (1024, 768), (390, 844), (320, 640)])
def test_a_long_title_and_narrow_columns_keep_everything_on_its_line(
    opened: Opened, document: TimelineDocument, width: int, height: int
) -> None:
    long = replace(crowded(document, 12, 30), title="a film with a long name " * 12, warning="a part is damaged")
    for shown in (document, long, replace(long, duration=9000.0)):
        page = opened(shown, viewport={"width": width, "height": height}, at="#t=2")
        wait_until(page, f"{PLACE} >= 0")
        for part, most in {".facts": 24, ".now-time": 24, ".list .when": 26, "h1": 50}.items():
            assert page.locator(part).first.bounding_box()["height"] < most, part
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        events = page.locator(".events").bounding_box()
        assert width < 860 or events["y"] + events["height"] <= height, "the list ends with the window"


def test_hours_with_hundreds_of_events(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(crowded(document, 500, 10_800), video=None))
    assert page.is_visible(".overview")
    bar = page.locator(".bar[data-place='0']")
    wide = bar.bounding_box()["width"]
    assert wide > 40, "a bar that can be read, though the whole video would leave it three pixels"
    page.click("#zoom-in")
    assert bar.bounding_box()["width"] == pytest.approx(2 * wide, rel=0.05)
    page.evaluate("() => { location.hash = 't=5400' }")
    middle = page.locator(".bar[data-place='250']")
    wait_until(page, "document.querySelector('.viewport').scrollLeft > 1000")
    frames(page)
    assert 0 < middle.bounding_box()["x"] < 880, "the moment of the address is in view"
    page.click("#zoom-fit")
    assert not page.is_visible(".overview")
    assert page.evaluate(
        "document.querySelector('.track').clientWidth <= document.querySelector('.viewport').clientWidth"
    )
    page.fill("#search", "number 5400")
    assert page.text_content("#found") == "1 of 500"


def test_an_empty_timeline_says_so(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(document, events=()))
    assert "No event was found" in page.text_content(".empty")
    assert "No event" in page.inner_text(".track") and page.locator(".tick").count() > 3, "the ruler is there"
    assert not page.is_visible(".now") and not page.is_visible("#search")
    assert page.locator("footer summary").bounding_box()["x"] == page.locator(".stage").bounding_box()["x"]
    page.click(".ruler", position={"x": 400, "y": 10})
    wait_until(page, f"{TIME} > 3")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("+")
    page.keyboard.press("Space")
    wait_until(page, f"!{PAUSED}")
    assert not page.problems


def test_in_a_frame_no_command_is_advised(opened: Opened, document: TimelineDocument, tmp_path: Path) -> None:
    page = opened(replace(document, events=(), video=None), folder=tmp_path)
    assert page.is_visible(".advice")
    (tmp_path / "around.html").write_text('<iframe src="page.html" width="900" height="700"></iframe>')
    page.goto((tmp_path / "around.html").as_uri())
    inside = page.frame_locator("iframe")
    inside.locator("html.ready").wait_for(state="attached")
    assert inside.locator(".empty").is_visible() and not inside.locator(".advice").is_visible()


def test_the_title_is_followed_by_what_could_not_be_read(opened: Opened, document: TimelineDocument) -> None:
    page = opened(replace(document, warning="about 13 s of <18> could not be read"))
    notice, stage = page.locator(".notice").bounding_box(), page.locator(".stage").bounding_box()
    assert page.inner_text(".notice").endswith("About 13 s of <18> could not be read")
    assert notice["height"] > 30 and notice["y"] + notice["height"] <= stage["y"]
    assert page.locator(".timeline").bounding_box()["y"] < 800, "the timeline stays on the first screen"
    assert opened(document).locator(".notice").count() == 0


def test_without_its_video_the_page_is_still_useful(opened: Opened, document: TimelineDocument, clip: Path) -> None:
    page = opened(replace(document, video=ShownVideo("gone.mp4", "video/mp4", "./gone.mp4")), at="#t=9.6")
    page.wait_for_selector(".missing", state="visible")
    assert "gone.mp4" in page.text_content(".missing-reason")
    wait_until(page, f"{PLACE} === 3")
    page.click(".bar[data-place='1']")
    wait_until(page, f"{PLACE} === 1")
    page.set_input_files("#chosen-file", clip)
    wait_until(page, f"document.querySelector('video').readyState > 1 && Math.abs({TIME} - 1.5) < .01")
    assert not page.is_visible(".missing")


def test_a_video_that_browsers_do_not_play_is_not_asked_for(
    opened: Opened, document: TimelineDocument, tmp_path: Path
) -> None:
    (tmp_path / "old.avi").write_bytes(b"RIFF, and nothing that a browser plays")
    page = opened(replace(document, video=ShownVideo("old.avi", "", "./old.avi", plays=False)), folder=tmp_path)
    page.wait_for_selector(".missing", state="visible")
    assert page.inner_text(".missing code") == "densevid caption VIDEO --web"
    assert page.locator("#chosen-file").count() == 0 and "choose" not in page.inner_text(".missing").lower()
    page.click(".bar[data-place='1']")
    wait_until(page, f"{PLACE} === 1")
    assert not page.problems


def test_an_embedded_video_needs_no_file(
    opened: Opened, document: TimelineDocument, clip: Path, tmp_path: Path
) -> None:
    page = opened(replace(document, video=ShownVideo.embedded(clip)), folder=tmp_path)
    page.click(".bar[data-place='3']")
    wait_until(page, f"{TIME} > 9.5 && !{PAUSED}")
    assert all(address.startswith(("data:", "blob:", tmp_path.as_uri())) for address in page.requested)


@pytest.mark.parametrize("address, seconds", [("#t=3.5", 3.5), ("#t=0:09.5", 9.5), ("#t=2,4", 2.0), ("#x=1&t=7", 7.0)])
def test_an_address_can_name_a_moment(opened: Opened, document: TimelineDocument, address: str, seconds: float) -> None:
    page = opened(document, at=address)
    wait_until(page, f"Math.abs({TIME} - {seconds}) < .01")


def test_a_link_to_the_event_can_be_copied(opened: Opened, document: TimelineDocument) -> None:
    page = opened(document, at="#t=2")
    wait_until(page, f"{PLACE} === 1")
    note = "new MutationObserver(() => (window.noted ??= []).push(toast.textContent))"
    page.evaluate(
        f"() => {{ const toast = document.querySelector('.toast'); {note}.observe(toast, {{childList: true}}) }}"
    )
    page.click("#copy-link")
    wait_until(page, "location.hash === '#t=1.5' && window.noted?.[0]")
    assert "0:01" in page.evaluate("noted[0]")


def test_given_spans_show_no_confidence(opened: Opened, document: TimelineDocument, tmp_path: Path) -> None:
    given = tuple(replace(shown, confidence=None) for shown in document.events)
    page = opened(replace(document, events=given), at="#t=2")
    wait_until(page, f"{PLACE} === 1")
    assert "·" not in page.text_content(".now-time") and "–" in page.text_content(".now-time")
    point_at(page, ".bar[data-place='1']")
    assert "%" not in page.inner_text("body") and "reference" not in page.inner_text("body")
    assert page.evaluate("document.querySelector('video').textTracks[0].cues.length") == len(given)
    with page.expect_download() as waiting:
        page.click("#save-json")
    (rows,) = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))["results"].values()
    assert [row["proposal_score"] for row in rows] == [1] * len(given)


def test_references_stand_above_predictions(opened: Opened, document: TimelineDocument) -> None:
    truth = references([Event(0, 4, "a man comes in and sits"), Event(8, 12, "they go home")])
    page = opened(replace(document, events=document.events + truth))
    assert page.locator(".group-name").all_text_contents() == ["Reference", "Predicted"]
    top, below = (page.locator(".group").nth(place).bounding_box() for place in (0, 1))
    assert top["y"] + top["height"] <= below["y"]
    page.click(".groups button:has-text('Reference')")
    assert page.locator(".list > li:visible").count() == 2
    assert page.text_content("#found") == "2 of 6"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_have_the_size_they_were_drawn_for_and_do_not_glare_in_the_dark(
    opened: Opened, document: TimelineDocument, scheme: str
) -> None:
    figure = recall_figure([Event(0, 4, "a", 0.9)], [Event(0, 5, "b")])
    page = opened(replace(document, figures=(figure,)), color_scheme=scheme)
    picture = page.locator(".picture")
    picture.scroll_into_view_if_needed()
    assert page.locator(".picture img").bounding_box()["width"] == pytest.approx(figure.width, abs=1)
    seen = cv2.imdecode(np.frombuffer(picture.screenshot(), np.uint8), cv2.IMREAD_GRAYSCALE)
    assert np.median(seen) > 240 if scheme == "light" else np.median(seen) < 40


def test_on_a_phone_a_figure_opens_at_its_size_and_no_video_covers_it(
    opened: Opened, document: TimelineDocument
) -> None:
    figure = recall_figure([Event(0, 4, "a", 0.9)], [Event(0, 5, "b")])
    page = opened(replace(document, figures=(figure,) * 3), viewport={"width": 390, "height": 844}, has_touch=True)
    page.locator("figure").last.scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, 1e6)")
    frames(page)
    below = page.locator(".figures").bounding_box()["y"]
    video = page.locator("video").bounding_box()
    assert video["y"] + video["height"] <= max(0, below), "the video has left with the list"
    assert page.get_attribute("button.picture >> nth=0", "aria-label") == "Enlarge: Recall."
    page.locator("button.picture").last.tap()
    picture = page.locator("dialog img")
    assert picture.bounding_box()["width"] == pytest.approx(figure.width, abs=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Escape")
    picture.wait_for(state="hidden")
    page.locator("button.picture").first.tap()
    page.tap("#shrink")
    picture.wait_for(state="hidden")
    assert not page.problems
