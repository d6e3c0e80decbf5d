"""Two processes that share a batch compute what one process computes with all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn

from densevid.cli import main
from densevid.training.distributed import (
    SynchronisedBatchNorm,
    gather,
    leave_at_once,
    mean_over_ranks,
    share_of_count,
    with_synchronised_norms,
)
from densevid.training.logging import read_metrics
from helpers.clip_collections import write_collection
from helpers.tiny_run import finish, settings, start, train_here, weights, words, write_tiny_data


def rows_of(rank: int | None) -> torch.Tensor:
    """Five rows of B x D x A, or this rank's uneven share of them: three and two."""
    every = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(1)) * 3 + 1
    return every if rank is None else (every[:3], every[3:])[rank]


def loss_of(norm: nn.Module, values: torch.Tensor, rank: int | None) -> torch.Tensor:
    target = torch.linspace(-1, 1, 60).view(5, 3, 4)
    own = target if rank is None else (target[:3], target[3:])[rank]
    return (norm(values) - own).square().sum()


def check_one_rank(rank: int, meeting: str) -> None:
    """Runs in a process of its own."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    try:
        whole, part = rows_of(None).requires_grad_(), rows_of(rank).requires_grad_()
        plain, box = nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm1d(3))
        with_synchronised_norms(box, torch.device("cpu"))
        (ours,) = box
        assert isinstance(ours, SynchronisedBatchNorm)
        loss_of(plain, whole, None).backward()
        loss_of(ours, part, rank).backward()
        want = (whole.grad[:3], whole.grad[3:])[rank]  # type: ignore[index]
        torch.testing.assert_close(part.grad, want, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(ours.state_dict(), plain.state_dict(), atol=1e-5, rtol=1e-5)
        gain = ours.weight.grad.clone()
        dist.all_reduce(gain)
        torch.testing.assert_close(gain, plain.weight.grad, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(ours.eval()(part), plain.eval()(part), atol=1e-5, rtol=1e-5)

        assert float(share_of_count(torch.tensor(3 + rank))) == 3.5
        assert float(share_of_count(torch.tensor(0))) == 0.5, "nothing anywhere: divide by 1, then average"
        assert mean_over_ranks(torch.tensor([1.0 + rank, 4.0])).tolist() == [1.5, 4.0]
        assert gather({"rank": rank}) == [{"rank": 0}, {"rank": 1}]
    finally:
        dist.destroy_process_group()
    leave_at_once()


def test_norms_counts_and_means_are_those_of_all_ranks(tmp_path: Path) -> None:
    processes.spawn(check_one_rank, args=(str(tmp_path / "meeting"),), nprocs=2)


def test_leave_at_once_flushes_output_and_runs_no_exit_handler() -> None:
    """Output is flushed, and nothing runs that could still fail."""
    code = "import atexit\nfrom densevid.training.distributed import leave_at_once\natexit.register(print, 'farewell')"
    left = subprocess.run(
        [sys.executable, "-c", f"{code}; print('done', end=''); leave_at_once()"], capture_output=True, text=True
    )
    assert (left.returncode, left.stdout) == (0, "done")


def test_alone_they_are_torchs_own() -> None:
    norm, plain = SynchronisedBatchNorm(3), nn.BatchNorm1d(3)
    torch.testing.assert_close(norm(rows_of(None)), plain(rows_of(None)))
    assert float(share_of_count(torch.tensor(0))) == 1 and gather(5) == [5]


def test_the_result_does_not_depend_on_the_number_of_ranks(tmp_path: Path) -> None:
    """End to end, gated mask, uneven last batches, two segments a video, without dropout."""
    data = write_tiny_data(tmp_path / "data")
    recipe = ['training.optimizer="sgd"', "training.learning_rate=0.05", "training.momentum=0.5"]
    chosen = settings(*recipe, "training.batch_size=5", "training.segments_per_video=2", "training.evaluate_every=2")
    process = start(words(data, tmp_path / "two", *chosen), ranks=2)
    assert train_here(data, tmp_path / "one", *chosen) == 0
    finish(process)
    one, two = (read_metrics(tmp_path / name / "metrics.csv") for name in ("one", "two"))
    assert [row["step"] for row in one] == [row["step"] for row in two]
    for ours, theirs in zip(one, two, strict=True):
        for part in ("total", "score", "offsets", "mask", "words", "gradient", "cider"):
            if ours[part]:
                assert float(ours[part]) == pytest.approx(float(theirs[part]), rel=1e-3, abs=1e-4)
    assert_near(tmp_path / "one", tmp_path / "two")


def test_timelines_do_not_depend_on_it_either(tmp_path: Path) -> None:
    """Videos of unlike lengths, clips beside them, ten drawn anchors and a gated mask, without dropout."""
    clips = write_collection(tmp_path / "clips", clips=300)
    chosen = settings(
        *("model.width=16", "model.hidden=16", "model.heads=2", "model.layers=1", "model.window=480"),
        *("model.kernels=[5,20]", "model.dropout=0.0", "model.input_dropout=0.0", 'features.streams=["clip"]'),
        *("features.widths=[16]", "features.min_word_count=1", "training.timelines=24", "training.batch_size=6"),
        *("training.clips_per_batch=4", "training.epochs=1", "training.warmup_steps=1", "training.learning_rate=0.05"),
        *('training.optimizer="sgd"', "training.momentum=0.5", "training.ema=0.0", 'training.precision="float32"'),
        *("training.label_smoothing=0.0", 'training.proposal_loss="drawn"'),
    )
    command = ["train", "timelines", "--timelines", str(clips), "--split", "train", *chosen, "--device", "cpu"]
    process = start([*command, "--out", str(tmp_path / "two")], ranks=2)
    torch.set_num_threads(1)
    assert main([*command, "--out", str(tmp_path / "one")]) == 0
    finish(process)
    assert_near(tmp_path / "one", tmp_path / "two")


def assert_near(one: Path, two: Path) -> None:
    """Weights equal up to float error."""
    mine, shared = weights(one), weights(two)
    for name, tensor in mine.items():
        torch.testing.assert_close(
            shared[name], tensor, atol=2e-4, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )
