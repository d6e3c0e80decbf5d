from __future__ import annotations

import numpy as np
import pytest

from benchmarks.extract import bare_loop, compare
from benchmarks.feature_probe import accuracy
from densevid.cli import main
from densevid.video.engines import OnnxNetwork, onnx_bytes
from densevid.video.extract import extract
from densevid.video.weights import efficientnet_lite0
from helpers.made_videos import constant, make_video


def test_the_bare_loop_does_the_same_work(tmp_path) -> None:
    """Where its simpler rule (the first frame from the turn on) takes the same frame, it gives the same vectors."""
    path = make_video(tmp_path / "a.mp4", constant(3.0, 20))
    network = OnnxNetwork(onnx_bytes(efficientnet_lite0()))
    ours = extract(path, backbone="two-stream", device="cpu").values
    bare = bare_loop("two-stream", network, path)
    assert bare.shape == ours.shape == (6, 2560)
    assert np.abs(bare - ours).max() < 0.02 * np.abs(bare).max()


def test_a_comparison_has_all_its_figures(tmp_path) -> None:
    path = make_video(tmp_path / "a.mp4", constant(2.0))
    row = compare("appearance", "appearance", [path], 1)
    assert min(row.bare, row.bare_all_cores, row.ours, row.cores_busy) > 0
    assert "appearance" in str(row) and "x" in str(row)


def test_the_probe_finds_what_is_there_and_nothing_in_noise() -> None:
    random = np.random.default_rng(0)
    category = np.repeat(np.arange(4), 50)
    source = np.arange(200) // 2
    noise = random.normal(size=(200, 60))
    signal = noise.copy()
    signal[:, :4] += 3 * np.eye(4)[category]
    assert accuracy(signal, category, source, 0) > 0.7
    assert accuracy(noise, category, source, 0) < 0.4


def test_the_probe_needs_to_know_the_categories(capsys) -> None:
    assert main(["bench", "extract", "--probe", "store"]) == 2
    assert "--clips" in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_bench_runs(capsys) -> None:
    assert main(["bench", "extract", "--count", "1", "--rounds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "two-stream, 720p" in shown and "variable rate: at most 0." in shown
