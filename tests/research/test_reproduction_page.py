"""docs/research/reproduction.md: its commands parse, its tables are those measured, and its block of commands runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import densevid
from densevid.cli import build_parser
from densevid.config import load_config
from densevid.data.annotations import Annotations, read_annotations
from helpers.archived_features import VIDEOS, Lengths, shortest, write_features
from helpers.markdown_tables import tables_of
from research.paper_tables.definitions import datasets

PAGE = Path(__file__).parents[2] / "docs" / "research" / "reproduction.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines() if not line.startswith("#")]
COMMANDS = [shlex.split(line.partition("densevid ")[2], comments=True) for line in LINES if "densevid " in line]
SHIM = """#!/bin/bash
exec {python} -c 'import sys; from densevid.cli import main; sys.exit(main(sys.argv[1:]))' \
    "$@" --quick --device cpu --threads 1
"""
RELEASE = {"activitynet": ("anet", "captions"), "youcook2": ("yc2", "youcook2")}


REPORTS = {"msvd": (1, 70), "msrvtt": (2, 35)}  # the part of the page, and how many rows it shares with the report


@pytest.mark.parametrize("name", REPORTS)
def test_the_tables_of_the_page_are_those_that_were_measured(name: str) -> None:
    """Every number of a row that the report has, too, is in a row of the report under the same head."""
    part, fewest = REPORTS[name]
    shown = tables_of(re.split(r"^## Results|^### MSR-VTT", PAGE.read_text(encoding="utf-8"), flags=re.M)[part])
    measured = tables_of(PAGE.with_name(f"results-{name}-timelines.md").read_text(encoding="utf-8"))
    known = {tuple(row.items()) for rows in measured for row in rows}
    titles = {next(iter(row.values())) for rows in measured for row in rows}
    compared = 0
    for row in (row for rows in shown for row in rows if next(iter(row.values())) in titles):
        if "words a sentence" in row:
            continue
        assert any(set(row.items()) <= set(items) for items in known), row
        compared += 1
    assert compared > fewest


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_understood(command: list[str]) -> None:
    words = ["train" if word == "$step" else word for word in command]
    parsed = build_parser(words[0]).parse_args(words)
    load_config(None, getattr(parsed, "set", ()))


def test_all_data_sets_have_commands() -> None:
    named = {command[command.index("--data") + 1] for command in COMMANDS if "--data" in command}
    assert named == set(datasets())


def pack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)


def chosen(annotations: Annotations, count: int) -> Lengths:
    """The shortest videos, and among them one with an event of 50 seconds: table 6 is about such."""
    durations, events = annotations.durations, annotations.events
    lasting = {v: durations[v] for v, own in events.items() if any(event.end - event.start >= 50 for event in own)}
    return [*shortest(durations, count - 1), *shortest(lasting, 1)]


def keep(file: Path, videos: set[str], out: Path) -> None:
    """The real annotations of these videos, in the form of their file."""
    content = json.loads(file.read_text())
    entries = content.get("database", content)
    kept = {video: entry for video, entry in entries.items() if video in videos}
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"database": kept} if "database" in content else kept))


def write_archives(folder: Path, shared: Path) -> None:
    """The four archives of features, the two of annotations with their duration files, and the annotation files."""
    for name, (short, captions) in RELEASE.items():
        made, files, lines, videos = folder / f"made-{short}", datasets()[name].annotations, "", set()
        for split, part in (("training", "train"), ("validation", "test")):
            lengths = chosen(read_annotations(shared / "data" / name / files[part][0], split=split), VIDEOS[split])
            lines += write_features(made / split, lengths)
            videos |= {video for video, _ in lengths}
            pack(folder / f"{split}_feat_{short}.tar.gz", made / split)
        for file in {file for some in files.values() for file in some}:
            keep(shared / "data" / name / file, videos, folder / captions / file)
        (made / short).mkdir()
        (made / short / f"{short}_duration_frame.csv").write_text(lines)
        pack(folder / f"{short}.tar.gz", made / short)
        shutil.rmtree(made)


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
    ours = {"PATH": f"{shims}:{os.environ['PATH']}", "PYTHONPATH": str(Path(densevid.__file__).parents[1])}
    environment = {**os.environ, **ours, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-e", "-c", block], cwd=here, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "training\nvalidation" in done.stdout
    for name in RELEASE:
        tables = here / "results" / f"{name}-quick" / "tables"
        for number in datasets()[name].tables:
            lines = json.loads((tables / f"table-{number}.json").read_text())["lines"]
            ours = [line for line in lines if line["group"] == "ours"]
            assert not [note for line in ours for note in line["notes"] if "not trained" in note]
