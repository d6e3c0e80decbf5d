"""CaptionResult: a sequence of events that carries what is known of each, and shows itself safely."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import densevid
from densevid.events import Event, read_events
from densevid.export.document import TimedMask
from densevid.pipeline.request import EventRequest
from densevid.pipeline.result import CaptionResult, Detection

EVENTS = (Event(0.0, 2.0, "a <b>dog</b> runs", 0.75), Event(2.0, 4.5, "it sits", 0.5))


@pytest.fixture
def result() -> CaptionResult:
    detections = (Detection(0, 7, 0.9, 0.75, TimedMask(0.0, 5.0, (0.1, 1.0))), Detection(0, 3, 0.8, 0.5))
    return CaptionResult("a dog", "a dog.mp4", Path("a dog.mp4"), 5.0, EVENTS, detections, model="ours")


def test_a_result_is_used_where_a_list_of_events_is(result: CaptionResult) -> None:
    assert len(result) == 2 and result[0] == EVENTS[0] and result[-1] == EVENTS[1] and result[:1] == [EVENTS[0]]
    assert list(result) == list(EVENTS) and EVENTS[1] in result and [*reversed(result)] == [EVENTS[1], EVENTS[0]]
    assert result == list(EVENTS) and result != [EVENTS[0]] and result and not replace(result, events=(), detections=())


def test_the_repr_is_one_short_line(result: CaptionResult) -> None:
    assert repr(result) == "<CaptionResult a dog.mp4: 2 events in 5.0 s, summary, ours>"


def test_the_notebook_view_is_escaped_and_has_no_script(result: CaptionResult) -> None:
    view = replace(result, title="<i>title</i>", warnings=("half <u>of it</u>",))._repr_html_()
    assert "a &lt;b&gt;dog&lt;/b&gt; runs" in view and "&lt;i&gt;title" in view and "half &lt;u&gt;" in view
    assert not any(tag in view for tag in ("<b>", "<i>", "<u>", "<script")) and "75%" in view
    given = replace(result, request=EventRequest(segments=((0.0, 2.0), (2.0, 4.5))))
    assert "75%" not in given._repr_html_(), "given spans have no confidence"


def test_the_json_is_an_event_file(result: CaptionResult, tmp_path: Path) -> None:
    (tmp_path / "events.json").write_text(result.to_json())
    assert read_events(tmp_path / "events.json") == {"a dog": list(EVENTS)}
    assert json.loads(result.to_json())["details"]["a dog"]["duration"] == 5.0


def test_what_the_cache_keeps_comes_back(result: CaptionResult) -> None:
    kept = json.loads(json.dumps(replace(result, warnings=("one",), left_out=((7.0, 8.0),)).as_plain()))
    fields = CaptionResult.fields_of_plain(kept)
    assert fields is not None
    blank = replace(result, events=(), detections=())
    back = replace(blank, **fields)
    assert back == result and back.detections == result.detections
    assert back.warnings == ("one",) and back.left_out == ((7.0, 8.0),)


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"format": 2},
        {"duration": 5.0, "warning": None, "left_out": [], "events": [], "masks": [], "origins": []},  # of 0.1
        {
            "format": 2,
            "duration": 5,
            "warnings": [],
            "incomplete": 0,
            "left_out": [],
            "events": [[]],
            "detections": [3],
        },
    ],
    ids=str,
)
def test_what_is_no_result_is_ignored(kept: dict[str, object]) -> None:
    assert CaptionResult.fields_of_plain(kept) is None


def test_every_event_comes_with_its_anchor_its_scores_and_its_mask(clip: Path) -> None:
    result = densevid.load().caption(clip, dense=True)
    assert isinstance(result, CaptionResult) and len(result.detections) == len(result) > 1
    assert result.path == clip and result.title == "clip.mp4" and result.model == "tiny"
    for event, found in zip(result, result.detections, strict=True):
        assert found.anchor >= 0 and found.mask is not None and found.confidence is None  # it has no calibration
        assert found.proposal_score == pytest.approx(event.score)
