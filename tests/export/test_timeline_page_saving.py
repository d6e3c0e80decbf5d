"""What the page saves is what the command writes: the model's events alone, under the video's id."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from densevid.events import Event, read_events
from densevid.export.document import ShownEvent, TimelineDocument, references
from densevid.pipeline.outputs import Target, write_outputs
from densevid.pipeline.result import CaptionResult, Detection
from helpers.browsers import new_context, wait_until
from helpers.timeline_pages import Opened


def saved(page: Any, kind: str) -> Any:
    """The download that a button starts."""
    with page.expect_download() as waiting:
        page.click(f"#save-{kind}")
    return waiting.value


def text_of(download: Any) -> str:
    return Path(download.path()).read_text(encoding="utf-8")


def test_events_can_be_saved(opened: Opened, document: TimelineDocument, tmp_path: Path) -> None:
    page = opened(replace(document, title="a title.mp4", video_id="a/b: c"))
    download = saved(page, "json")
    assert download.suggested_filename == "a_b_ c.json"
    download.save_as(tmp_path / "saved.json")
    (video, events), *_ = read_events(tmp_path / "saved.json").items()
    assert video == "a/b: c"
    expected = [replace(shown.event, score=shown.confidence) for shown in document.events]
    assert events == [replace(event, score=round(event.score, 3)) for event in expected]
    text = text_of(saved(page, "vtt"))
    assert text.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nA man walks in\n")


def test_without_an_id_a_video_is_saved_under_its_title(opened: Opened, document: TimelineDocument) -> None:
    assert list(json.loads(text_of(saved(opened(document), "json")))["results"]) == [document.title]


@pytest.fixture
def captioned() -> CaptionResult:
    """Two events that begin together, the longer one first, as the command orders them."""
    events = (Event(0, 6, "a <cat> & a {dog}", 0.5), Event(0, 2, "a cat sits", 0.25), Event(6, 9.5, "they sleep", 0.75))
    return CaptionResult("a cat", "a cat.mp4", None, 10.0, events, tuple(Detection(0, n) for n in range(3)))


def test_the_page_saves_what_the_command_writes(captioned: CaptionResult, browser: Any, tmp_path: Path) -> None:
    truth = (Event(1, 5, "what a person wrote"),)
    kinds = ("html", "vtt", "srt", "json", "chapters")
    files = write_outputs(captioned, Target(tmp_path / "a cat", references=truth), kinds)
    html, vtt, subrip, written = (next(file for file in files if file.suffix == f".{kind}") for kind in kinds[:4])
    context = new_context(browser)
    page = context.new_page()
    page.goto(html.as_uri())
    page.wait_for_selector("html.ready", state="attached")
    content, ours = json.loads(text_of(saved(page, "json"))), json.loads(written.read_text(encoding="utf-8"))
    assert content == {key: ours[key] for key in ("version", "results", "external_data")}
    assert cues(text_of(saved(page, "vtt"))) == cues(vtt.read_text(encoding="utf-8"))
    assert text_of(saved(page, "srt")) == subrip.read_text(encoding="utf-8")
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text } }")
    page.click("#copy-chapters")
    wait_until(page, "window.copied !== undefined")
    (chapters,) = (file for file in files if file.name.endswith(".chapters.txt"))
    assert page.evaluate("window.copied") == chapters.read_text(encoding="utf-8")
    context.close()


def cues(text: str) -> list[list[str]]:
    """The lines of time and words of each cue; their numbers, which may be left out, are not compared."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    return [block[-2:] for block in blocks if any(" --> " in line for line in block)]


def test_references_alone_are_not_offered_for_saving(opened: Opened, document: TimelineDocument) -> None:
    truth = references([Event(0, 4, "a man comes in")])
    assert opened(replace(document, events=truth)).locator(".downloads button").count() == 0
    both = replace(document, events=(*truth, ShownEvent(Event(0, 4, "a man"), 0.5)))
    assert opened(both).locator(".downloads button").count() == 4
