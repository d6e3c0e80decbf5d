"""`densevid bench inference` runs, and its comparison with the plain version finds the same events and sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.inference_runs import dense_flop
from benchmarks.inference_workload import Workload, generated_store, random_model
from densevid.checkpoint import save_model
from densevid.cli import main
from densevid.config import load_config
from densevid.data.layouts import open_features
from densevid.data.store.reader import FeatureStore
from densevid.model.masked_transformer import MaskedTransformer
from densevid.tracks import Clock, FeatureTrack


@pytest.fixture(autouse=True)
def one_thread() -> object:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


WAYS = ("single", "together", "best 10, single", "best 10, together")


@pytest.mark.parametrize("masks", [("gated", "discrete"), ("discrete",)], ids=str)
def test_both_versions_find_the_same(
    masks: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --mask, the gated and the discrete one; a figure for every variant, with its agreement."""
    figures = tmp_path / "figures.json"
    flags = ["--quick", "--device", "cpu", "--videos", "3", "--plain-videos", "2", "--json", str(figures)]
    assert main(["bench", "inference", *flags, *(["--mask", *masks] if len(masks) == 1 else [])]) == 0
    found = json.loads(figures.read_text())["figures"]
    names = ["plain dense float32, single", *(f"float32, {way}" for way in WAYS)]
    assert [(figure["mask"], figure["name"]) for figure in found] == [(mask, name) for mask in masks for name in names]
    for figure in found:
        assert figure["milliseconds"] > 0 and figure["captions_per_second"] > 0 and figure["teraflops"] > 0
        if not figure["name"].startswith("plain"):
            assert figure["same_intervals"] == figure["same_sentences"] == 1 and figure["times_plain"] > 0
    assert capsys.readouterr().out.count("captions/s") == len(found)


def test_a_coarser_precision_is_held_to_the_plain_version(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    flags = ["--quick", "--device", "cpu", "--mask", "gated", "--precision", "bfloat16", "--json", str(figures)]
    assert main(["bench", "inference", *flags]) == 0
    for figure in json.loads(figures.read_text())["figures"][1:]:
        assert figure["name"].startswith("bfloat16") and figure["same_intervals"] == 1
        assert 0 < figure["same_sentences"] <= 1


def test_a_trained_model_with_a_beam_is_compared_on_all_its_videos(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = random_model(Workload(3, 5, 48, 4, "gated", quick=True))
    loaded = replace(
        made,
        config=made.config.with_settings(
            ["inference.beam=3", "inference.border_reach=0.25", "inference.border_weight=0.4"]
        ),
    )
    save_model(tmp_path / "model", loaded, {})
    files = ["--model", str(tmp_path / "model"), "--features", str(generated_store(tmp_path, loaded.config, 3))]
    flags = [*files, "--device", "cpu", "--videos", "3", "--json", str(tmp_path / "figures.json")]
    assert main(["bench", "inference", *flags]) == 0
    plain, single, together, *_ = json.loads((tmp_path / "figures.json").read_text())["figures"]
    for figure in (single, together):
        assert figure["same_intervals"] == figure["same_sentences"] == 1
        of_time = plain["milliseconds"] / figure["milliseconds"]
        assert figure["times_plain"] == pytest.approx(of_time)
        assert figure["teraflops"] / plain["teraflops"] == pytest.approx(of_time)  # the same videos


def test_a_store_becomes_a_predictions_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "inference", "--quick", "--device", "cpu", "--store-run", "3"]) == 0
    assert "3 videos, 36 events" in capsys.readouterr().out


def test_features_without_their_model_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "inference", "--features", str(tmp_path)]) == 2
    assert "--features needs the --model" in capsys.readouterr().err


def test_generated_videos_are_as_long_as_activitynets(tmp_path: Path) -> None:
    config = random_model(Workload(1, 5, 48, 4, "discrete", quick=True)).config
    source = open_features(generated_store(tmp_path, config, 40))
    steps = np.array([source.extent(video).steps for video in source.videos()])
    assert len(steps) == 40 and 40 <= steps.min() < steps.max() <= 470


def test_the_papers_arithmetic_is_about_four_teraflop() -> None:
    assert 3.5e12 < dense_flop(load_config("activitynet"), 480, 186) < 4.7e12


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--videos", "-3"], "--videos must be at least 1, got -3"),
        (["--plain-videos", "0"], "--plain-videos must be at least 1, got 0"),
        (["--top", "0"], "--top must be at least 1, got 0"),
        (["--rounds", "-1"], "--rounds must be at least 1, got -1"),
        (["--at-once", "0"], "--at-once must be at least 1, got 0"),
        (["--threads", "0"], "--threads must be at least 1, got 0"),
        (["--store-run", "0"], "--store-run must be at least 1, got 0"),
        (["--store-run", "3", "--model", "somewhere"], "--store-run makes its own model"),
        (["--stages", "--json", "figures.json"], "--json writes the comparison with the plain version"),
    ],
    ids=str,
)
def test_flags_that_cannot_be_followed_are_refused(
    flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "inference", "--quick", "--device", "cpu", *flags]) == 2
    assert complaint in capsys.readouterr().err


def saved(folder: Path, *settings: str) -> list[str]:
    made = random_model(Workload(3, 5, 48, 4, "gated", quick=True))
    config = made.config.with_settings(settings)
    model = MaskedTransformer(config, len(made.vocabulary))
    save_model(folder / "model", replace(made, config=config, model=model), {})
    return ["bench", "inference", "--device", "cpu", "--model", str(folder / "model")]


def stored(folder: Path, width: int, *lengths: int) -> list[str]:
    streams = (("resnet", width),)
    with FeatureStore.create(folder / "store", streams).writer() as writer:
        for number, steps in enumerate(lengths):
            values = np.random.default_rng(number).standard_normal((steps, width), dtype=np.float32)
            writer.add(f"v{number}", FeatureTrack(values, Clock.uniform(0.5), streams))
    return ["--features", str(folder / "store"), "--videos", "9", "--json", str(folder / "figures.json")]


def test_a_video_without_proposals_is_one_event_for_both(tmp_path: Path) -> None:
    command = saved(tmp_path, "inference.min_proposals=0") + stored(tmp_path, 32, 1, 2, 30)
    assert main(command) == 0
    plain, *ours = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert plain["captions_per_second"] > 0
    assert all(figure["same_intervals"] == figure["same_sentences"] == 1 for figure in ours)


def test_features_of_another_width_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(saved(tmp_path) + stored(tmp_path, 7, 20)) == 2
    assert "the features are resnet 7, the model reads resnet 32" in capsys.readouterr().err


def test_a_model_of_the_release_has_no_plain_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(saved(tmp_path, "model.compat=released")) == 2
    assert 'model.compat = "released"' in capsys.readouterr().err
