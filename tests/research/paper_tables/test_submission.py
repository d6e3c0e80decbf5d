"""The challenge server's rules: what it accepts is written, what it would refuse is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from densevid.cli import run_program
from densevid.errors import InputError
from densevid.evaluation.files import read_predictions
from densevid.events import Event, write_events
from research.paper_tables.submission import add_arguments, problems_of, run, write_submission


def good() -> dict:
    event = {"sentence": "a dog runs", "timestamp": [0.0, 2.5]}
    return {"version": "VERSION 1.0", "results": {"v_one": [event]}, "external_data": {"used": False}}


def test_a_whole_file_is_accepted() -> None:
    assert problems_of(good(), ["v_one"]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("version"), '"version" is missing'),
        (lambda c: c.pop("external_data"), '"external_data" is missing'),
        (lambda c: c.update(external_data={}), '"external_data" needs "used": true or false'),
        (lambda c: c.update(external_data={"used": "no"}), '"external_data" needs "used": true or false'),
        (lambda c: c.update(external_data=[]), '"external_data" must be an object'),
        (lambda c: c.update(results=[]), '"results" must be an object'),
        (lambda c: c["results"].pop("v_one"), "v_one: missing, it would score 0"),
        (lambda c: c["results"].update(v_two=c["results"]["v_one"]), "v_two: the server does not know it"),
        (lambda c: c["results"].update(v_one=[]), "v_one: needs a list of events"),
        (lambda c: c["results"].update(v_one=c["results"]["v_one"] * 1001), "1001 events, of which 1000 are read"),
        (lambda c: c["results"]["v_one"][0].update(sentence=None), '"sentence" must be text'),
        (lambda c: c["results"]["v_one"][0].update(timestamp=[1]), '"timestamp" must be two numbers'),
        (lambda c: c["results"]["v_one"][0].update(timestamp=[0, float("inf")]), "it ends before it begins"),
        (lambda c: c["results"]["v_one"][0].update(timestamp=[3, 2]), "it ends before it begins"),
    ],
)
def test_what_the_server_would_refuse_is_named(change: object, message: str) -> None:
    content = good()
    change(content)  # type: ignore[operator]
    assert any(message in problem for problem in problems_of(content, ["v_one"])), problems_of(content, ["v_one"])


def test_ids_carry_their_prefix() -> None:
    content = good()
    content["results"] = {"one": content["results"]["v_one"]}
    assert problems_of(content, ["one"]) == ["one: ids begin with v_"]
    assert problems_of(content, ["one"], prefix=False) == []


def test_predictions_become_a_submission_that_our_evaluator_reads_without_a_warning(tmp_path: Path) -> None:
    events = [Event(0, number + 1.23456, f"word {number}", number / 2000) for number in range(1200)]
    write_events(tmp_path / "predictions.json", {"v_one": events})
    write_submission(tmp_path / "predictions.json", ["v_one"], tmp_path / "submission.json")
    content = json.loads((tmp_path / "submission.json").read_text())
    assert set(content) == {"version", "results", "external_data"}
    assert content["external_data"]["used"] is True, "networks of features have seen ImageNet"
    events = content["results"]["v_one"]
    assert len(events) == 1000 and events[0] == {"sentence": "word 1199", "timestamp": [0.0, 1200.235]}
    assert read_predictions(tmp_path / "submission.json").warnings == []
    with pytest.raises(InputError, match="v_two: missing"):
        write_submission(tmp_path / "predictions.json", ["v_one", "v_two"], tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


def test_test_videos_become_a_submission(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `densevid predict` wrote, and the ids as a list or as the keys of an annotation file."""
    write_events(tmp_path / "predictions.json", {"v_one": [Event(0, 2.5, "a dog runs", 0.5)]})
    out = tmp_path / "submission.json"
    command = [str(tmp_path / "predictions.json"), "--videos", str(tmp_path / "ids.json"), "--out", str(out)]
    for ids in (["v_one"], {"v_one": {"duration": 3.0}}):
        (tmp_path / "ids.json").write_text(json.dumps(ids))
        assert run_program("submission", None, add_arguments, run, command) == 0
        assert problems_of(json.loads(out.read_text()), ["v_one"]) == []
    (tmp_path / "ids.json").write_text("3")
    assert run_program("submission", None, add_arguments, run, command) == 2
    assert "needs a list of video ids" in capsys.readouterr().err
