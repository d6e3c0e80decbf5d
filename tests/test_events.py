"""Events: impossible ones cannot be made, files go round, bad files name the video and the index."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densevid.errors import InputError
from densevid.events import Event, read_events, write_events

SHARED = Path(__file__).parents[1] / ".." / "shared" / "data" / "predictions"


@pytest.mark.parametrize(
    ("start", "end"), [(2, 1), (1, 1), (-1, 1), (math.nan, 1), (0, math.nan), (0, math.inf), (math.inf, math.inf)]
)
def test_an_event_has_a_start_before_its_end(start: float, end: float) -> None:
    with pytest.raises(InputError, match="0 <= start < end"):
        Event(start, end, "x")


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_an_event_has_a_finite_score(score: float) -> None:
    with pytest.raises(InputError, match="score"):
        Event(0, 1, "x", score)


TIMES = st.floats(0, 1e6)
EVENTS = st.builds(
    lambda start, length, sentence, score: Event(start, start + length, sentence, score),
    TIMES,
    st.floats(1e-3, 1e6),
    st.text(),
    st.floats(-5, 5),
)


@given(st.dictionaries(st.text(), st.lists(EVENTS, max_size=4), max_size=4))
def test_event_files_survive_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, events: dict[str, list[Event]]
) -> None:
    path = tmp_path_factory.mktemp("events") / "events.json"
    write_events(path, events, provenance={"densevid": "0"})
    assert read_events(path) == events
    content = json.loads(path.read_text(encoding="utf-8"))
    assert set(content) == {"version", "results", "external_data", "provenance"}
    assert list(content["results"]) == list(events)  # in the order given


def test_a_row_has_the_submission_form() -> None:
    event = Event(1, 2.5, "a dog runs", 0.75)
    assert event.as_row() == {"sentence": "a dog runs", "timestamp": [1, 2.5], "proposal_score": 0.75}
    assert event.seconds == 1.5


def test_what_is_known_of_a_sentence_goes_round(tmp_path: Path) -> None:
    event = Event(1, 2, "someone is cooking", 0.5, 0.7, "a woman is making a cake", True, "small")
    write_events(tmp_path / "events.json", {"v": [event, Event(2, 3, "", 0.4, 0.1, "a dog")]})
    assert read_events(tmp_path / "events.json") == {"v": [event, Event(2, 3, "", 0.4, 0.1, "a dog")]}
    extra = {"sentence_score": 0.7, "full_sentence": "a woman is making a cake", "shortened": True}
    assert extra.items() <= event.as_row().items()
    assert "shortened" not in Event(2, 3, "", 0.4, 0.1, "a dog").as_row()


def test_half_a_surrogate_pair_can_be_written(tmp_path: Path) -> None:
    """JSON allows it and UTF-8 does not; an id read from one file must not keep another from being written."""
    path = tmp_path / "events.json"
    write_events(path, {"\ud800": [Event(0, 1, "x\udfff")]})
    assert read_events(path) == {"\ud800": [Event(0, 1, "x\udfff")]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", 'needs "results"'),
        ('{"results": []}', 'needs "results"'),
        ('{"results": {"v": {}}}', "v: expected a list of events, got dict"),
        ('{"results": {"v": [3]}}', "v: event 0: "),
        ('{"results": {"v": [{"timestamp": [0, 1]}]}}', "v: event 0: no 'sentence'"),
        ('{"results": {"v": [{"sentence": "x"}]}}', "v: event 0: no 'timestamp'"),
        ('{"results": {"v": [{"sentence": "x", "timestamp": [0]}]}}', "v: event 0: not enough values"),
        ('{"results": {"v": [{"sentence": "x", "timestamp": [2, 1]}]}}', "v: event 0: an event must satisfy"),
        ('{"results": {"v": [{"sentence": "x", "timestamp": [0, NaN]}]}}', "v: event 0: an event must satisfy"),
        ('{"results": {"v": [{"sentence": "x", "timestamp": [0, 1%s]}]}}' % ("0" * 400), "v: event 0: "),
        ('{"results": {"v": [{"sentence": "x", "timestamp": [0, 1], "proposal_score": null}]}}', "v: event 0: "),
        ("{", "not valid JSON"),
    ],
)
def test_a_bad_file_names_the_video_and_the_index(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "events.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_events(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.skipif(not SHARED.exists(), reason="the real predictions are not beside this checkout")
def test_real_predictions_load() -> None:
    events = read_events(SHARED / "bmt_val_1.json")
    raw = json.loads((SHARED / "bmt_val_1.json").read_text())["results"]
    assert {video: len(rows) for video, rows in events.items()} == {video: len(rows) for video, rows in raw.items()}
