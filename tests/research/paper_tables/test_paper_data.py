"""ActivityNet Captions and YouCook2: their real annotation files, generated features in the layout of the archives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from densevid.cli import main
from densevid.data.annotations import read_annotations
from helpers.archived_features import VIDEOS, shortest, write_features
from research.paper_tables.definitions import datasets, rows
from research.paper_tables.paper_data import PaperData, split_folder
from research.paper_tables.prepared_data import Inputs


@pytest.fixture(scope="module")
def features(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("features")
    for name in ("activitynet", "youcook2"):
        files = datasets()[name].annotations
        lines = ""
        for split, part in (("training", "train"), ("validation", "test")):
            annotations = read_annotations(shared / "data" / name / files[part][0], split=split)
            lines += write_features(root / name / split, shortest(annotations.durations, VIDEOS[split]))
        (root / name / f"{name}_duration_frame.csv").write_text(lines)
    return root


def words(table: str, name: str, shared: Path, features: Path, out: Path, *more: str) -> list[str]:
    files = ["--annotations", str(shared / "data" / name), "--features", str(features / name)]
    machine = ["--device", "cpu", "--threads", "1", "--out", str(out)]
    return ["reproduce", table, "--data", name, *files, "--quick", *machine, *more]


@pytest.mark.parametrize(("name", "table", "row"), [("activitynet", 1, "end-to-end"), ("youcook2", 3, "end-to-end")])
def test_the_way_from_the_archives_to_a_table(
    name: str, table: int, row: str, shared: Path, features: Path, tmp_path: Path
) -> None:
    assert main(words(f"{table},2", name, shared, features, tmp_path, "--rows", f"{row},captions-2")) == 0
    folder = tmp_path / f"{name}-quick"
    filled = json.loads((folder / "tables" / f"table-{table}.json").read_text())
    ours = next(line for line in filled["lines"] if line["title"] == rows()[row].title)
    assert ours["paper"]["M"] == {"activitynet": 9.56, "youcook2": 6.58}[name]
    assert all(cell["mean"] is not None for cell in ours["scores"].values())
    assert any(f"{VIDEOS['validation']} of" in fact for fact in filled["facts"]), "how many videos have features"
    submission = json.loads((folder / "tables" / "submission.json").read_text())
    assert len(submission["results"]) == VIDEOS["validation"]
    assert all(video.startswith("v_") for video in submission["results"]) == (name == "activitynet")


def test_references_are_the_annotators_own(shared: Path, features: Path, tmp_path: Path) -> None:
    inputs = Inputs(annotations=shared / "data" / "activitynet", features=features / "activitynet")
    data = PaperData(datasets()["activitynet"], inputs, tmp_path, quick=False)
    test = data.test()
    assert len(test.references) == 2 and data.streams == (("resnet", 2048), ("bn", 1024))
    for number, file in enumerate(test.references, start=1):
        ours, theirs = (json.loads(path.read_text()) for path in (file, inputs.annotations / f"val_{number}.json"))
        assert 0 < len(ours) <= VIDEOS["validation"]
        for video, entry in ours.items():
            assert entry["sentences"] == [" ".join(s.split()) for s in theirs[video]["sentences"]]
            ends = np.minimum(np.array(theirs[video]["timestamps"]), theirs[video]["duration"])
            np.testing.assert_allclose(entry["timestamps"], ends)


def test_seconds_per_step_are_the_releases(shared: Path, features: Path, tmp_path: Path) -> None:
    """duration x ceil(frames / duration x .5) / frames, of a file with 15 frames a row."""
    inputs = Inputs(annotations=shared / "data" / "youcook2", features=features / "youcook2")
    source = PaperData(datasets()["youcook2"], inputs, tmp_path, quick=False).test_source()
    for line in (features / "youcook2" / "youcook2_duration_frame.csv").read_text().splitlines():
        video, duration, frames = line.split(",")
        if video in source:
            wanted = float(duration) * np.ceil(int(frames) / float(duration) * 0.5) / int(frames)
            assert float(source.extent(video).clock.seconds(1)) == pytest.approx(wanted)


def test_a_folder_of_a_split_or_the_folder_itself(tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    assert split_folder(tmp_path, "validation") == tmp_path / "val"
    assert split_folder(tmp_path, "training") == tmp_path


def test_changed_annotations_or_features_of_any_split_change_the_fingerprint(tmp_path: Path) -> None:
    entry = {"duration": 4.0, "timestamps": [[0.0, 2.0]], "sentences": ["A."]}
    names = [name for files in datasets()["activitynet"].annotations.values() for name in files]
    for name in names:
        (tmp_path / name).write_text(json.dumps({"v_a": entry}))
    for split in ("training", "validation"):
        lines = write_features(tmp_path / "features" / split, [("v_a", 4.0), ("v_b", 6.0)])
    (tmp_path / "features" / "anet_duration_frame.csv").write_text(lines)

    def fingerprints() -> dict[str, dict[str, str]]:
        inputs = Inputs(annotations=tmp_path, features=tmp_path / "features")
        return PaperData(datasets()["activitynet"], inputs, tmp_path / "out", quick=False).fingerprints

    first = fingerprints()
    assert first == fingerprints() and set(first["files"]) == {*names, "anet_duration_frame.csv"}
    (tmp_path / names[-1]).write_text(json.dumps({"v_a": {**entry, "sentences": ["B."]}}))
    second = fingerprints()
    assert [name for name in first["files"] if first["files"][name] != second["files"][name]] == [names[-1]]
    values = tmp_path / "features" / "validation" / "v_b_bn.npy"
    np.save(values, np.load(values) + 1)
    third = fingerprints()["features"]
    assert third["train"] == first["features"]["train"] and third["test"] != first["features"]["test"]
    (tmp_path / "features" / "training" / "v_b_bn.npy").write_bytes(b"broken")
    assert fingerprints()["features"]["train"] != third["train"], "left to those who need it"
