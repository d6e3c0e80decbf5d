"""What may be shown, and where a page looks for its video."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote_to_bytes

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.events import Event
from densevid.export.document import ShownEvent, ShownVideo, TimelineDocument, references
from densevid.export.page_entries import MASK_POINTS, mask_bytes
from densevid.export.page_parts import PAGE, clock_text, escaped
from densevid.export.timeline_page import SCRIPTS, timeline_page


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_a_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(InputError, match="confidence"):
        ShownEvent(Event(0, 1, "words"), confidence)


@pytest.mark.parametrize("duration", [0, -1, float("inf"), float("nan")])
def test_a_video_lasts_some_time(duration: float) -> None:
    with pytest.raises(InputError, match="duration"):
        TimelineDocument("title", duration)


def test_a_timeline_reaches_as_far_as_its_events() -> None:
    assert TimelineDocument("title", 10, (ShownEvent(Event(5, 12.5, "words")),)).seconds == 12.5


@pytest.mark.parametrize(
    "name", ["a b.mp4", "a:b.mp4", "100%.mp4", "what?#1.mp4", "é\u202e.mp4", os.fsdecode(b"\xff.mp4")]
)
def test_any_file_name_becomes_a_relative_address(name: str, tmp_path: Path) -> None:
    video = ShownVideo.linked(tmp_path / "in" / name, tmp_path / "out" / "page.html")
    assert video.address.startswith("./../in/")
    assert unquote_to_bytes(video.address) == b"./../in/" + os.fsencode(name)
    assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", video.address)


def test_a_video_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.mp4: cannot be read"):
        ShownVideo.embedded(tmp_path / "gone.mp4")


@pytest.mark.parametrize(
    "seconds, digits, text",
    [
        (0, 0, "0:00"),
        (59.999, 0, "0:59"),
        (61, 0, "1:01"),
        (3723, 0, "1:02:03"),
        (7.45, 1, "0:07.4"),
        (2.3, 1, "0:02.3"),
    ],
)
def test_times_read_as_players_show_them(seconds: float, digits: int, text: str) -> None:
    assert clock_text(seconds, digits) == text


def test_masks_are_bytes_and_long_ones_are_averaged() -> None:
    assert mask_bytes((0.0, 0.5, 1.0, 7.0, float("nan"))) == bytes([0, 128, 255, 255, 0])
    long = tuple(np.linspace(0, 1, 10 * MASK_POINTS))
    short = np.frombuffer(mask_bytes(long), np.uint8)
    assert len(short) == MASK_POINTS
    assert np.abs(short / 255 - np.reshape(long, (MASK_POINTS, 10)).mean(axis=1)).max() < 1 / 255


def test_half_a_pair_and_control_characters_can_be_written() -> None:
    assert escaped('\ud800\x00<"&') == "\ufffd\ufffd&lt;&quot;&amp;"
    assert timeline_page(TimelineDocument("\ud800", 1)).encode()


def test_a_page_carries_all_scripts_and_no_address_of_another_place() -> None:
    page = timeline_page(TimelineDocument("title", 1))
    assert {path.name for path in PAGE.glob("*.js")} == {*SCRIPTS, "index.js"}
    assert all((PAGE / name).read_text(encoding="utf-8") in page for name in SCRIPTS)
    namespaces = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|//[a-z]+\.[a-z]|@import|url\(", namespaces)


def test_an_embedded_video_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "clip.webm"
    path.write_bytes(bytes(range(256)) * 5)
    page = timeline_page(TimelineDocument("title", 1, video=ShownVideo.embedded(path)))
    found = re.search(r'id="embedded-video" data-type="video/webm">([^<]+)<', page)
    assert found and base64.b64decode(found[1]) == path.read_bytes()


def test_a_timeline_of_no_video_has_no_place_for_one() -> None:
    document = TimelineDocument("composed", 10.0, references([Event(0.0, 5.0, "a dog runs")]))
    assert '<section class="stage" aria-label="Video">' in timeline_page(document)
    assert '<section class="stage" aria-label="Video" hidden>' in timeline_page(replace(document, watchable=False))
