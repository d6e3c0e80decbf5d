"""A cache and a model of its own for every test that captions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from helpers.made_videos import constant, make_video
from helpers.tiny_captioner import write_tiny_model


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models that holds `tiny`."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("models")
    write_tiny_model(folder / "tiny")
    (folder / "DEFAULT").write_text("tiny")
    return folder


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six seconds with sound."""
    return make_video(tmp_path_factory.mktemp("clips") / "clip.mp4", constant(6.0), sound_from=0.0)


@pytest.fixture
def video(clip: Path, tmp_path: Path) -> Path:
    """The same where a test may write beside it."""
    return Path(shutil.copy(clip, tmp_path / "clip.mp4"))


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where networks are kept between tests, so that each is made once."""
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(autouse=True)
def only_the_test_model(models: Path, networks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only our own model is installed, and the user's cache is left alone."""
    monkeypatch.setenv("DENSEVID_MODELS", str(models))
    monkeypatch.setenv("DENSEVID_CACHE", str(networks))


@pytest.fixture
def fresh_cache(tmp_path: Path, networks: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing but the networks in it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for network in networks.glob("*.onnx"):
        (cache / network.name).symlink_to(network)
    monkeypatch.setenv("DENSEVID_CACHE", str(cache))
    return cache
