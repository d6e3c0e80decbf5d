"""The page keeps to itself: nothing is requested but the video, and names and sentences never become markup."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from densevid.events import Event
from densevid.export.document import ShownEvent, ShownVideo, TimelineDocument
from densevid.export.timeline_page import timeline_page
from helpers.browsers import new_context, wait_until
from helpers.timeline_pages import PAUSED, TIME, Opened


def test_nothing_is_requested_but_the_video(opened: Opened, document: TimelineDocument, clip: Path) -> None:
    page = opened(document)
    wait_until(page, "document.querySelector('video').readyState > 1")
    page.click(".bar[data-place='2']")
    wait_until(page, f"!{PAUSED} && {TIME} > 3.1")
    addresses = {address for address in page.requested if not address.startswith("data:")}
    assert addresses == {clip.with_name("page.html").as_uri(), clip.as_uri()}


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """A server that a page must not reach, and the requests that reached it."""
    requested: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requested
        server.shutdown()


def test_the_policy_refuses_what_a_sentence_might_smuggle_in(
    opened: Opened, document: TimelineDocument, elsewhere: tuple[str, list[str]]
) -> None:
    there, requested = elsewhere
    page = opened(document)
    note = "(event) => (window.refused ??= []).push(event.effectiveDirective)"
    page.evaluate(f"() => {{ addEventListener('securitypolicyviolation', {note}) }}")
    page.evaluate("(there) => { new Image().src = `${there}/a.png` }", there)
    page.evaluate("(there) => fetch(there).catch(() => {})", there)
    page.evaluate("(there) => { document.querySelector('video').src = `${there}/a.mp4` }", there)
    page.evaluate("() => document.body.append(Object.assign(document.createElement('script'), {text: 'hacked = 1'}))")
    page.evaluate("() => document.body.setAttribute('onclick', 'hacked = 1')")
    page.click("h1")
    wait_until(page, "window.refused?.length >= 5")
    refused = {"img-src", "connect-src", "media-src", "script-src-elem", "script-src-attr"}
    assert set(page.evaluate("window.refused")) == refused
    assert page.evaluate("typeof hacked") == "undefined"
    assert requested == []


def test_a_server_may_serve_the_page_too(browser: Any, document: TimelineDocument, clip: Path) -> None:
    clip.with_name("served.html").write_text(timeline_page(document), encoding="utf-8", newline="\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(clip.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = new_context(browser)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/served.html")
        wait_until(page, "document.querySelector('video').readyState > 1")
        context.close()
        server.shutdown()


HOSTILE = (
    "<img src=x onerror='hacked=1'>",
    "</script><script>hacked=1</script>",
    "<!--<script> $title ${css} &amp; \"quotes' \u2028\u2029",
    "\u202eright to left\u202c \u05d0\u05d1 \x00\x1b[31m \ud800",
    "' onmouseover='hacked=1' x='",
)


def test_markup_stays_text_everywhere(opened: Opened, document: TimelineDocument, clip: Path, tmp_path: Path) -> None:
    strange = tmp_path / "a<b>&'\" #?%20:é.mp4"
    shutil.copy(clip, strange)
    shown = tuple(
        ShownEvent(Event(place, place + 2.0, text), group=text, reference=place == 0)
        for place, text in enumerate(HOSTILE)
    )
    everything = TimelineDocument(
        HOSTILE[1], 12.0, shown, ShownVideo.linked(strange, tmp_path / "page.html"), HOSTILE[0], HOSTILE[2]
    )
    page = opened(everything, folder=tmp_path)
    texts = [text.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\ud800", "\ufffd") for text in HOSTILE]
    assert page.locator(".list .sentence").all_text_contents() == texts
    assert page.locator(".bar .label").all_text_contents() == texts
    assert page.text_content("h1") == HOSTILE[1]
    assert page.title() == f"{HOSTILE[1]} · timeline"
    assert page.text_content(".provenance") == HOSTILE[2].replace("\u2028", "\u2028")
    for place in range(len(HOSTILE)):
        page.hover(f".bar[data-place='{place}']")
    page.fill("#search", "img src")
    wait_until(page, "document.querySelector('video').readyState > 1")
    assert page.evaluate("typeof hacked") == "undefined"
    assert not page.problems
