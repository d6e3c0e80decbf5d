"""A model folder of an old version gives the events of its day; one of a newer format is refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import densevid
from densevid.checkpoint import load_model
from densevid.cli import main
from densevid.errors import InputError
from densevid.inference.captioner import Captioner
from densevid.tracks import Clock, FeatureTrack
from helpers.made_videos import constant, make_video

FROZEN = Path(__file__).parent / "frozen_models"


def reduced_track(expected: dict) -> FeatureTrack:
    loaded = load_model(FROZEN / "format-1")
    values = np.array(expected["full_features_of_step_0_to_39"], np.float32)
    full = FeatureTrack(values, Clock.uniform(0.5), (("appearance", 12), ("motion", 10)), None, 20.0)
    return loaded.reduction.apply_to_track(full, loaded.recipe)


def test_format_1_gives_the_events_of_its_day() -> None:
    expected = json.loads((FROZEN / "format-1-expected.json").read_text())
    found = Captioner.open(FROZEN / "format-1").caption(reduced_track(expected))
    assert [event.sentence for event in found] == [row[2] for row in expected["events"]]
    numbers = [(event.start, event.end, event.score) for event in found]
    wanted = [(start, end, score) for start, end, _, score in expected["events"]]
    np.testing.assert_allclose(numbers, wanted, rtol=1e-4, atol=1e-4)


def test_load_takes_a_folder_and_captions_a_track() -> None:
    expected = json.loads((FROZEN / "format-1-expected.json").read_text())
    events = densevid.load(FROZEN / "format-1").caption(reduced_track(expected), dense=True)
    assert {event.sentence for event in events} == {row[2] for row in expected["events"]}
    assert events == sorted(events, key=lambda event: event.start)


@pytest.mark.parametrize("file", ["reduction.safetensors", "features.toml"])
def test_what_is_optional_may_be_missing(file: str, tmp_path: Path) -> None:
    """Models from before reductions were carried have none, and those from others no recipe."""
    shutil.copytree(FROZEN / "format-1", tmp_path / "model")
    (tmp_path / "model" / file).unlink()
    assert load_model(tmp_path / "model").reduction is None


def test_another_reduction_than_the_recipe_names_is_refused(tmp_path: Path) -> None:
    shutil.copytree(FROZEN / "format-1", tmp_path / "model")
    content = bytearray((tmp_path / "model" / "reduction.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "model" / "reduction.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"another reduction than features\.toml"):
        load_model(tmp_path / "model")


def test_a_newer_format_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(FROZEN / "format-1", tmp_path / "model")
    config = tmp_path / "model" / "config.toml"
    config.write_text(config.read_text().replace("version = 1", "version = 2"))
    make_video(tmp_path / "video.mp4", constant(1.0, 10.0), size=(64, 48))
    assert main(["caption", str(tmp_path / "video.mp4"), "--model", str(tmp_path / "model")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "model format 2" in error and "a newer one may read it" in error


def test_weights_of_half_precision_load_as_well(tmp_path: Path) -> None:
    """As the bundled model is shipped."""
    shutil.copytree(FROZEN / "format-1", tmp_path / "model")
    path = tmp_path / "model" / "weights.safetensors"
    whole = load_file(path)
    save_file({name: t.half() if t.is_floating_point() else t for name, t in whole.items()}, path)
    loaded = load_model(tmp_path / "model").model.state_dict()
    for name, tensor in loaded.items():
        assert tensor.dtype == whole[name].dtype
        torch.testing.assert_close(tensor, whole[name], rtol=1e-3, atol=1e-4)
