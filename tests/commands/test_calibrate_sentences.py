"""`densevid calibrate --sentences` on a tiny model of generated videos, and what follows from it."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from densevid.checkpoint import SENTENCE_CONFIDENCE, load_model, model_files
from densevid.cli import main
from densevid.commands import calibrate
from densevid.errors import InputError
from densevid.inference.sentence_confidence import SentenceConfidence
from helpers.tiny_run import TINY, settings, train_here, write_data

pytest.importorskip("pycocoevalcap")
LEARNED = (
    *("training.epochs=24", "training.learning_rate=5e-3", "training.segments_per_video=3", "inference.beam=3"),
    *("model.width=32", "model.hidden=32", 'training.best_by="last"'),
)
OTHERS = "somebody else says something different about clouds"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows what it sees, and 24 other videos whose annotators disagree with each other about some."""
    folder = tmp_path_factory.mktemp("sentences")
    TINY.save(folder / "tiny.toml")
    write_data(folder, "train", 0, 20)
    write_data(folder, "dev", 2, 24)
    assert train_here(folder, folder / "run", *settings(*LEARNED), validate=False) == 0
    first = json.loads((folder / "dev.json").read_text())
    second = {video: dict(entry) for video, entry in first.items()}
    for video in list(second)[::4]:
        second[video]["sentences"] = [OTHERS] * len(second[video]["sentences"])
    for name, content in (("dev_1", first), ("dev_2", second)):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def words(data: Path, model: Path, *references: str) -> list[str]:
    files = [str(data / f"{name}.json") for name in references]
    return ["calibrate", "--model", str(model), "--features", str(data / "dev"), "--references", *files]


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    assert main([*words(data, data / "run" / "model", "dev_1", "dev_2"), "--sentences"]) == 0
    return data / "run" / "model"


def predicted(model: Path, data: Path, out: Path, *more: str) -> dict[str, list[dict[str, Any]]]:
    command = ["predict", "--model", str(model), "--features", str(data / "dev"), "--out", str(out), *more]
    assert main(command) == 0
    results: dict[str, list[dict[str, Any]]] = json.loads(out.read_text())["results"]
    return results


