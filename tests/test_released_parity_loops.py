"""The two commands against plain loops of the release's inference, on models and videos of every odd kind."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from densevid.cli import main
from helpers.released_weights import released_weights
from reference.released_reference import ReleasedEvent, ReleasedReference, Settings

FRAME_RATES = (25, 29.97, 30)
CAPTIONED = 5  # sentences to compare for each video; generating them in loops is slow


@dataclass(frozen=True)
class Case:
    """A model, the lengths of its videos, and the forms its files come in."""

    settings: Settings
    lengths: tuple[int, ...]
    preset: str = "activitynet"
    seconds_per_step: float | None = 0.5
    words_as: str = "txt"
    legacy: bool = False
    split: str = ""
    precision: str = "float32"


CASES = {
    "one layer, a legacy file, words in JSON, half precision": Case(
        Settings(layers=1), (40, 17, 1, 55), words_as="json", legacy=True, split="validation", precision="float16"
    ),
    "three layers, discrete, other heads and kernels": Case(
        Settings(
            width=48, heads=3, layers=3, window=64, kernels=(1, 3, 4, 16, 33, 64), stride_factor=10, mask="discrete"
        ),
        (64, 30, 90),
        seconds_per_step=0.37,
    ),
    "learned mask, videos shorter than every kernel": Case(
        Settings(width=36, heads=9, window=50, kernels=(4, 8, 21), stride_factor=50, mask="learned"), (50, 9, 3)
    ),
    "discrete, videos shorter than every kernel": Case(
        Settings(kernels=(4, 9), mask="discrete"), (40, 3), seconds_per_step=1.3
    ),
    "youcook2's formula, a width of 4 x 7": Case(
        Settings(width=28, heads=1, window=33, kernels=(1, 4, 9, 20)), (33, 20, 12), "youcook2", None
    ),
    "activitynet's formula, many over the threshold": Case(
        Settings(
            width=40, heads=5, window=45, kernels=(1, 4, 20, 41), stride_factor=7, mask="discrete", score_bias=3.0
        ),
        (45, 20, 70),
        seconds_per_step=None,
    ),
    "nothing over the threshold": Case(Settings(score_bias=-4.0), (40, 20), seconds_per_step=1.3),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_commands_say_what_the_loops_say(case: Case, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    weights = released_weights(case.settings, seed=1)
    model = imported(case, weights, tmp_path)
    tracks, flags = saved_features(case, tmp_path)
    out = tmp_path / "predictions.json"
    features = ["--features", str(tmp_path / "features"), "--device", "cpu"]
    assert main(["predict", "--model", str(model), *features, *flags, "--out", str(out)]) == 0
    results = json.loads(out.read_text())["results"]
    reference = ReleasedReference(weights, case.settings)
    assert list(results) == sorted(tracks)
    for video, (resnet, bn, seconds) in tracks.items():
        same(results[video], reference.events(resnet, bn, seconds, CAPTIONED), seconds)


def imported(case: Case, weights: dict[str, torch.Tensor], folder: Path) -> Path:
    path, words = folder / ("weights.t7" if case.legacy else "weights.pth"), folder / f"words.{case.words_as}"
    torch.save(weights, path, _use_new_zipfile_serialization=not case.legacy)
    lines = "\r\n".join(case.settings.words) + "\r\n\r\n"
    words.write_bytes(json.dumps(case.settings.words).encode() if case.words_as == "json" else lines.encode())
    command = ["import-released", str(path), "--vocabulary", str(words), "--preset", case.preset]
    assert main([*command, *case.settings.flags(), "--out", str(folder / "model")]) == 0
    return folder / "model"


def saved_features(case: Case, folder: Path) -> tuple[dict[str, tuple[np.ndarray, np.ndarray, float]], list[str]]:
    """Features in the release's layout, each video's seconds per step by hand, and the flags that give the same."""
    random = np.random.default_rng(1)
    (folder / "features" / case.split).mkdir(parents=True)
    tracks, rows = {}, []
    for index, length in enumerate(case.lengths):
        video = f"v_x{index}"
        arrays = [random.normal(size=(length, width)).astype(case.precision) for width in case.settings.stream_widths]
        for name, values in zip(("resnet", "bn"), arrays, strict=True):
            np.save(folder / "features" / case.split / f"{video}_{name}.npy", values)
        seconds = case.seconds_per_step or 0.5
        if case.seconds_per_step is None and index != 1:  # the second video is missing in the file, which means .5
            duration = round(length * 0.5 + random.uniform(1, 2), 2)
            frames = int(duration * FRAME_RATES[index % 3])
            rows.append(f"{video},{duration},{frames}")
            every = (
                int(frames / int(duration) * 0.5)
                if case.preset == "activitynet"
                else math.ceil(frames / duration * 0.5)
            )
            seconds = duration * every / frames
        tracks[video] = (arrays[0], arrays[1], seconds)
    if not rows:
        return tracks, ["--seconds-per-step", str(case.seconds_per_step)]
    (folder / "durations.csv").write_text("\n".join(rows) + "\n")
    return tracks, ["--durations", str(folder / "durations.csv")]


def same(ours: list[dict[str, Any]], theirs: list[ReleasedEvent], seconds: float) -> None:
    assert len(ours) == len(theirs)
    for row, wanted in zip(ours, theirs, strict=True):
        assert row["timestamp"] == [wanted.start * seconds, wanted.end * seconds]
        assert row["proposal_score"] == pytest.approx(wanted.score, abs=1e-5)
        assert wanted.sentence is None or row["sentence"] == wanted.sentence or wanted.margin < 1e-4
