"""The programs of `research/`: each has a usage line of its own, and errors of one line with exit code 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.waiting import LIMIT_SECONDS

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    for path in (ROOT / "research").rglob("*.py")
    if "run_program(" in path.read_text(encoding="utf-8")
)


def python_m(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_explains_itself_with_an_example(program: str) -> None:
    done = python_m(program, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: python -m {program} ")
    verb = "densevid reproduce" if program == "research.paper_tables" else f"python -m {program}"
    assert f"\n  {verb} " in done.stdout, "an example"


@pytest.mark.parametrize("program", PROGRAMS)
def test_wrong_words_are_one_line(program: str) -> None:
    done = python_m(program, "--no-such-flag")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("densevid: ") and f"(see `python -m {program} --help`)" in done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_lab_notes_name_every_program(program: str) -> None:
    notes = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "research").glob("*.md"))
    assert re.search(rf"python -m {re.escape(program)}(?![.\w])", notes)
