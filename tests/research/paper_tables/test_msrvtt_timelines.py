"""MSR-VTT timelines: features extracted from the clips in two streams, and the tables that are filled from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from densevid.cli import main
from densevid.data.layouts import open_features
from densevid.data.store.reader import FeatureStore
from densevid.timelines.clips import ClipCollection
from densevid.timelines.sources import ClipFeatures
from densevid.tracks import FeatureTrack
from helpers.clip_collections import write_collection
from research.paper_tables.definitions import datasets, rows

ROWS = ("end-to-end", "self-attn-proposals", "one-stream")


def write_store(folder: Path, clips: Path) -> Path:
    """The clips' own rows, as if a network of two streams had written them."""
    store = FeatureStore.create(folder, (("appearance", 10), ("motion", 6)), dtype="float32")
    collection = ClipCollection.read(clips)
    sources = {split: ClipFeatures(collection, split) for split in ("train", "val")}
    for name, entry in json.loads((clips / "clips.json").read_text()).items():
        track = sources[entry["split"]].track(name)
        store.add(name, FeatureTrack(track.values.astype("float32"), track.clock, store.streams))
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("msrvtt")
    clips = write_collection(folder / "clips", clips=200, splits=("train", "train", "val"))
    data = [
        "--data",
        "msrvtt-timelines",
        "--clips",
        str(clips),
        "--features",
        str(write_store(folder / "S-512", clips)),
    ]
    machine = ["--device", "cpu", "--threads", "1", "--quick", "--rows", ",".join(ROWS), "--out", str(folder / "out")]
    assert main(["reproduce", "all", *data, *machine]) == 0
    return folder / "out" / "msrvtt-timelines-quick"


def test_the_tables_of_msrvtt_are_filled(results: Path) -> None:
    """Those three; the rows of --rows have their numbers, the others a note of what is missing."""
    assert datasets()["msrvtt-timelines"].tables == (1, 4, 8)
    for number, row in ((1, "end-to-end"), (4, "self-attn-proposals"), (8, "end-to-end"), (8, "one-stream")):
        content = json.loads((results / "tables" / f"table-{number}.json").read_text())
        ours = {line["title"]: line for line in content["lines"] if line["group"] == "ours"}
        scores = ours[rows()[row].title]["scores"]
        assert all(cell["mean"] is not None for head, cell in scores.items() if head != "caption gradient")
        untrained = [line for line in ours.values() if line["scores"]["AR@10"]["mean"] is None]
        assert untrained and all("seed 0: not trained yet" in line["notes"] for line in untrained)


def test_one_stream_of_two(results: Path) -> None:
    """Features that were extracted in two streams can be shown to a model without the second."""
    assert open_features(results / "data" / "clips-1-stream").streams == (("appearance", 10),)
    assert (results / "data" / "test-1-stream" / "references_1.json").exists()
    assert list((results / "predictions").glob("one-stream-*/seed-0/learned.json"))
