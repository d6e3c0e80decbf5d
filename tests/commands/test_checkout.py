"""`densevid bench` and `densevid reproduce` in an installed package: a line names the checkout they need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import densevid
from helpers.waiting import LIMIT_SECONDS


@pytest.mark.parametrize(
    ("verb", "words", "module"),
    [
        ("bench", ["train", "--batch", "64"], "benchmarks"),
        ("bench", [], "benchmarks"),
        ("reproduce", ["all", "--data", "msvd-timelines", "--out", "tried"], "research.paper_tables"),
    ],
)
def test_a_verb_of_a_checkout_is_refused_in_one_line_where_the_package_is_alone(
    verb: str, words: list[str], module: str, tmp_path: Path
) -> None:
    package = Path(densevid.__file__).parent
    alone = shutil.ignore_patterns("__pycache__", "pretrained", "*.safetensors")
    shutil.copytree(package, tmp_path / "site" / "densevid", ignore=alone)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-m", "densevid", verb, *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and f"`python -m {module}`" in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "site"]


def test_an_installed_package_finds_the_checkout_in_the_current_folder(tmp_path: Path) -> None:
    package = Path(densevid.__file__).parent
    alone = shutil.ignore_patterns("__pycache__", "pretrained", "*.safetensors")
    shutil.copytree(package, tmp_path / "site" / "densevid", ignore=alone)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-P", "-m", "densevid", "bench", "--help"]
    root = package.parents[1]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0 and "densevid bench evaluate" in done.stdout, done.stderr
