"""Captions of single clips beside the trivial baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from densevid.cli import run_program
from densevid.errors import InputError
from densevid.events import Event, write_events
from densevid.timelines.clips import ClipCollection
from helpers.clip_collections import write_collection
from research.reports.single_clips import add_arguments, markdown, of_another_clip, run, single_clip_table


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "clips", clips=60, splits=("train", "val"))


def first_captions(clips: Path, split: str = "val") -> dict[str, list[Event]]:
    content = json.loads((clips / "clips.json").read_text())
    return {name: [Event(0.0, 1.0, clip["captions"][0])] for name, clip in content.items() if clip["split"] == split}


def test_the_annotators_own_sentences_score_highest(clips: Path) -> None:
    own = first_captions(clips)
    table = single_clip_table(ClipCollection.read(clips), [own, own], "val", "train")
    assert len(table["predicted"]) == 2 and len(table["most frequent sentence"]) == 1
    score, other = table["predicted"][0]["METEOR"], table["predicted, of another clip"][0]["METEOR"]
    assert score > max(other, table["nearest training clip"][0]["METEOR"], table["most frequent sentence"][0]["METEOR"])


def test_no_clip_keeps_its_own_sentence() -> None:
    predictions = {f"v{number}": [Event(0.0, 1.0, str(number))] for number in range(7)}
    exchanged = of_another_clip(predictions)
    assert sorted(events[0].sentence for events in exchanged.values()) == sorted(map(str, range(7)))
    assert all(exchanged[video][0].sentence != predictions[video][0].sentence for video in predictions)


def test_mean_and_spread_over_runs() -> None:
    line = markdown({"ours": [{"METEOR": 1.0, "CIDEr": 4.0}, {"METEOR": 3.0, "CIDEr": 4.0}]}).splitlines()[-1]
    assert line == "| ours | 2.0 ± 1.4 | 4.0 ± 0.0 |"


def test_a_clip_that_was_not_predicted_is_named(clips: Path) -> None:
    predictions = first_captions(clips)
    missing = sorted(predictions)[0]
    del predictions[missing]
    with pytest.raises(InputError, match=missing):
        single_clip_table(ClipCollection.read(clips), [predictions], "val", "train")


def test_the_command_prints_a_table(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_events(tmp_path / "run.json", first_captions(clips))
    command = [str(clips), str(tmp_path / "run.json"), "--learn", "train"]
    assert run_program("single_clips", None, add_arguments, run, command) == 0
    assert capsys.readouterr().out.startswith("| | METEOR | CIDEr |\n|---|---|---|\n| predicted | ")
