"""docs/training.md: every command in it is understood, and those that one CPU can run are run, on tiny data."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import torch

from densevid.cli import build_parser, main
from densevid.commands import train as train_command
from densevid.config import load_config, presets
from helpers.clip_collections import write_collection
from helpers.tiny_run import TINY, write_data

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines() if not line.startswith("#")]
COMPOSED = ['features.streams=["clip"]', "features.widths=[16]"]
RUNS = {"paper", "modern", "modern-cider", "one", "clips", "mine", "words"}
COMMANDS = [shlex.split(line.partition("densevid ")[2]) for line in LINES if "densevid " in line]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_understood(command: list[str]) -> None:
    parsed = build_parser(command[0]).parse_args(command)
    if command[0] == "train" and "/" not in parsed.config:
        load_config(parsed.config, parsed.set)


def test_page_and_help_name_every_preset() -> None:
    recipes = PAGE.read_text(encoding="utf-8").partition("## Recipes")[2].partition("\n| setting")[0]
    assert train_command.__doc__ is not None
    for preset in presets():
        assert f"`{preset}`" in recipes and re.search(rf" {preset}[,.]", train_command.__doc__), preset


def test_it_shows_one_gpu_eight_and_two_machines() -> None:
    started = [line.split() for line in LINES if line.startswith("torchrun")]
    assert [("--nnodes" in words, "--nproc-per-node" in words) for words in started] == [(False, True), (True, True)]


@pytest.mark.timing
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, each training for a step or two on a tiny network; `RUN` is one of its runs."""
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    for name, seed, videos in (("train", 0, 4), ("val_1", 1, 2)):
        write_data(tmp_path, name, seed, videos)
    for name, source in {"features/training": "train", "features/validation": "val_1", "store": "train"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(tmp_path / source)
    (tmp_path / "val_store").symlink_to(tmp_path / "val_1")
    write_collection(tmp_path / "CLIPS", clips=800, splits=("train", "val"))
    for seed, name in enumerate(("coco", "flickr8k"), start=1):
        write_collection(tmp_path / "data" / name, clips=40, seed=seed, splits=("train",))
    assert main(["timelines", "CLIPS", "--split", "train", "--single", "--out", "clips"]) == 0
    (tmp_path / "STORE").symlink_to(tmp_path / "clips" / "features")
    sections = TINY.as_dict()
    kept = {"model": sections["model"], "features": sections["features"], "training": {"batch_size": 4}}
    small = [f"{s}.{k}={json.dumps(v)}" for s, entries in kept.items() for k, v in entries.items()]
    for command in COMMANDS:
        if command[0] == "train" and command[command.index("--out") + 1] not in ("runs/eight", "runs/sixteen"):
            (tmp_path / "runs" / "modern").mkdir(parents=True, exist_ok=True)
            again = "--from" in command  # a run that the page takes for granted
            if again and not (tmp_path / "runs/modern/model").exists():
                first = [
                    "train",
                    "modern",
                    "--annotations",
                    "train.json",
                    "--features",
                    "store",
                    "--out",
                    "runs/modern",
                ]
                assert main([*first, *_set(small), "--limit-steps", "1"]) == 0
            composed = _set(COMPOSED) if "--timelines" in command else []
            assert main([*command, *([] if again else _set(small)), *composed, "--limit-steps", "2"]) == 0
        elif command[0] in ("timelines", "predict") or "words.json" in command:
            assert main([part for word in command for part in _found(word)]) == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == RUNS


def _found(word: str) -> list[str]:
    """What a shell makes of a word with a star."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def _set(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]
