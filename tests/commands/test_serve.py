"""`densevid serve` as a command: what it prints when it starts, and what it refuses."""

from __future__ import annotations

import argparse
import http.client
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from densevid.app.guard import is_loopback
from densevid.app.settings import NOT_PLAYED, caption_command
from densevid.cli import main
from densevid.commands.serve import announce, default_folder
from helpers.tiny_captioner import write_tiny_model
from helpers.waiting import LIMIT_SECONDS


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--port", "99999"], "--port 99999: must be from 0 to 65535"),
        (["--host", "192.0.2.1"], "cannot listen at 192.0.2.1 port 8000"),
        (["--workers", "0"], "--workers must be greater than 0, got 0"),
        (["--max-minutes", "nan"], "--max-minutes must be greater than 0, got nan"),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_started_is_one_line(
    model: str, capsys: pytest.CaptureFixture[str], flags: list[str], line: str
) -> None:
    assert main(["serve", *([] if "--model" in flags else ["--model", model]), *flags]) == 2
    complaint = capsys.readouterr().err
    assert line in complaint and complaint.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port, "--work", str(tmp_path), "--model", model]) == 2
    assert f"cannot listen at 127.0.0.1 port {port} (Address already in use)" in capsys.readouterr().err


def test_it_starts_answers_keeps_its_folder_and_stops(model: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "densevid", "serve", "--port", "0", "--work", str(tmp_path), "--model", model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        port = int(re.search(r"http://127\.0\.0\.1:(\d+) ", process.stdout.readline())[1])  # type: ignore[index]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_SECONDS)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.status == 200 and b"<title>densevid</title>" in answer.read()
        assert answer.getheader("server") is None
        second = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        assert (second.returncode, second.stdout) == (2, "") and "another `densevid serve` uses it" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_SECONDS) == 0
        assert process.stderr.read() == "densevid: stopped; unfinished videos are taken up at the next start\n"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("example.org", False),
        ("localhost.example.org", False),
        ("2130706433", False),  # 127.0.0.1 as one number, which some programs read
    ],
)
def test_other_machines_are_warned_of(host: str, local: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert is_loopback(host) is local
    with socket.create_server(("127.0.0.1", 0)) as listening:
        announce(listening, argparse.Namespace(host=host, open=False))
    assert ("warning" in capsys.readouterr().err) is not local


def test_the_folder_is_the_users_own_and_per_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder(8000) == Path("/somewhere/densevid/serve/8000")


def test_a_video_that_no_browser_plays_is_also_written_as_one() -> None:
    plain = caption_command("mine")(Path("/w/video.mp4"), Path("/w"), "--my film.mp4")
    assert plain[3:] == ["caption", "/w/video.mp4", "--title=--my film.mp4", "--out", "/w", "--format", "html,json,vtt",
                         "--progress", "jsonl", "--model", "mine"]  # fmt: skip
    other = caption_command()(Path(f"/w/video{NOT_PLAYED}"), Path("/w"), "old.avi")
    assert other[other.index("html,json,vtt,mp4") + 1] == "--web"
