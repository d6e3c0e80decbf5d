"""Annotation files: real ones load completely, errors of invalid ones name the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from densevid.data.annotations import read_annotations
from densevid.errors import InputError
from densevid.events import Event

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
ACTIVITYNET, YOUCOOK2 = SHARED / "activitynet", SHARED / "youcook2" / "youcookii_annotations_trainval.json"
real = pytest.mark.skipif(not SHARED.exists(), reason="the real annotations are not beside this checkout")


def save(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def captions(path: Path, segments: list[Any], duration: Any = 10.0, sentences: list[Any] | None = None) -> Path:
    entry = {
        "duration": duration,
        "timestamps": segments,
        "sentences": sentences or [f"s{i}" for i in range(len(segments))],
    }
    return save(path, {"v_a": entry})


@real
@pytest.mark.parametrize(
    ("name", "videos", "events", "clipped", "dropped"),
    [
        ("train.json", 10_009, 37_421, 261, 4),
        ("val_1.json", 4_917, 17_505, 134, 0),
        ("val_2.json", 4_885, 17_031, 111, 0),
        ("val_1_available.json", 4_483, 15_921, 122, 0),
        ("val_2_available.json", 4_453, 15_505, 102, 0),
    ],
)
def test_activitynet_loads_whole(name: str, videos: int, events: int, clipped: int, dropped: int) -> None:
    annotations = read_annotations(ACTIVITYNET / name)
    raw = json.loads((ACTIVITYNET / name).read_text())
    assert list(annotations.events) == list(raw) and len(annotations) == videos
    assert sum(len(entry["timestamps"]) for entry in raw.values()) == events
    assert sum(map(len, annotations.events.values())) == events - dropped
    assert (annotations.count("clipped"), annotations.count("dropped")) == (clipped, dropped)
    assert annotations.durations == {video: entry["duration"] for video, entry in raw.items()}
    assert all(event.end <= raw[video]["duration"] for video, rows in annotations.events.items() for event in rows)


@real
def test_the_bad_events_of_activitynet_are_named() -> None:
    annotations = read_annotations(ACTIVITYNET / "train.json")
    dropped = {(item.video, item.kind.split(",")[0]) for item in annotations.problems if item.action == "dropped"}
    assert dropped == {
        ("v_N7ppHQNikv8", "empty"),
        ("v_4rKTw99bM8g", "empty"),
        ("v_0bosp4-pyTM", "reversed"),
        ("v_rhOtqArO-3Y", "reversed"),
    }
    assert annotations.summary() == (
        "10,009 videos, 37,417 events; 261 clipped (out of range); 2 dropped (empty); 2 dropped (reversed)"
    )
    with pytest.raises(InputError, match=r"train.json: v_\S+: event \d+: "):
        read_annotations(ACTIVITYNET / "train.json", policy="strict")


@real
def test_two_annotators_are_pooled() -> None:
    pooled = read_annotations([ACTIVITYNET / "val_1.json", ACTIVITYNET / "val_2.json"])
    first, second = (read_annotations(ACTIVITYNET / f"val_{n}.json") for n in (1, 2))
    assert len(pooled) == 4_917 and list(pooled.events) == list(first.events)
    assert all(pooled.events[video] == first.events[video] + second.events.get(video, []) for video in first.events)


@real
@pytest.mark.parametrize(
    ("split", "videos", "events"),
    [(None, 1_790, 13_829), ("training", 1_333, 10_337), ("train", 1_333, 10_337), ("val", 457, 3_492)],
)
def test_youcook2_loads_whole(split: str | None, videos: int, events: int) -> None:
    annotations = read_annotations(YOUCOOK2, split=split)
    assert len(annotations) == videos and len(annotations.sentences()) == events and not annotations.problems


def test_both_annotation_formats_read_the_same(tmp_path: Path) -> None:
    first = read_annotations(captions(tmp_path / "a.json", [[1, 2.5]], sentences=["  Two  words. "]))
    rows = [{"segment": [1, 2.5], "id": 0, "sentence": "Two words."}]
    database = {"database": {"v_a": {"subset": "training", "duration": 10.0, "annotations": rows}}, "version": "1"}
    second = read_annotations(save(tmp_path / "b.json", database))
    assert first == second
    assert first.events == {"v_a": [Event(1, 2.5, "Two words.")]} and first.durations == {"v_a": 10.0}


def test_ids_are_kept_as_they_are(tmp_path: Path) -> None:
    entry = {"timestamps": [[0, 1]], "sentences": ["x"]}
    ids = ["v_a", "a", "v_v_a", "../a", "ü", "A"]
    assert list(read_annotations(save(tmp_path / "a.json", dict.fromkeys(ids, entry))).events) == ids


def test_a_split_chooses_by_subset(tmp_path: Path) -> None:
    entry = {"annotations": [{"segment": [0, 1], "sentence": "x"}]}
    videos = {"a": {"subset": "training", **entry}, "b": {"subset": "Validation", **entry}, "c": {**entry}}
    path = save(tmp_path / "a.json", {"database": videos})
    assert list(read_annotations(path).events) == ["a", "b", "c"]
    assert list(read_annotations(path, split="val").events) == ["b", "c"]
    without = save(tmp_path / "b.json", {"v_a": {"timestamps": [[0, 1]], "sentences": ["x"]}})
    assert list(read_annotations(without, split="val").events) == ["v_a"]
    del videos["c"]
    path = save(tmp_path / "c.json", {"database": videos})
    with pytest.raises(InputError, match="no videos of the split 'test', only of Validation, training"):
        read_annotations(path, split="test")


@pytest.mark.parametrize(
    ("segment", "kind", "fitted"),
    [
        ([3, 2], "reversed", None),
        ([2, 2], "empty", None),
        ([float("nan"), 2], "not a number", None),
        ([1, float("inf")], "not a number", None),
        ([-1, 2], "out of range", (0, 2)),
        ([9, 11], "out of range", (9, 10)),
        ([-5, 50], "out of range", (0, 10)),
        ([10, 11], "out of range", None),
        ([-2, -1], "out of range", None),
        ([0, 10], None, (0, 10)),
    ],
)
def test_events_are_clipped_or_dropped_and_reported(tmp_path: Path, segment, kind, fitted) -> None:
    path = captions(tmp_path / "a.json", [[4, 5], segment])
    annotations = read_annotations(path)
    assert [(event.start, event.end) for event in annotations.events["v_a"]] == [(4, 5), *([fitted] if fitted else [])]
    if kind is None:
        assert annotations.problems == [] and read_annotations(path, policy="strict") == annotations
        return
    (problem,) = annotations.problems
    assert (problem.video, problem.index, problem.action) == ("v_a", 1, "clipped" if fitted else "dropped")
    assert problem.kind.startswith(kind) and f"({kind})" in annotations.summary()
    with pytest.raises(InputError, match=rf"a.json: v_a: event 1: {kind}"):
        read_annotations(path, policy="strict")


def test_without_a_duration_nothing_is_too_late(tmp_path: Path) -> None:
    annotations = read_annotations(captions(tmp_path / "a.json", [[1, 1e6]], duration=None))
    assert annotations.events["v_a"][0].end == 1e6 and annotations.durations == {"v_a": None}


@pytest.mark.parametrize("duration", [0, -3, float("nan"), float("inf")])
def test_an_impossible_duration_is_reported_and_ignored(tmp_path: Path, duration: float) -> None:
    path = captions(tmp_path / "a.json", [[1, 2]], duration=duration)
    annotations = read_annotations(path)
    assert annotations.durations == {"v_a": None} and len(annotations.events["v_a"]) == 1
    assert "1 ignored (bad duration)" in annotations.summary()
    with pytest.raises(InputError, match="v_a: bad duration"):
        read_annotations(path, policy="strict")


def test_an_event_without_a_sentence_is_dropped(tmp_path: Path) -> None:
    annotations = read_annotations(captions(tmp_path / "a.json", [[1, 2], [3, 4]], sentences=[" \n", "x"]))
    assert annotations.events == {"v_a": [Event(3, 4, "x")]} and "1 dropped (no sentence)" in annotations.summary()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("[]", "expected an object of videos, got a list"),
        ("{}", "no videos"),
        ('{"results": {}}', "predictions, not annotations"),
        ('{"database": []}', "must be an object of videos"),
        ('{"v": 3}', 'v: expected an object with a list "timestamps"'),
        ('{"v": {"timestamps": [[0, 1]]}}', 'list "sentences"'),
        ('{"v": {"timestamps": [[0, 1]], "sentences": []}}', "1 timestamps but 0 sentences"),
        ('{"v": {"timestamps": [[0]], "sentences": ["x"]}}', "v: event 0 needs a start and an end"),
        ('{"v": {"timestamps": [[0, "1"]], "sentences": ["x"]}}', "v: event 0: expected seconds, got '1'"),
        ('{"v": {"timestamps": [[0, null]], "sentences": ["x"]}}', "v: event 0: expected seconds"),
        ('{"v": {"timestamps": [[0, true]], "sentences": ["x"]}}', "v: event 0: expected seconds"),
        ('{"v": {"timestamps": [[0, 1]], "sentences": [7]}}', "v: event 0 needs a sentence"),
        ('{"v": {"timestamps": [], "sentences": [], "duration": "x"}}', "v: duration: expected seconds"),
        ('{"v": {"timestamps": [[0, 1%s]], "sentences": ["x"]}}' % ("0" * 400), "event 0: a number of 401 digits"),
        ('{"v": {"timestamps": [[0, 1%s]], "sentences": ["x"]}}' % ("0" * 5000), "not valid JSON"),
        ('{"database": {"v": []}}', 'v: expected an object with a list "annotations"'),
        ('{"database": {"v": {"annotations": [{}]}}}', 'v: event 0 needs a "segment"'),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_a_wrong_form_is_one_line_that_says_where(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_annotations(path)
    assert reason in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_no_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_annotations(tmp_path / "nowhere.json")
