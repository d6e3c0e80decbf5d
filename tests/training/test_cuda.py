"""Training on a GPU: bfloat16, resident features, lagging losses, resuming. Skipped where there is none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from densevid.cli import main
from densevid.config import TrainingConfig
from densevid.model.attention import KeysValues, MultiHeadAttention
from densevid.training.logging import read_metrics
from densevid.training.optim import optimizer_for, step_if_finite
from helpers.clip_collections import write_collection
from helpers.tiny_run import settings, train_here, weights, words, write_tiny_data

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("resident", ["true", "false"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_gpu_learns_what_a_cpu_learns(data: Path, tmp_path: Path, precision: str, resident: str) -> None:
    chosen = settings(
        "training.epochs=6", f'training.precision="{precision}"', f"training.features_on_device={resident}"
    )
    for device in ("cpu", "cuda"):
        assert train_here(data, tmp_path / device, *chosen, "--device", device, "--workers", "1") == 0
    cpu, cuda = (read_metrics(tmp_path / device / "metrics.csv") for device in ("cpu", "cuda"))
    assert [row["step"] for row in cpu] == [row["step"] for row in cuda]
    for ours, theirs in zip(cuda, cpu, strict=True):
        assert float(ours["total"]) == pytest.approx(float(theirs["total"]), rel=0.05)


def test_a_gpu_composes_timelines_as_a_cpu_does(tmp_path: Path) -> None:
    """There clips lie on the device, and loading processes send rows."""
    clips = write_collection(tmp_path / "clips", clips=300)
    chosen = settings(
        *("model.width=16", "model.hidden=16", "model.heads=2", "model.layers=1", "model.kernels=[5,20]"),
        *("model.dropout=0.0", "model.input_dropout=0.0", 'features.streams=["clip"]', "features.widths=[16]"),
        *("features.min_word_count=1", "training.timelines=24", "training.batch_size=6", "training.clips_per_batch=4"),
        *("training.epochs=2", "training.warmup_steps=1", 'training.precision="float32"'),
    )
    command = ["train", "timelines", "--timelines", str(clips), "--split", "train", *chosen, "--workers", "1"]
    for device in ("cpu", "cuda"):
        assert main([*command, "--device", device, "--out", str(tmp_path / device)]) == 0
    cpu, cuda = (read_metrics(tmp_path / device / "metrics.csv") for device in ("cpu", "cuda"))
    for ours, theirs in zip(cuda, cpu, strict=True):
        assert float(ours["total"]) == pytest.approx(float(theirs["total"]), rel=0.02)


def test_it_goes_on_where_it_stopped(data: Path, tmp_path: Path) -> None:
    chosen = settings("model.dropout=0.2", "training.ema=0.9", "training.checkpoint_every=2")
    assert train_here(data, tmp_path / "one", *chosen, "--device", "cuda") == 0
    assert train_here(data, tmp_path / "two", *chosen, "--device", "cuda", "--limit-steps", "5") == 0
    assert train_here(data, tmp_path / "two", *chosen, "--device", "cuda", "--resume") == 0
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=1e-3, rtol=1e-2)


def test_a_bad_step_is_found_a_few_steps_later(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explode = settings("training.learning_rate=1e30", 'training.optimizer="sgd"', "training.epochs=20")
    assert main(words(data, tmp_path / "run", *explode, "--device", "cuda", validate=False)) == 2
    assert "is not finite, with the videos generated_0_" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_a_broken_gradient_is_skipped_without_waiting(kind: str) -> None:
    model = torch.nn.Linear(3, 4, device="cuda")
    optimizer = optimizer_for(model, TrainingConfig(optimizer=kind))  # type: ignore[arg-type]
    assert all(group["fused"] for group in optimizer.param_groups)
    before, seen = model.bias.detach().clone(), []
    torch.cuda.set_sync_debug_mode("error")
    try:
        for value in (torch.nan, torch.inf, 1.0):
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, value)
            step_if_finite(optimizer, torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
            seen.append(model.bias.detach().clone())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(seen[0], before) and torch.equal(seen[1], before)
    assert seen[2].isfinite().all() and not torch.equal(seen[2], before)


def test_gradients_through_a_mask_are_finite_where_every_step_is_unlikely() -> None:
    """64 steps of which each has a logit near -120: cuDNN's backward gives NaN for the queries."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(64, 1, 0.0, released=False).cuda()
    queries = torch.nn.Parameter(0.1 * torch.randn(1, 64, 64, device="cuda"))
    keys = 0.1 * torch.randn(1, 1, 64, 64, device="cuda")
    keys[..., 0] = -120 * math.sqrt(64)
    with torch.no_grad():
        queries[..., 0] = 1
        attention.query.weight.copy_(torch.eye(64))
    memory = KeysValues(keys.bfloat16(), torch.randn(1, 1, 64, 64, device="cuda").bfloat16())
    with torch.autocast("cuda", torch.bfloat16):
        attended = attention(queries, memory, torch.ones(1, 1, 64, 64, dtype=torch.bool, device="cuda").tril())
    attended.float().square().sum().backward()
    assert queries.grad is not None and queries.grad.isfinite().all()
