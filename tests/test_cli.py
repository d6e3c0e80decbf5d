"""The command line: one line and exit code 2 for what a user can get wrong, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from densevid.cli import VERBS, main
from densevid.errors import ExitCode, exit_code
from helpers.waiting import LIMIT_SECONDS


def densevid(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "densevid", *words], capture_output=True, text=True, timeout=LIMIT_SECONDS
    )


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_explains_itself_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    assert f"densevid {verb} " in shown.split("usage:")[1].split("\n", 3)[-1], "an example"


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ([], "densevid"),
        (["no-such-verb"], "densevid"),
        (["predict"], "densevid predict"),
        (["predict", "--no-such-flag"], "densevid predict"),
        (["caption", "video.mp4", "--no-such-flag"], "densevid caption"),
        (["evaluate", "p.json", "--references", "r.json", "--min-seconds", "long\nish"], "densevid evaluate"),
        (["bench", "evaluate"], "densevid bench evaluate"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(
    words: list[str], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith("densevid: ")
    assert line.endswith(f"(see `{where} --help`)\n")
    assert line.count("\n") == 1


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    done = densevid(
        "predict", "--model", str(tmp_path / "none"), "--features", str(tmp_path), "--out", str(tmp_path / "o")
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "no such model folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("given", "used"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_do_not_spin_unless_the_user_wants_it(given: str | None, used: str) -> None:
    """What OpenMP itself reads, once, when torch is loaded."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    environment = {**others, "OMP_DISPLAY_ENV": "TRUE", **({"OMP_WAIT_POLICY": given} if given else {})}
    code = "from densevid.cli import main; main(['models']); import torch"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environment
    )
    if "OMP_WAIT_POLICY" not in done.stderr:
        pytest.skip("this torch computes without OpenMP")
    assert f"OMP_WAIT_POLICY = '{used}'" in done.stderr


def test_the_help_lists_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split("exit codes:")[1].split())
    assert all(f"{int(code)} " in shown for code in ExitCode if code != ExitCode.CLOSED_PIPE)


def test_a_command_fails_in_part_only_if_some_input_was_used() -> None:
    assert (exit_code(0, 3), exit_code(1, 3), exit_code(3, 3), exit_code(0, 0)) == (0, 1, 2, 0)


def test_a_closed_pipe_ends_without_a_message() -> None:
    """As `| head` does: no line, no traceback, and not the exit code of work that is done."""
    run = "models.run = lambda arguments: print('x' * 1000000)"
    code = f"import sys; from densevid import cli; from densevid.commands import models; {run}; "
    code += "sys.exit(cli.main(['models']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_terminated_leaves_nothing_half_written(number: signal.Signals, tmp_path: Path) -> None:
    code = """
import os, signal, sys
from densevid import cli
from densevid.io import atomic_path
from densevid.commands import models

signal.signal(int(sys.argv[1]), signal.SIG_DFL)  # whoever runs the tests may ignore it (nohup)

def run(arguments):
    with atomic_path("file") as temporary:
        temporary.write_text("half")
        os.kill(os.getpid(), int(sys.argv[1]))
        signal.pause()

models.run = run
cli.main(["models"])
"""
    command = [sys.executable, "-c", code, str(int(number))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (-number, "", [])


def test_ignored_signals_stay_ignored_and_forked_children_can_be_terminated(tmp_path: Path) -> None:
    code = """
import multiprocessing, os, signal
from densevid import cli
from densevid.commands import models

fork = multiprocessing.get_context("fork")
begun = fork.Event()

def work():
    begun.set()
    signal.pause()

def run(arguments):
    os.kill(os.getpid(), signal.SIGHUP)
    child = fork.Process(target=work)
    child.start()
    begun.wait()
    child.terminate()
    child.join()
    print(child.exitcode)

signal.signal(signal.SIGHUP, signal.SIG_IGN)
models.run = run
print(cli.main(["models"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert (done.stdout, done.stderr) == ("-15\n0\n", "")


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "ascii"])
def test_letters_that_the_terminal_lacks_are_question_marks(encoding: str) -> None:
    code = "from densevid import cli; from densevid.commands import models; "
    code += "models.run = lambda arguments: print('v\\u0438\\u0434 \\udcff.mp4'); cli.main(['models'])"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environment
    )
    assert (done.stdout, done.stderr) == ("v?? ?.mp4\n", "")


def test_a_file_that_looks_like_a_flag_is_hinted_at(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-dash.mp4").touch()
    with pytest.raises(SystemExit):
        main(["caption", "-dash.mp4"])
    assert "; for the file -dash.mp4 write ./-dash.mp4 (see" in capsys.readouterr().err
