"""A tiny dataset on disk, and `densevid train` on it: in this process, or in others that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from densevid.cli import main
from densevid.config import Config
from densevid.data.store.reader import FeatureStore
from examples.learn_generated_videos import RECIPE, SMALL, WIDTHS, generate
from helpers.waiting import LIMIT_SECONDS

TINY: Config = SMALL.with_values(
    {
        "model": {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "kernels": [6, 9, 14]},
        "features": {"min_word_count": 1},
        "training": {"epochs": 2, "batch_size": 6, "learning_rate": 1e-3},
    }
)


def write_data(folder: Path, name: str, seed: int, videos: int) -> None:
    """`name`.json and a store `name` beside it."""
    tracks, truth = generate(seed, videos)
    store = FeatureStore.create(folder / name, WIDTHS, recipe=RECIPE)
    with store.writer(commit_every=64) as writer:
        for video, track in tracks.items():
            writer.add(video, track)
    content = {
        video: {
            "duration": 24.0,
            "timestamps": [[event.start, event.end] for event in events],
            "sentences": [event.sentence for event in events],
        }
        for video, events in truth.items()
    }
    (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def write_tiny_data(folder: Path) -> Path:
    """Training and validation data and the settings `tiny.toml`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder, "train", 0, 8)
    write_data(folder, "val", 1, 3)
    TINY.save(folder / "tiny.toml")
    return folder


def words(data: Path, out: Path, *more: str, validate: bool = True) -> list[str]:
    """The command line of a training run."""
    files = ["--annotations", str(data / "train.json"), "--features", str(data / "train")]
    if validate:
        files += ["--validation", str(data / "val.json"), "--validation-features", str(data / "val")]
    return ["train", str(data / "tiny.toml"), *files, "--out", str(out), *more]


def settings(*assignments: str) -> list[str]:
    return [word for assignment in assignments for word in ("--set", assignment)]


def train_here(data: Path, out: Path, *more: str, validate: bool = True) -> int:
    """Train in this process."""
    torch.set_num_threads(1)
    return main(words(data, out, *more, validate=validate))


def start(command: list[str], ranks: int = 1) -> subprocess.Popen[str]:
    """Train in a process group of its own, by `torchrun` if there is more than one rank."""
    launcher = [sys.executable, "-m"]
    if ranks > 1:
        launcher += ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"]
    return subprocess.Popen(
        [*launcher, "densevid", *command],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for the end of a training run, which must succeed."""
    _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 0, errors


def weights(run: Path, name: str = "model-last") -> dict[str, torch.Tensor]:
    return load_file(run / name / "weights.safetensors")


def assert_same_weights(one: Path, other: Path, name: str = "model-last") -> None:
    ours, theirs = weights(one, name), weights(other, name)
    assert ours.keys() == theirs.keys()
    different = [key for key in ours if not torch.equal(ours[key], theirs[key])]
    assert not different, f"{len(different)} of {len(ours)} tensors differ, such as {different[0]}"
