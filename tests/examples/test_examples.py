"""Every example runs from the repository as its docstring shows, on generated data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from densevid.checkpoint import load_model
from densevid.cli import main as densevid_main
from densevid.data.store.reader import FeatureStore
from densevid.events import Event, read_events, write_events
from examples import a_backbone_of_your_own, caption_a_folder, evaluate_a_file, train_on_your_clips
from helpers.clip_collections import write_collection
from helpers.made_videos import constant, make_video
from helpers.tiny_captioner import write_tiny_model
from helpers.waiting import LIMIT_SECONDS

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (REPOSITORY / "examples").glob("*.py") if path.name != "__init__.py")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DENSEVID_CACHE", str(tmp_path / "cache"))
    torch.set_num_threads(1)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_help_is_printed_when_run_as_a_file(path: Path) -> None:
    command = [sys.executable, f"examples/{path.name}", "--help"]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS)
    assert shown.stdout.startswith("usage: ") and len(shown.stdout) > 300


def test_a_folder_is_captioned_and_a_bad_file_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("one", "two"):
        make_video(folder / f"{name}.mp4", constant(6.0))
    (folder / "empty.mp4").touch()
    model, out = write_tiny_model(tmp_path / "model"), tmp_path / "events.json"
    words: Sequence[str] = [str(folder), "--model", str(model), "--top", "2", "--out", str(out)]
    assert caption_a_folder.main(words) == 1
    shown = capsys.readouterr()
    assert "empty.mp4: the file is empty" in shown.err and "of 2 videos" in shown.out
    events = read_events(out)
    assert set(events) == {"one", "two"} and all(1 <= len(found) <= 2 for found in events.values())


def test_a_backbone_describes_colours_and_finds_where_they_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    red, blue = (np.full((128, 192, 3), colour, np.uint8) for colour in ((200, 20, 20), (20, 20, 200)))
    video = make_video(tmp_path / "video.mp4", constant(6.0), picture=lambda n: red if n < 75 else blue)
    assert a_backbone_of_your_own.main([str(video), "--out", str(tmp_path / "store")]) == 0
    assert "12 steps x 64 float16, 6.0 s" in capsys.readouterr().out
    track = FeatureStore.open(tmp_path / "store").track("video")
    assert a_backbone_of_your_own.largest_changes(track, 1) == pytest.approx([3.0], abs=0.05)
    np.testing.assert_allclose(track.values.sum(axis=1), 1.0, atol=1e-2)


def test_a_backbone_is_found_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    video, store = make_video(tmp_path / "video.mp4", constant(2.0)), tmp_path / "store"
    name = "examples.a_backbone_of_your_own:backbone"
    assert densevid_main(["extract", str(video), "--out", str(store), "--backbone", name]) == 0
    recipe = FeatureStore.open(store).recipe
    assert recipe is not None and recipe.id == a_backbone_of_your_own.backbone.recipe(0.5).id


def test_exchanged_sentences_score_lower_at_equal_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences = {"a": "a dog runs across the garden", "b": "two people dance in a kitchen"}
    write_events(tmp_path / "events.json", {video: [Event(0, 8, text, 0.9)] for video, text in sentences.items()})
    references = {v: {"duration": 20.0, "timestamps": [[0, 8]], "sentences": [text]} for v, text in sentences.items()}
    (tmp_path / "val.json").write_text(json.dumps(references))
    words = [str(tmp_path / "events.json"), "--references", str(tmp_path / "val.json")]
    assert evaluate_a_file.main(words) == 0
    rows = {line[:12].strip(): line[12:].split() for line in capsys.readouterr().out.splitlines()}
    assert rows["AR@100"] == ["100.00", "100.00"]
    for score in ("METEOR", "SODA_c"):
        assert float(rows[score][0]) > 2 * float(rows[score][1])


def test_a_model_is_trained_on_clips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clips = write_collection(tmp_path / "clips", clips=300, splits=("train",))
    tiny = {
        "model": {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "window": 160, "kernels": [3, 7, 20]},
        "training": {"epochs": 1, "timelines": 8, "batch_size": 4, "clips_per_batch": 2, "precision": "float32"},
        "features": {"min_word_count": 1},
    }
    changes = [f"{s}.{k}={json.dumps(v)}" for s, values in tiny.items() for k, v in values.items()]
    flags = [word for change in changes for word in ("--set", change)]
    assert train_on_your_clips.main([str(clips), "--out", str(tmp_path / "run"), "--device", "cpu", *flags]) == 0
    assert "densevid caption video.mp4 --model" in capsys.readouterr().out
    assert load_model(tmp_path / "run" / "model").config.features.widths == (16,)
