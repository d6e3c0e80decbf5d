"""Records of another shape than a step writes: the step is done again, or one line names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from densevid.cli import main
from densevid.config import Config
from densevid.errors import InputError
from densevid.events import Event, write_events
from densevid.io import provenance, write_json
from helpers.clip_collections import write_collection
from research.paper_tables.definitions import chosen_tables, datasets, rows
from research.paper_tables.fact_files import NUMBER, known_facts, made_of, read_facts
from research.paper_tables.model_runs import TRAINED, ModelRun
from research.paper_tables.predict_models import predicted_seconds
from research.paper_tables.prepared_data import Inputs
from research.paper_tables.timeline_data import TimelineData


@pytest.mark.parametrize("content", [[], {}, 3, {"seconds": "long"}])
def test_a_fact_file_that_lacks_a_fact_is_refused(content: object, tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    assert known_facts(path, seconds=NUMBER) is None
    write_json(path, content)
    assert known_facts(path, seconds=NUMBER) is None
    with pytest.raises(InputError, match=r"facts\.json: .*; remove it$"):
        read_facts(path, "remove it", seconds=NUMBER)
    write_json(path, {"seconds": 3, "more": 1})
    assert known_facts(path, seconds=NUMBER) == read_facts(path, seconds=NUMBER) == {"seconds": 3, "more": 1}


def test_what_was_made_of_a_file_is_known_by_it(tmp_path: Path) -> None:
    source, made = tmp_path / "learned.json", tmp_path / "oracle.json"
    write_events(source, {"v": [Event(0, 1, "a dog")]})
    write_events(made, {}, provenance=provenance(inputs=[source]))
    facts = known_facts(made)
    assert facts is not None and made_of(facts, [source]) and not made_of(facts, [source, made])
    write_events(source, {"v": [Event(0, 2, "a cat")]})
    assert not made_of(facts, [source]) and not made_of({}, [source]) and not made_of({"provenance": []}, [source])


@pytest.mark.parametrize("content", [[], {}])
def test_a_run_that_is_not_noted_in_full_is_not_done(content: object, tmp_path: Path) -> None:
    run = ModelRun(rows()["end-to-end"], 0, Config(), "hash", tmp_path)
    for path in (tmp_path / TRAINED, run.speed):
        write_json(path, content)
    assert run.trained is None and run.measured_speed is None
    write_json(tmp_path / TRAINED, {"seconds": 1.5, "steps": 3, "device": "CPU", "parallel": 1})
    assert run.trained is not None


@pytest.mark.parametrize("content", [[], {}, {"provenance": []}, {"provenance": {"seconds": "x", "videos": 2}}])
def test_predictions_without_a_time_have_none(content: object, tmp_path: Path) -> None:
    write_json(tmp_path / "learned.json", content)
    assert predicted_seconds(tmp_path / "learned.json") is None


@pytest.mark.parametrize("content", [[], {}, {"complete": 1}])
def test_a_set_of_timelines_of_another_shape_is_named(content: object, tmp_path: Path) -> None:
    clips = write_collection(tmp_path / "clips", clips=8)
    data = TimelineData(datasets()["msvd-timelines"], Inputs(clips=clips), tmp_path / "data", quick=True)
    write_json(tmp_path / "data" / "test" / "timelines.json", content)
    with pytest.raises(InputError, match=r"timelines\.json: .*remove .*test to have it made again"):
        data.test()


@pytest.mark.parametrize("number", ["²", "1²", "¾", "x", ""])
def test_an_unknown_table_number_is_one_line(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="there is no table"):
        chosen_tables(number, datasets()["msvd-timelines"])
    assert main(["reproduce", number, "--data", "msvd-timelines", "--out", "nowhere"]) == 2
    assert "Traceback" not in capsys.readouterr().err
