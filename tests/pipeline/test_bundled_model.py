"""The model inside the package: it is the default, names its origin, and finds no event in black frames."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

import densevid
from densevid.cli import main
from densevid.pipeline.model_registry import find_model, installed_models
from research.bundled_model.no_event_videos import write_no_event_videos

MOST_BYTES = 16_000_000


@pytest.fixture(autouse=True)
def only_the_package(only_the_test_model: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DENSEVID_MODELS")


def test_the_bundled_model_is_the_default_with_scores_a_licence_and_limits() -> None:
    model = find_model()
    assert model == installed_models()[0] and model.folder.parent == Path(str(files("densevid"))) / "pretrained"
    assert model.licence and "Apache-2.0" in model.licence
    assert {"METEOR", "CIDEr"} <= set(model.scores["MSR-VTT val, single clips"])
    card = (model.folder / "README.md").read_text()
    for part in ("## Data", "## Recipe", "## Scores", "## Limits", "research.bundled_model"):
        assert part in card


def test_no_file_of_it_is_larger_than_agreed() -> None:
    sizes = {file.name: file.stat().st_size for file in find_model().folder.iterdir()}
    assert {"weights.safetensors", "config.toml", "vocabulary.txt", "features.toml"} <= set(sizes)
    assert max(sizes.values()) <= MOST_BYTES


def test_the_bundled_model_finds_no_event_in_black_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (black,) = write_no_event_videos(tmp_path, [tmp_path], 1, 7, 6.0, kinds=("black",))
    assert densevid.caption(black.file) == []
    assert main(["caption", str(black.file)]) == 0
    assert "nothing in it that the model is confident about" in capsys.readouterr().out
    assert densevid.load().caption(black.file, top=1), "unless its best guess is wanted"