def test_it_writes_both_files_and_says_how_well_they_hold(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(data / "run" / "model", tmp_path / "model")
    assert main([*words(data, tmp_path / "model", "dev_1", "dev_2"), "--sentences"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "calibration.toml: fitted on" in first and "24 videos" in first
    assert f"{SENTENCE_CONFIDENCE}: fitted on" in second and "24 sources" in second and "get a sentence" in second


def test_the_model_has_it_and_its_file_says_what_it_follows_from(model: Path, data: Path) -> None:
    loaded = load_model(model)
    assert loaded.sentence_confidence is not None and model / SENTENCE_CONFIDENCE in model_files(model)
    confidence = SentenceConfidence.of_table(loaded.sentence_confidence)
    assert confidence.fitted["sources"] == 24 and 0.3 < confidence.fitted["support"] <= 1
    inputs = json.dumps(tomllib.loads((model / SENTENCE_CONFIDENCE).read_text())["provenance"])
    assert "dev_1.json" in inputs and "dev_2.json" in inputs and "weights.safetensors" in inputs
    assert "calibration.toml" not in inputs


def test_predictions_have_it_and_it_knows_where_annotators_agree(model: Path, data: Path, tmp_path: Path) -> None:
    results = predicted(model, data, tmp_path / "out.json", "--summary")
    rows = [row for video in results.values() for row in video]
    assert rows and all(0 <= row["sentence_score"] <= 1 for row in rows)
    right = sum(row["sentence_score"] for row in rows) / len(rows)
    assert 0.4 < right < 0.95, "a quarter of the videos has annotators who disagree"


def test_fitting_again_gives_the_same(model: Path, data: Path, tmp_path: Path) -> None:
    """What was fitted before does not enter."""
    shutil.copytree(model, tmp_path / "again")
    assert main([*words(data, tmp_path / "again", "dev_1", "dev_2"), "--sentences"]) == 0
    tables = [tomllib.loads((folder / SENTENCE_CONFIDENCE).read_text()) for folder in (model, tmp_path / "again")]
    for table in tables:
        table.pop("provenance")
    assert tables[0] == tables[1]


def test_without_sentences_an_old_confidence_stays(model: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    before = (tmp_path / "model" / SENTENCE_CONFIDENCE).read_bytes()
    assert main(words(data, tmp_path / "model", "dev_1")) == 0
    assert (tmp_path / "model" / SENTENCE_CONFIDENCE).read_bytes() == before


def test_an_old_damaged_confidence_is_replaced(model: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / SENTENCE_CONFIDENCE).write_text("[format]\nversion = 1\n")
    command = ["predict", "--model", str(tmp_path / "model"), "--features", str(data / "dev")]
    assert main([*command, "--out", str(tmp_path / "out.json")]) == 2
    assert main([*words(data, tmp_path / "model", "dev_1", "dev_2"), "--sentences"]) == 0
    assert predicted(tmp_path / "model", data, tmp_path / "out.json")


def test_what_cannot_be_fitted_is_one_line_and_writes_nothing(
    data: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(model, tmp_path / "model")
    for name in ("calibration.toml", SENTENCE_CONFIDENCE):
        (tmp_path / "model" / name).unlink()
    assert main([*words(data, tmp_path / "model", "dev_1"), "--sentences"]) == 2
    assert "needs references by at least two annotators" in capsys.readouterr().err.splitlines()[-1]
    few = dict(list(json.loads((data / "dev_1.json").read_text()).items())[:6])
    for entry in list(few.values())[:3]:
        entry.update(timestamps=[[22.9, 24.0]], sentences=["nothing that is found"])
    (data / "few.json").write_text(json.dumps(few))
    assert main([*words(data, tmp_path / "model", "few", "few"), "--sentences"]) == 2
    assert "events of 6 sources, 10 are needed" in capsys.readouterr().err.splitlines()[-1]
    assert not [name for name in ("calibration.toml", SENTENCE_CONFIDENCE) if (tmp_path / "model" / name).exists()]


def test_clips_json_gives_the_annotators_and_sources_of_a_split(tmp_path: Path) -> None:
    entries = {
        "one": {"split": "dev", "seconds": 4.0, "captions": ["a dog runs", "the dogs run"], "source": "film"},
        "two": {"split": "dev", "seconds": 3.0, "captions": ["a cat"], "youtube": "other"},
        "three": {"split": "train", "seconds": 3.0, "captions": ["a cow", "a cow"]},
    }
    path = tmp_path / "clips.json"
    path.write_text(json.dumps(entries))
    found = calibrate._annotated([Path(f"{path}:dev")])
    assert set(found) == {"one", "two"}
    assert [(each.spans, each.source) for each in found.values()] == [(((0, 4),), "film"), (((0, 3),), "other")]
    (dogs,) = found["one"].annotators
    assert dogs.annotators == 2 and dogs.users("dog") == 2 and dogs.users("cat") == 0
    path.write_text(json.dumps({"two": entries["two"]}))
    with pytest.raises(InputError, match="at least two annotators"):
        calibrate._annotated([path])


def test_annotators_of_one_event_are_put_together_by_its_times(tmp_path: Path) -> None:
    for number, (times, sentence) in enumerate([([0, 5], "a dog runs"), ([0.0001, 5], "dogs"), ([1, 5], "a cat")]):
        entry = {"duration": 9, "timestamps": [times, [7, 6]], "sentences": [sentence, "reversed"]}
        (tmp_path / f"{number}.json").write_text(json.dumps({"v": entry}))
    (video,) = calibrate._annotated([tmp_path / f"{number}.json" for number in range(3)]).values()
    assert list(video.spans) == [(0, 5), (1, 5)] and video.source == "v"
    assert [each.annotators for each in video.annotators] == [2, 1] and video.annotators[0].users("dog") == 2
