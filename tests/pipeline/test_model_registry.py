"""Models by name, from Python and from the command line, and a model that carries its reduction."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import densevid
from densevid.checkpoint import load_model
from densevid.cli import main
from densevid.data.extraction import extract_many
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.tracks import FeatureRecipe
from densevid.video.backbones import find_backbone
from densevid.video.extract import extract, extractor_of
from densevid.video.reduction import Reduction, reduced
from helpers.made_videos import constant, make_video
from helpers.tiny_captioner import write_tiny_model
from helpers.waiting import LIMIT_SECONDS


def test_importing_loads_nothing_heavy_and_lists_what_there_is() -> None:
    heavy = "[name for name in ('torch', 'av', 'numpy') if name in sys.modules]"
    code = f"import sys, densevid; print({heavy}, 'load' in dir(densevid), 'caption' in dir(densevid))"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
    )
    assert shown.stdout.strip() == "[] True True"


def test_from_python(clip: Path) -> None:
    events = densevid.caption(clip)
    assert events and all(isinstance(event, densevid.Event) for event in events)
    model = densevid.load()
    assert model.caption(str(clip)) == events == densevid.load("tiny").caption(clip)
    assert len(model.caption(clip, top=1)) == 1
    (event,) = model.caption(clip, segments=[(1.0, 2.0)])
    assert (event.start, event.end) == (1.0, 2.0) and densevid.caption(clip, segments=[(1.0, 2.0)]) == [event]
    track = extract(clip, backbone="appearance")
    assert model.caption(track) == events
    for video in (clip, track):
        with pytest.raises(InputError, match="before these given segments: 7-8 s"):
            model.caption(video, segments=[(1.0, 2.0), (7.0, 8.0)])
    with pytest.raises(InputError, match="no such file"):
        densevid.caption("nothing.mp4")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"top": "3"}, "top must be a whole number, got '3'"),
        ({"top": 2.5}, "top must be a whole number, got 2.5"),
        ({"top": 0}, "top must be at least 1, got 0"),
        ({"segments": [(1, 2, 3)]}, r"segments holds pairs of start and end in seconds, got \(1, 2, 3\)"),
        ({"segments": [("a", 2)]}, "segments holds pairs"),
        ({"segments": 5}, "segments must be a list of pairs"),
        ({"segments": [(2.0, 1.0)]}, "segments must satisfy 0 <= start < end, got 2, 1"),
        ({"segments": [(0.0, float("nan"))]}, "segments must satisfy"),
    ],
)
def test_arguments_that_are_none(arguments, complaint, clip: Path) -> None:
    with pytest.raises(InputError, match=f"^{complaint}"):
        densevid.load().caption(clip, **arguments)


def test_what_is_no_video_and_a_device_that_is_none() -> None:
    with pytest.raises(InputError, match="path of a video or a FeatureTrack, got NoneType"):
        densevid.caption(None)
    with pytest.raises(InputError, match="device must be one of auto, cpu, cuda, got 'gpu'"):
        densevid.load(device="gpu")


def test_numbers_of_numpy_become_plain_ones(clip: Path) -> None:
    model = densevid.load()
    (event,) = model.caption(clip, segments=np.array([[1.0, 2.5]], np.float32))
    assert (event.start, event.end) == (1.0, 2.5) and type(event.start) is float
    assert model.caption(clip, top=np.int64(1)) == model.caption(clip, top=1)


def test_what_could_not_be_read_is_a_warning(tmp_path: Path) -> None:
    noise = [np.random.default_rng(n).integers(0, 255, (128, 192, 3)).astype("uint8") for n in range(4)]
    whole = make_video(tmp_path / "whole.mkv", constant(4.0), picture=lambda n: noise[n % 4]).read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) * 6 // 10])
    for caption in (densevid.caption, densevid.load().caption):
        with pytest.warns(UserWarning, match=r"^cut\.mkv: .*could not be read") as warned:
            assert caption(tmp_path / "cut.mkv")
        assert warned[0].filename == __file__


CURVE = 'names = ["%s"]\nweights = [1.0]\nbias = 0.0\n'
CONDITIONS = f"[proposal]\n{CURVE % 'logit'}[event]\n{CURVE % 'confidence'}[happening]\n{CURVE % 'happening'}"


@pytest.mark.parametrize(
    ("curves", "wrong"),
    [("", "calibration.toml: a curve needs names"), (CONDITIONS, "the model's calibration uses actionness")],
)
def test_a_wrong_calibration_names_the_model_before_any_video(
    curves: str, wrong: str, clip: Path, models: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    shutil.copytree(models / "tiny", tmp_path / "model")
    (tmp_path / "model" / "calibration.toml").write_text(f"[format]\nversion = 1\n{curves}")
    monkeypatch.setattr("densevid.video.extract.Extractor.extract", None)
    two = [str(shutil.copy(clip, tmp_path / name)) for name in ("a.mp4", "b.mp4")]
    assert main(["caption", *two, "--model", str(tmp_path / "model"), "--no-cache"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"densevid: {tmp_path / 'model'}: {wrong}") and complaint.count("\n") == 1
    with pytest.raises(InputError, match=wrong):
        densevid.load(tmp_path / "model")


def test_a_model_that_does_not_say_its_format(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "tiny", tmp_path / "model")
    config = tmp_path / "model" / "config.toml"
    config.write_text(config.read_text().replace("[format]\nversion = 1\n", ""))
    with pytest.raises(InputError, match=r"config\.toml: has no format version"):
        densevid.load(tmp_path / "model")


def test_a_model_of_a_run_is_called_as_the_run(models: Path, tmp_path: Path) -> None:
    names = {"runs/mine/model": "mine", "runs/mine/model-last": "mine/model-last", "other": "other"}
    for folder, name in names.items():
        shutil.copytree(models / "tiny", tmp_path / folder)
        assert densevid.load(tmp_path / folder).model.name == name


def test_a_track_of_another_recipe_is_refused(clip: Path) -> None:
    with pytest.raises(InputError, match="made with recipe appearance-"):
        densevid.load().caption(extract(clip, backbone="appearance", seconds_per_step=1.0))


def test_models_are_listed_with_their_scores(models: Path, tmp_path, monkeypatch, capsys) -> None:
    shutil.copytree(models / "tiny", tmp_path / "other")
    scores = {"val clips": {"METEOR": 24.125, "CIDEr": 31, "note": "text is left out"}, "by": "us"}
    (tmp_path / "other" / "scores.json").write_text(json.dumps(scores))
    (tmp_path / "other" / "README.md").write_text("# A model\n\n**Licence:** Apache-2.0, data CC BY 4.0\n")
    (tmp_path / "DEFAULT").write_text("tiny\n")
    monkeypatch.setenv("DENSEVID_MODELS", f"{tmp_path}:{models}")
    assert main(["models"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("tiny (default), 0.") and shown[0].endswith(" MB")
    first = next(row for row, line in enumerate(shown) if line.startswith("other, 0."))
    assert shown[first + 1 : first + 4] == [
        "  val clips: METEOR 24.12, CIDEr 31",
        "  licence: Apache-2.0, data CC BY 4.0",
        f"  {tmp_path / 'other'}",
    ]


def test_one_bad_file_of_scores_costs_nobody_the_list(models: Path, tmp_path, monkeypatch, capsys) -> None:
    for name in ("a", "b"):
        shutil.copytree(models / "tiny", tmp_path / name)
    (tmp_path / "a" / "scores.json").write_text("{")
    monkeypatch.setenv("DENSEVID_MODELS", str(tmp_path))
    assert main(["models"]) == 0
    shown = capsys.readouterr()
    assert f"\n  scores: {tmp_path / 'a' / 'scores.json'}: not valid JSON" in shown.out and "\nb, 0." in shown.out
    assert shown.err == ""


def test_folders_without_a_model_in_the_model_path_are_named(models: Path, tmp_path, monkeypatch, capsys) -> None:
    shutil.copytree(models / "tiny", tmp_path / "run" / "model")
    (tmp_path / "void").mkdir()
    places = [tmp_path / "run" / "model", tmp_path / "nowhere", tmp_path / "void"]
    monkeypatch.setenv("DENSEVID_MODELS", ":".join(map(str, places)))
    assert main(["models"]) == 0
    shown = capsys.readouterr()
    assert "run, 0." in shown.out and densevid.load("run").model.folder == tmp_path / "run" / "model"
    assert shown.err.splitlines() == [
        f"densevid: DENSEVID_MODELS names {place}, which holds no model" for place in places[1:]
    ]


def test_a_folder_that_is_no_model_hides_no_installed_one(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    assert densevid.load("tiny").model.folder != Path("tiny")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="other: not a model folder"):
        densevid.load("other")


def test_the_list_needs_no_torch(models: Path) -> None:
    code = "import sys, densevid.cli as c; c.main(['models']); print('torch' in sys.modules, 'numpy' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
    )
    assert shown.stdout.splitlines()[-1] == "False False"


def test_an_extractor_follows_the_recipe_of_a_model(clip: Path) -> None:
    backbone = find_backbone("appearance")
    reduction, _ = Reduction.fit([extract(clip, backbone="appearance")], 5)
    wanted = reduction.recipe(backbone.recipe(0.25))
    track, _ = extractor_of(wanted, reduction).extract(clip)
    assert track.recipe == wanted.id and track.streams == (("appearance", 5),)
    assert track.clock.seconds_per_step == pytest.approx(0.25, abs=0.01)
    with pytest.raises(InputError, match=r"has no reduction\.safetensors"):
        extractor_of(wanted)
    other = FeatureRecipe({**backbone.recipe(0.5).table, "weights": "sha256:0"})
    with pytest.raises(InputError, match=r"not the same: weights"):
        extractor_of(other)
    with pytest.raises(InputError, match="not made from a video here"):
        extractor_of(FeatureRecipe({"name": "resnet200"}))


def test_a_model_trained_on_a_reduced_store_captions_a_video_file(clip: Path, tmp_path: Path) -> None:
    """extract --reduce, train, caption: the model folder carries what was fitted."""
    for number in range(3):
        make_video(tmp_path / f"{number}.mp4", constant(6.0))
    videos = [str(tmp_path / f"{number}.mp4") for number in range(3)]
    extract_flags = ["--out", str(tmp_path / "store"), "--backbone", "appearance", "--workers", "1", "--reduce", "6"]
    assert main(["extract", *videos, *extract_flags]) == 0
    annotations = {
        str(n): {"duration": 6.0, "timestamps": [[0, 3], [2, 6]], "sentences": ["a dog", "a cat"]} for n in range(3)
    }
    (tmp_path / "train.json").write_text(json.dumps(annotations))
    settings = ["model.width=16", "model.hidden=16", "model.heads=2", "model.layers=1", "model.window=16"]
    settings += ["model.kernels=[4,8]", 'features.streams=["appearance"]', "features.widths=[6]"]
    settings += ["features.min_word_count=1", "training.epochs=1", "training.batch_size=3"]
    flags = [word for setting in settings for word in ("--set", setting)]
    data = ["--annotations", str(tmp_path / "train.json"), "--features", str(tmp_path / "store-6")]
    assert main(["train", "modern", *data, "--out", str(tmp_path / "run"), *flags]) == 0
    loaded = load_model(tmp_path / "run" / "model")
    assert loaded.reduction is not None and loaded.recipe == FeatureStore.open(tmp_path / "store-6").recipe
    captioner = densevid.load(tmp_path / "run" / "model")
    track, _ = captioner.extractor.extract(tmp_path / "0.mp4")
    stored = FeatureStore.open(tmp_path / "store-6").track("0")
    np.testing.assert_allclose(track.values, stored.values, atol=0.02)  # reduced before or after rounding to float16
    assert captioner.caption(tmp_path / "0.mp4", dense=True)
    for store in ("store", "store-6"):  # before and after it was reduced
        words = ["--model", str(tmp_path / "run" / "model"), "--dense", "--explain", "--format", "html,json"]
        assert main(["caption", str(tmp_path / store), *words]) == 0, store
        assert len(list((tmp_path / f"{store}-captions").glob("*.masks.png"))) == 3


def test_a_store_written_by_an_old_reduction_carries_it(clip: Path, tmp_path: Path) -> None:
    reduction, _ = Reduction.fit([extract(clip, backbone="appearance")], 5)
    reduction.save(tmp_path / "fit.safetensors")
    flags = ["--out", str(tmp_path / "store"), "--backbone", "appearance", "--workers", "1"]
    assert main(["extract", str(clip), *flags, "--reduction", str(tmp_path / "fit.safetensors")]) == 0
    assert FeatureStore.open(tmp_path / "store").reduction.table == reduction.table
    extract_many([clip], tmp_path / "full", backbone="appearance", workers=1)
    assert FeatureStore.open(tmp_path / "full").reduction is None


def test_a_reduced_model_of_our_own(clip: Path, tmp_path: Path) -> None:
    reduction, _ = Reduction.fit([extract(clip, backbone="appearance")], 5)
    folder = write_tiny_model(tmp_path / "model", "appearance", reduction)
    backbone = reduced(find_backbone("appearance"), load_model(folder).reduction)
    model = densevid.load(folder)
    assert model.caption(clip) == model.caption(extract(clip, backbone=backbone))
    unreduced = extract(clip, backbone="appearance")
    events = model.caption(unreduced)
    assert [event.sentence for event in events] == [event.sentence for event in model.caption(clip)]
    assert len(model.caption(unreduced, segments=[(1, 2)])) == 1
    with pytest.raises(InputError, match="made with recipe appearance-"):
        model.caption(extract(clip, backbone="appearance", seconds_per_step=1.0))
