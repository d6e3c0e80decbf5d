from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from densevid.events import Event
from densevid.export.document import ShownEvent, ShownVideo, TimedMask, TimelineDocument
from densevid.export.thumbnails import thumbnails
from densevid.export.timeline_page import timeline_page
from helpers.browsers import new_context
from helpers.made_videos import constant, make_video

PLAY_SLOWLY = """() => {
  const video = document.querySelector("video");
  if (video) video.playbackRate = video.defaultPlaybackRate = 0.25;
}"""

SPANS = [
    (0.0, 1.5, "A man walks in"),
    (1.5, 4.0, "a señor sits at a café table"),
    (3.0, 9.0, "people talk"),
    (9.5, 11, "all leave"),
]


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve seconds of numbered frames, ten a second."""
    return make_video(tmp_path_factory.mktemp("clip") / "a clip #1.mp4", constant(12, fps=10))


@pytest.fixture(scope="session")
def document(clip: Path) -> TimelineDocument:
    """Four events, two of which overlap, with masks and thumbnails."""
    pictures = thumbnails(clip, [(start + end) / 2 for start, end, _ in SPANS])
    shown = tuple(
        ShownEvent(Event(start, end, text), 0.9 - 0.2 * place, TimedMask(0.0, 12.0, (0.1,) * 6 + (0.8,) * 6), picture)
        for place, ((start, end, text), picture) in enumerate(zip(SPANS, pictures, strict=True))
    )
    video = ShownVideo.linked(clip, clip.with_name("page.html"))
    return TimelineDocument("a clip #1.mp4", 12.0, shown, video, "test model", "densevid, a test")


@pytest.fixture
def opened(browser: Any, clip: Path) -> Iterator[Callable[..., Any]]:
    """Writes a document beside the clip and opens it from disk; `page.requested` lists every request.

    Videos play at a quarter of their speed: a test that looks at a moment of one has time for it on a busy machine.
    """
    contexts = []

    def opened(shown: TimelineDocument, *, at: str = "", folder: Path = clip.parent, **context: Any) -> Any:
        path = folder / "page.html"
        path.write_text(timeline_page(shown), encoding="utf-8", newline="\n")
        contexts.append(new_context(browser, **{"viewport": {"width": 1280, "height": 800}} | context))
        page = contexts[-1].new_page()
        page.requested, page.problems = [], []
        page.on("request", lambda request: page.requested.append(request.url))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.goto(path.as_uri() + at)
        if context.get("java_script_enabled", True):
            page.wait_for_selector("html.ready", state="attached")
            page.evaluate(PLAY_SLOWLY)
        return page

    yield opened
    for context in contexts:
        context.close()
