"""The masks of results and pages, and the figures of `--explain`."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import densevid
from densevid.cli import main
from densevid.data.extraction import extract_many
from densevid.events import read_events
from densevid.export.document import TimedMask
from densevid.export.explanation_plots import explanation_figures
from densevid.pipeline.cache import Cache
from densevid.pipeline.captioner import VideoCaptioner
from densevid.pipeline.model_registry import find_model
from densevid.pipeline.outputs import Target, timeline_document
from densevid.pipeline.request import EventRequest
from densevid.pipeline.result import CaptionResult
from helpers.made_videos import constant, make_video


def test_masks_lie_where_the_events_are(clip) -> None:
    captioner = densevid.load()
    captions = captioner.caption_file(clip, "clip", EventRequest(dense=True))
    assert len(captions.detections) == len(captions) > 1
    assert {(mask.start, round(mask.end)) for mask in masks(captions)} == {(0.0, 6)}
    check_masks(captions)


def test_masks_of_a_long_video_lie_in_the_window_of_each_event(tmp_path) -> None:
    """50 seconds are 100 steps, the model's window is 40."""
    bright = lambda number: np.full((64, 64, 3), 60 * (number // 25 % 5), np.uint8)  # noqa: E731
    video = make_video(tmp_path / "long.mp4", constant(50.0, fps=5), size=(64, 64), picture=bright)
    captions = densevid.load().caption_file(video, "long", EventRequest(top=12))
    assert len({mask.start for mask in masks(captions)}) > 2 and max(mask.end for mask in masks(captions)) > 45
    check_masks(captions)
    for event, mask in zip(captions, masks(captions), strict=True):
        assert mask.end - mask.start == pytest.approx(20.0, abs=0.5)
        assert mask.start - 0.01 <= event.start < event.end <= mask.end + 0.01


def test_of_very_many_events_the_surest_have_masks_and_pictures(video, monkeypatch) -> None:
    monkeypatch.setattr("densevid.pipeline.captioner.MOST_MASKS", 3)
    monkeypatch.setattr("densevid.pipeline.outputs.MOST_THUMBNAILS", 4)
    captions = VideoCaptioner(find_model(), cache=Cache(None)).caption_file(video, "clip", EventRequest(dense=True))
    ranked = sorted(captions.events, key=lambda event: -event.score)
    masked = {event for event, found in zip(captions, captions.detections, strict=True) if found.mask}
    assert len(ranked) > 4 and masked == set(ranked[:3])
    shown = timeline_document(captions, Target(video.with_suffix(""))).events
    assert {each.event for each in shown if each.thumbnail} == set(ranked[:4])
    fields = CaptionResult.fields_of_plain(json.loads(json.dumps(captions.as_plain())))
    assert fields is not None and replace(captions, **fields) == captions
    assert fields["detections"] == captions.detections


def masks(captions: CaptionResult) -> list[TimedMask]:
    return [found.mask for found in captions.detections if found.mask]


def check_masks(captions: CaptionResult) -> None:
    """A mask is larger inside the span of its event than outside."""
    for event, mask in zip(captions, masks(captions), strict=True):
        centres = mask.start + (np.arange(len(mask.values)) + 0.5) * (mask.end - mask.start) / len(mask.values)
        inside = (centres > event.start) & (centres < event.end)
        if inside.any() and not inside.all():
            assert np.mean(np.array(mask.values)[inside]) > np.mean(np.array(mask.values)[~inside])


def test_explain_draws_what_the_model_saw(video) -> None:
    assert main(["caption", str(video), "--explain", "--format", "html"]) == 0
    figures = [video.parent / f"clip.densevid.{name}.png" for name in ("masks", "words", "entropy")]
    assert all(figure.read_bytes().startswith(b"\x89PNG") for figure in figures)
    assert (video.parent / "clip.densevid.html").read_text().count("<figure>") == 3


def test_a_store_is_explained_by_its_features_alone(clip, tmp_path, capsys) -> None:
    extract_many([clip], tmp_path / "store", backbone="appearance", workers=1)
    words = ["--explain", "--format", "html"]
    assert main(["caption", str(tmp_path / "store"), *words]) == 0
    assert main(["caption", str(clip), "--out", str(tmp_path / "direct"), *words]) == 0
    for name in ("masks", "words", "entropy"):
        figures = [tmp_path / place / f"clip.densevid.{name}.png" for place in ("store-captions", "direct")]
        assert figures[0].read_bytes() == figures[1].read_bytes()
    assert capsys.readouterr().err == ""


def test_where_there_is_nothing_to_explain_a_line_says_so(tmp_path, capsys) -> None:
    """The shortest anchor has two steps, of half a second."""
    short = make_video(tmp_path / "short.mp4", constant(0.4))
    assert main(["caption", str(short), "--explain", "--format", "html"]) == 0
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "short.mp4: there is nothing to explain" in text


def described(page: Path, figure: str) -> str:
    """The description of a figure in a page."""
    return html.unescape(page.read_text().split(f"<strong>{figure}")[1].split("</figcaption>")[0])


@pytest.mark.parametrize("flags", [[], ["--top", "3"], ["--dense"]], ids=str)
def test_explain_shows_the_surest_event_of_the_timeline_by_the_number_of_the_page(video, flags) -> None:
    assert main(["caption", str(video), *flags, "--explain", "--format", "html,json"]) == 0
    surest = max(read_events(video.parent / "clip.densevid.json")["clip"], key=lambda event: event.score)
    percent = f"{round(100 * surest.score)}% sure"
    text = described(video.parent / "clip.densevid.html", "Where each word looked.")
    assert text.index(f"“{surest.sentence}”") < text.index(percent), "the first is the surest"
    assert f"({percent}" in described(video.parent / "clip.densevid.html", "Event masks.")


def test_explain_shows_given_spans_and_what_was_found_where_none_is_asked_for(video, tmp_path) -> None:
    (tmp_path / "spans.txt").write_text("1 3\n2 6\n")
    assert (
        main(["caption", str(video), "--segments", str(tmp_path / "spans.txt"), "--explain", "--format", "html"]) == 0
    )
    assert "0:01.0–0:03.0, given span" in described(video.parent / "clip.densevid.html", "Where each word looked.")
    captioner = VideoCaptioner(find_model(), cache=Cache(None))
    empty = replace(captioner.caption_file(video, "clip", EventRequest()), events=(), detections=())
    explanation = captioner.explanation(empty, captioner.track(video).track)
    assert "best proposals" in explanation_figures(explanation)[1].title
