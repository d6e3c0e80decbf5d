"""`densevid timelines`: a set that the other parts read, resumable, and one line for whatever cannot be used."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from densevid.cli import main
from densevid.data.annotations import read_annotations
from densevid.data.store.reader import FeatureStore
from helpers.clip_collections import write_collection
from helpers.made_videos import make_video


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("command") / "clips")


def timelines(*words: object) -> int:
    return main(["timelines", *map(str, words)])


def test_a_set_is_written_that_other_parts_read(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "set"
    assert timelines(clips, "--split", "test", "--seed", 3, "--videos", 8, "--out", out) == 0
    assert "8 videos" in capsys.readouterr().out
    store = FeatureStore.open(out / "features")
    files = sorted(out.glob("references_*.json"))
    assert [file.name for file in files] == [f"references_{number}.json" for number in range(1, len(files) + 1)]
    first = read_annotations(files[0], policy="strict")
    assert sorted(first.events) == store.videos() and store.verify() == []
    for video, seconds in first.durations.items():
        assert store.extent(video).duration == seconds == store.extent(video).steps * 0.5
    about = json.loads((out / "timelines.json").read_text())
    assert about["complete"] and about["composed"]
    assert about["provenance"]["inputs"].keys() == {"clips.json", "features.npy"}
    spans = [
        {video: {(e.start, e.end) for e in rows} for video, rows in read_annotations(f).events.items()} for f in files
    ]
    for earlier, later in pairwise(spans):
        assert all(later[video] <= earlier[video] for video in later), "the same timestamps, or fewer"
    second = read_annotations(files[1])
    both = zip(first.events["test-3-000000"], second.events["test-3-000000"], strict=True)
    assert all((a.start, a.end) == (b.start, b.end) and a.sentence != b.sentence for a, b in both)


def test_the_same_command_resumes_and_another_seed_is_refused(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    words = ("--split", "test", "--videos", 5, "--out")
    assert timelines(clips, *words, whole) == 0
    assert timelines(clips, *words, broken) == 0
    (broken / "references_1.json").unlink()
    (broken / "features" / "features.toml").replace(broken / "kept.toml")
    for shard in (broken / "features").glob("shard-*"):
        shard.unlink()
    (broken / "kept.toml").replace(broken / "features" / "features.toml")
    assert timelines(clips, *words, broken) == 0
    assert (broken / "references_1.json").read_bytes() == (whole / "references_1.json").read_bytes()
    stores = [FeatureStore.open(folder / "features") for folder in (whole, broken)]
    for video in stores[0].videos():
        np.testing.assert_array_equal(stores[0].track(video).values, stores[1].track(video).values)
    assert timelines(clips, *words, broken, "--seed", 1) == 2
    assert "holds another set of timelines" in capsys.readouterr().err


def write_layouts(path: Path, *, seconds: float = 40.0) -> Path:
    spans = [[[0, seconds / 2], [seconds / 2, seconds]], [[0, seconds / 4], [seconds / 4, seconds]]]
    content = {f"v{number}": {"duration": seconds, "timestamps": span} for number, span in enumerate(spans * 10)}
    path.write_text(json.dumps(content))
    return path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_set_of_other_layouts_is_refused_and_left_as_it_is(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, layouts = tmp_path / "set", write_layouts(tmp_path / "layouts.json")
    words = (clips, "--split", "test", "--videos", 3, "--out", out)
    assert timelines(*words) == 0
    before = contents(out)
    assert timelines(*words, "--layouts", layouts) == 2
    error = capsys.readouterr().err
    assert "holds another set of timelines (not the same: layouts); choose another folder" in error
    assert error.count("\n") == 1 and contents(out) == before
    again = (clips, "--split", "test", "--videos", 3, "--layouts", layouts, "--out", tmp_path / "other")
    assert timelines(*again) == 0
    assert timelines(*again) == 0, "the same layouts resume"
    write_layouts(layouts, seconds=44.0)
    assert timelines(*again) == 2, "the file has changed"


@pytest.mark.parametrize("kind", [(), ("--single",)])
def test_a_set_of_other_features_is_refused(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: tuple[str, ...]
) -> None:
    values = np.load(clips / "features.npy")
    entries = json.loads((clips / "clips.json").read_text())
    for number, store in enumerate(("one", "two")):
        (tmp_path / store).mkdir()
        for name, entry in entries.items():
            rows = values[entry["first_row"] : entry["first_row"] + entry["rows"]]
            np.save(tmp_path / store / f"{name}.npy", rows + np.float16(number))
        (tmp_path / store / "a_duration_frame.csv").write_text(
            "".join(f"{name},{entry['seconds']},{entry['rows']}\n" for name, entry in entries.items())
        )
    words = (clips, "--split", "test", "--out", tmp_path / "set", *(kind or ("--videos", 3)))
    assert timelines(*words, "--features", tmp_path / "one") == 0
    assert timelines(*words, "--features", tmp_path / "one") == 0
    before = contents(tmp_path / "set" / "features")
    capsys.readouterr()
    assert timelines(*words, "--features", tmp_path / "two") == 2
    assert "(not the same: features)" in capsys.readouterr().err
    assert contents(tmp_path / "set" / "features") == before


def test_a_set_of_an_earlier_version_resumes_where_its_videos_fit(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, layouts = tmp_path / "set", write_layouts(tmp_path / "layouts.json")
    words = (clips, "--split", "test", "--videos", 3, "--out", out)
    assert timelines(*words) == 0
    about = json.loads((out / "timelines.json").read_text())
    del about["settings"]["layouts"]
    (out / "timelines.json").write_text(json.dumps(about))
    assert timelines(*words, "--layouts", layouts) == 2
    assert "does not record its layouts, and its videos are not those of this command" in capsys.readouterr().err
    assert "layouts" not in json.loads((out / "timelines.json").read_text())["settings"]
    assert timelines(*words) == 0
    assert "layouts" in json.loads((out / "timelines.json").read_text())["settings"]


def test_single_clips_are_exported_with_all_their_captions(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "single"
    assert timelines(clips, "--split", "test", "--single", "--out", out) == 0
    assert len(list(out.glob("references_*.json"))) == 5
    annotations = read_annotations(sorted(out.glob("references_*.json")))
    content = json.loads((clips / "clips.json").read_text())
    for video, events in annotations.events.items():
        assert {event.sentence for event in events} == set(content[video]["captions"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--split", "nope"),
            "there is no split 'nope'; there are test, train, each also as -fit and -dev, -fold0 to -fold4, -but0",
        ),
        (("--split", "test", "--videos", 0), "--videos must be at least 1"),
        (("--split", "test", "--seed", -1), "the seed must not be negative"),
        (("--split", "test", "--pixels"), "has no folder clips/ of .mp4 files, which --pixels needs"),
        (("--split", "test", "--layouts", "absent.json"), "absent.json: no such file"),
        (
            ("--split", "test", "--single", "--layouts", "any.json"),
            "--layouts is for composed timelines",
        ),
        (("--split", "test", "--single", "--seed", 0), "--seed is for composed timelines"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[object, ...], message: str
) -> None:
    assert timelines(clips, "--out", tmp_path / "out", *words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_is_left_alone(
    clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    assert timelines(clips, "--split", "test", "--out", tmp_path) == 2
    assert "is not empty and holds no timelines" in capsys.readouterr().err


def test_real_videos_are_written_and_last_as_long_as_they_say(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "films", clips=24, splits=("test",))
    content = json.loads((folder / "clips.json").read_text())
    (folder / "features.npy").unlink()
    (folder / "clips").mkdir()
    for name, entry in content.items():
        entry["seconds"] = 8.0
        del entry["first_row"], entry["rows"]
        make_video(folder / "clips" / f"{name}.mp4", np.arange(40) / 5, size=(64, 48))
    (folder / "clips.json").write_text(json.dumps(content))
    out = tmp_path / "out"
    assert timelines(folder, "--split", "test", "--videos", 2, "--out", out) == 0
    references = json.loads((out / "references_1.json").read_text())
    assert len(references) == 2
    for video, entry in references.items():
        with av.open(str(out / "videos" / f"{video}.mp4")) as container:
            stream = container.streams.video[0]
            frames = [float(frame.pts * stream.time_base) for frame in container.decode(stream)]
            assert (stream.width, stream.height) == (64, 48)
        np.testing.assert_allclose(frames, np.arange(len(frames)) / 25, atol=1e-6)
        assert len(frames) / 25 == pytest.approx(entry["duration"], abs=1e-6)
        assert all(0 <= start < end <= entry["duration"] for start, end in entry["timestamps"])
    before = {path: path.stat().st_mtime_ns for path in (out / "videos").iterdir()}
    assert timelines(folder, "--split", "test", "--videos", 2, "--out", out) == 0
    assert before == {path: path.stat().st_mtime_ns for path in (out / "videos").iterdir()}, "finished videos stay"
