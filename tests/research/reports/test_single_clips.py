"""Captions of single clips beside what needs no learning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from densevid.errors import InputError
from densevid.events import Event, write_events
from densevid.timelines.clips import ClipCollection
from helpers.clip_collections import write_collection
from research.reports.single_clips import main, markdown, of_another_clip, single_clip_table


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "clips", clips=60, splits=("train", "val"))


def as_people_say(clips: Path, split: str = "val") -> dict[str, list[Event]]:
    content = json.loads((clips / "clips.json").read_text())
    return {name: [Event(0.0, 1.0, clip["captions"][0])] for name, clip in content.items() if clip["split"] == split}


def test_what_people_said_scores_highest_and_another_clips_sentence_less(clips: Path) -> None:
    told = as_people_say(clips)
    table = single_clip_table(ClipCollection.read(clips), [told, told], "val", "train")
    assert len(table["predicted"]) == 2 and len(table["most frequent sentence"]) == 1
    own, other = table["predicted"][0]["METEOR"], table["predicted, of another clip"][0]["METEOR"]
    assert own > max(other, table["nearest training clip"][0]["METEOR"], table["most frequent sentence"][0]["METEOR"])


def test_nobody_keeps_the_own_sentence() -> None:
    told = {f"v{number}": [Event(0.0, 1.0, str(number))] for number in range(7)}
    dealt = of_another_clip(told)
    assert sorted(events[0].sentence for events in dealt.values()) == sorted(map(str, range(7)))
    assert all(dealt[video][0].sentence != told[video][0].sentence for video in told)


def test_mean_and_spread_over_runs() -> None:
    line = markdown({"ours": [{"METEOR": 1.0, "CIDEr": 4.0}, {"METEOR": 3.0, "CIDEr": 4.0}]}).splitlines()[-1]
    assert line == "| ours | 2.0 ± 1.4 | 4.0 ± 0.0 |"


def test_a_clip_that_was_not_predicted_is_named(clips: Path) -> None:
    told = as_people_say(clips)
    missing = sorted(told)[0]
    del told[missing]
    with pytest.raises(InputError, match=missing):
        single_clip_table(ClipCollection.read(clips), [told], "val", "train")


def test_the_command_prints_a_table(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_events(tmp_path / "said.json", as_people_say(clips))
    assert main([str(clips), str(tmp_path / "said.json"), "--learn", "train"]) == 0
    assert capsys.readouterr().out.startswith("| | METEOR | CIDEr |\n|---|---|---|\n| predicted | ")
