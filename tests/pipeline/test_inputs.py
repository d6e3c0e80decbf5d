"""What the files of videos are called: two never share a name, whatever they are called and wherever they come from."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from densevid.cli import main
from densevid.data.extraction import extract_many
from densevid.data.store.reader import FeatureStore
from densevid.events import read_events
from densevid.pipeline.inputs import LONGEST_NAME, fitting, harmless
from densevid.video.extract import Extractor, find_backbone
from densevid.video.inputs import numbered_names

EVERYTHING = "html,vtt,srt,json,chapters,csv,mp4"


def made_in(folder: Path, ending: str = "json") -> list[str]:
    files = folder.rglob(f"*.densevid.{ending}")
    return sorted(str(file.relative_to(folder)).removesuffix(f".densevid.{ending}") for file in files)


def file_of(path: Path) -> str:
    (details,) = json.loads(path.read_text())["details"].values()
    return details["file"]


def test_the_second_of_a_name_gets_the_next_number_that_is_free() -> None:
    assert numbered_names(["a", "a", "a-2", "b", "a"]) == ["a", "a-3", "a-2", "b", "a-4"]


def test_long_names_are_cut_and_stay_different() -> None:
    long = "視" * 80
    assert len(fitting(long).encode()) <= LONGEST_NAME and fitting(long) != fitting(long + "頻")
    assert fitting(f"deep/{long}").startswith("deep/視") and fitting("short name") == "short name"
    assert len(harmless(long).encode()) <= LONGEST_NAME and harmless("../a b") == "_a_b"


def test_ids_of_stores_and_files_that_are_alike_have_files_of_their_own(tmp_path, clip) -> None:
    for store in ("one", "two"):
        extract_many([clip], tmp_path / store, backbone="appearance", workers=1)
    words = [str(tmp_path / "one"), str(tmp_path / "two"), str(clip), str(tmp_path / "other" / ".." / "one")]
    (tmp_path / "other").mkdir()
    assert main(["caption", *words, "--out", str(tmp_path / "out")]) == 0
    assert made_in(tmp_path / "out") == ["clip", "clip-2", "clip-3", "index"]
    assert sorted(read_events(tmp_path / "out" / "index.densevid.json")) == ["clip", "clip-2", "clip-3"]
    assert file_of(tmp_path / "out" / "clip-3.densevid.json") == "clip.mp4"
    (tmp_path / "spans.json").write_text('{"clip": {"duration": 6, "timestamps": [[1, 2]]}}')
    spans = ["--segments", str(tmp_path / "spans.json")]
    assert main(["caption", *words[:2], *spans, "--out", str(tmp_path / "given")]) == 0, "both are the clip of the file"


def test_ids_of_a_store_that_become_one_name_do_not_share_files(tmp_path, clip) -> None:
    extractor = Extractor(find_backbone("appearance"))
    track, _ = extractor.extract(clip)
    store = FeatureStore.create(tmp_path / "store", extractor.backbone.streams, recipe=extractor.recipe)
    for video in ("a b", "a_b", "視" * 70, "index"):
        store.add(video, track)
    assert main(["caption", str(tmp_path / "store"), "--format", EVERYTHING.removesuffix(",mp4")]) == 0
    made = made_in(tmp_path / "store-captions")
    assert made[:4] == ["a_b", "a_b-2", "index", "index-video"] and len(made) == 5


def test_a_video_called_index_is_not_overwritten_by_the_index(tmp_path, clip) -> None:
    for name in ("index.mp4", "other.mp4"):
        shutil.copy(clip, tmp_path / name)
    assert main(["caption", str(tmp_path)]) == 0
    assert made_in(tmp_path) == ["index", "index-video", "other"]
    assert sorted(read_events(tmp_path / "index.densevid.json")) == ["index", "other"]


@pytest.mark.parametrize("out", [True, False])
def test_a_name_of_dots_stays_in_its_folder(out, tmp_path, clip) -> None:
    (tmp_path / "videos").mkdir()
    for name in ("..mp4", "...mp4", "a.mp4"):
        shutil.copy(clip, tmp_path / "videos" / name)
    where = ["--out", str(tmp_path / "made" / "here")] if out else []
    assert main(["caption", str(tmp_path / "videos"), "--format", "json", *where]) == 0
    assert made_in(tmp_path / "made" / "here" if out else tmp_path / "videos") == ["...mp4", "..mp4", "a", "index"]
    assert main(["caption", str(tmp_path / "videos" / "..mp4"), "--format", "json", *where]) == 0
    assert made_in(tmp_path) == [
        f"{'made/here' if out else 'videos'}/{name}" for name in ("...mp4", "..mp4", "a", "index")
    ]


@pytest.mark.parametrize("letter", ["n", "ñ", "視"])
def test_a_name_as_long_as_the_disk_takes(letter, tmp_path, clip) -> None:
    stem = letter * ((255 - len(".mp4")) // len(letter.encode()))
    video = Path(shutil.copy(clip, tmp_path / f"{stem}.mp4"))
    assert main(["caption", str(video), "--format", EVERYTHING]) == 0
    assert len(list(tmp_path.iterdir())) == 9
    assert main(["caption", str(tmp_path), "--format", EVERYTHING, "--out", str(tmp_path / "out")]) == 0


def test_videos_of_one_stem_captioned_in_two_runs_keep_their_files(tmp_path, clip) -> None:
    """Who came first keeps the short name."""
    first = shutil.copy(clip, tmp_path / "x.mov")
    assert main(["caption", str(first)]) == 0
    second = shutil.copy(clip, tmp_path / "x.mp4")
    for video in (second, first, second):
        assert main(["caption", str(video)]) == 0
        assert made_in(tmp_path) == made_in(tmp_path, "html") == ["x", "x.mp4"]
    assert file_of(tmp_path / "x.densevid.json") == "x.mov" and file_of(tmp_path / "x.mp4.densevid.json") == "x.mp4"


def test_undecodable_names_that_look_alike_stay_distinct(tmp_path, clip) -> None:
    for name in (b"\xff.mp4", b"\xfe.mp4"):
        shutil.copy(clip, os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    assert main(["caption", str(tmp_path)]) == 0
    assert sorted(read_events(tmp_path / "index.densevid.json")) == ["?", "?-2"]
    assert len(list(tmp_path.glob("*.densevid.html"))) == 3


def test_videos_of_one_stem_keep_their_files_in_one_place_too(tmp_path, clip) -> None:
    for name in ("a/x.mov", "b/x.mp4"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(clip, tmp_path / name)
    for name in ("a/x.mov", "b/x.mp4", "a/x.mov", "b/x.mp4"):
        assert main(["caption", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 0
    assert made_in(tmp_path / "out") == made_in(tmp_path / "out", "html") == ["x", "x.mp4"]
    assert file_of(tmp_path / "out" / "x.densevid.json") == "x.mov"


def test_a_folder_of_our_own_videos_alone_says_so(tmp_path, clip, capsys) -> None:
    shutil.copy(clip, tmp_path / "a.densevid.mp4")
    assert main(["caption", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"densevid: {tmp_path}: holds no videos but those that densevid wrote\n"
    assert main(["caption", str(tmp_path / "a.densevid.mp4"), "--format", "json"]) == 0, "it was named"
