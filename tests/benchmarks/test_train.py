"""The parts of `densevid bench train` that need no GPU: its batches, its feeding, its arithmetic."""

from __future__ import annotations

import pytest
import torch

from benchmarks.hardware import share_of_peak
from benchmarks.train import flop_per_sample
from benchmarks.train_feeding import VOCABULARY, FeedingRate, generated_batch, measure_feeding, print_feeding
from densevid.cli import main
from densevid.config import Config, load_config
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.objective import total_loss

SMALL = (
    "model.width=16",
    "model.hidden=32",
    "model.heads=2",
    "model.window=48",
    "model.kernels=[1, 5, 9]",
    'features.streams=["a"]',
    "features.widths=[24]",
)


@pytest.fixture(scope="module")
def small() -> Config:
    return load_config("activitynet", SMALL)


def test_a_video_can_have_several_segments(small: Config) -> None:
    batch = generated_batch(small, 3, segments=4, device="cpu")
    assert len(batch) == 12 and len(batch.videos) == 3 and batch.video_P is not None
    assert torch.equal(batch.segment_P2, batch.events_BG2[batch.video_P, batch.segment_index_P])
    assert batch.segment_P2.max() <= small.model.window
    loss, _ = total_loss(MaskedTransformer(small, VOCABULARY), batch, small)
    assert torch.isfinite(loss)


def test_every_way_of_feeding_is_measured(small: Config, capsys: pytest.CaptureFixture[str]) -> None:
    fed = measure_feeding(small, 4, 3, 1, torch.device("cpu"))
    assert [way.name for way in fed] == ["on the device already", "features on the device", "from a store, 1 processes"]
    assert all(way.samples_per_second > 0 for way in fed)
    print_feeding([FeedingRate("first", 200.0), FeedingRate("second", 150.0)], 4)
    assert "0.75 x" in capsys.readouterr().out


def test_flop_per_sample_and_share_of_peak() -> None:
    assert flop_per_sample(load_config("activitynet")) == pytest.approx(173e9, rel=0.01), "about 170 GFLOP a sample"
    assert share_of_peak(275.0, "NVIDIA H200") == pytest.approx(0.278, abs=1e-3)
    assert share_of_peak(275.0, "another") is None


@pytest.mark.parametrize(("flag", "value"), [("--batch", "1"), ("--steps", "0"), ("--workers", "-1")])
def test_impossible_sizes_are_one_line(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "train", flag, value]) == 2
    assert f"{flag} must be at least" in capsys.readouterr().err
