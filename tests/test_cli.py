"""The command line: one line and exit code 2 for what a user can get wrong, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from densevid.cli import VERBS, main


def densevid(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "densevid", *words], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_explains_itself_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    assert f"densevid {verb} " in shown.split("usage:")[1].split("\n", 3)[-1], "an example"


@pytest.mark.parametrize("words", [[], ["no-such-verb"], ["predict"], ["predict", "--no-such-flag"]])
def test_wrong_words_exit_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    done = densevid(
        "predict", "--model", str(tmp_path / "none"), "--features", str(tmp_path), "--out", str(tmp_path / "o")
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "no such model folder" in done.stderr
    assert "Traceback" not in done.stderr
