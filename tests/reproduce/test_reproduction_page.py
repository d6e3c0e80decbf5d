"""docs/reproduction.md: every command in it is understood, and the way from the public archives is run as it stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from archived_features import VIDEOS, shortest, write_features
from densevid.cli import _parser
from densevid.config import load_config
from densevid.data.annotations import read_annotations
from densevid.reproduce.definitions import datasets

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines() if not line.startswith("#")]
COMMANDS = [shlex.split(line.partition("densevid ")[2], comments=True) for line in LINES if "densevid " in line]
SHIM = """#!/bin/bash
exec {python} -c 'import sys; from densevid.cli import main; sys.exit(main(sys.argv[1:]))' \
    "$@" --quick --device cpu --threads 1
"""
RELEASE = {"activitynet": ("anet", "captions"), "youcook2": ("yc2", "youcook2")}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_understood(command: list[str]) -> None:
    words = ["train" if word == "$step" else word for word in command]
    parsed = _parser(words[0]).parse_args(words)
    load_config(None, getattr(parsed, "set", ()))


def test_all_data_sets_have_commands() -> None:
    named = {command[command.index("--data") + 1] for command in COMMANDS if "--data" in command}
    assert named == set(datasets())


def pack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)


def write_archives(folder: Path, shared: Path) -> None:
    """The four archives of features, the two of annotations with their duration files, and the annotation files."""
    for name, (short, captions) in RELEASE.items():
        (folder / captions).symlink_to(shared / "data" / name)
        made, files, lines = folder / f"made-{short}", datasets()[name].annotations, ""
        for split, part in (("training", "train"), ("validation", "test")):
            told = read_annotations(shared / "data" / name / files[part][0], split=split)
            lines += write_features(made / split, shortest(told.durations, VIDEOS[split]))
            pack(folder / f"{split}_feat_{short}.tar.gz", made / split)
        (made / short).mkdir()
        (made / short / f"{short}_duration_frame.csv").write_text(lines)
        pack(folder / f"{short}.tar.gz", made / short)


@pytest.mark.slow
def test_the_way_from_the_archives_is_run_as_it_stands(shared: Path, tmp_path: Path) -> None:
    """The page's own block, all tables of both data sets; every call of `densevid` gets `--quick`."""
    block = next(block for block in BLOCKS if "training_feat_anet" in block)
    here, shims = tmp_path / "here", tmp_path / "bin"
    here.mkdir()
    shims.mkdir()
    write_archives(here, shared)
    (shims / "densevid").write_text(SHIM.format(python=sys.executable))
    (shims / "densevid").chmod(0o755)
    environment = {**os.environ, "PATH": f"{shims}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-e", "-c", block], cwd=here, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "training\nvalidation" in done.stdout
    for name in RELEASE:
        tables = here / "results" / f"{name}-quick" / "tables"
        for number in datasets()[name].tables:
            lines = json.loads((tables / f"table-{number}.json").read_text())["lines"]
            ours = [line for line in lines if line["group"] == "ours"]
            assert not [note for line in ours for note in line["notes"] if "not trained" in note]
