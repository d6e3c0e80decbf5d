"""`python -m benchmarks` and `densevid bench` run the same subjects, with the errors and exit codes of the verbs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import SUBJECTS
from densevid.cli import main
from helpers.waiting import LIMIT_SECONDS

ROOT = Path(__file__).parents[2]


def python_m(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)


def test_the_list_of_subjects_is_complete() -> None:
    done = python_m("benchmarks")
    assert done.returncode == 0 and done.stderr == ""
    modules = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "run_program" in path.read_text()}
    assert modules - {"__main__"} == set(SUBJECTS)
    assert all(f"\n  {subject} " in done.stdout for subject in SUBJECTS)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_explains_itself_with_an_example(subject: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["bench", subject, "--help"])
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    assert shown.startswith(f"usage: densevid bench {subject} ") and f"\n  densevid bench {subject}" in shown


def test_a_module_has_a_usage_line_and_one_line_errors_of_its_own() -> None:
    assert python_m("benchmarks.train", "--help").stdout.startswith("usage: python -m benchmarks.train ")
    wrong = python_m("benchmarks.train", "--batch", "1")
    assert (wrong.returncode, wrong.stderr) == (2, "densevid: --batch must be at least 2, got 1\n")
    unknown = python_m("benchmarks.train", "--no-such-flag")
    assert unknown.returncode == 2 and unknown.stderr.endswith("(see `python -m benchmarks.train --help`)\n")


def test_an_unknown_subject_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["bench", "no-such-subject"])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and err.count("\n") == 1 and "train" in err
