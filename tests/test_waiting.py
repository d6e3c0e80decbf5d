"""Tests wait for what they need and never for a time; those that depend on processes and clocks are marked."""

from __future__ import annotations

import ast
from pathlib import Path

from helpers.timing_tests import timing_names

TESTS = Path(__file__).parent
ALLOWED = {"helpers/waiting.py", "helpers/play_captioner.py", "helpers/held/sitecustomize.py"}
BY_WORKERS = {"test_extraction", "test_loader", "test_loaders", "test_library"}
PAUSES = {"sleep", "wait_for_timeout", "wait_for_function"}


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_no_test_sleeps() -> None:
    sleeping = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in sorted(TESTS.rglob("*.py"))
        if path.relative_to(TESTS).as_posix() not in ALLOWED
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if called(node) in PAUSES
    ]
    assert not sleeping, "wait for the condition instead, with helpers.waiting or helpers.browsers.wait_until"


def test_tests_of_processes_browsers_and_clocks_are_found(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        """
import time
import concurrent.futures
import torch.distributed as dist
from torch import multiprocessing as processes
from helpers.running_server import served
from helpers.made_videos import constant

def helper(): return time.monotonic()
def fixture(): return served("x")
def test_clock(): helper()
def test_server(fixture): pass
def test_process(): processes.spawn(test_plain)
def test_plain(): constant(1.0, time=2.0, extract=extract("extracted"))
def test_plain_too(): torch.extract.time()
def test_pool(): concurrent.futures.ThreadPoolExecutor()
def test_group(): dist.init_process_group("gloo")
def test_extraction(): main(["extract", "a.mp4"])
def test_loader(): Loader(workers=1)
def test_loaders(workers): Loader(workers)
def test_library(): densevid.extract_many([])
"""
    )
    found = {name for name in timing_names(tmp_path / "test_it.py") if name.startswith("test_")}
    assert found == {"test_clock", "test_server", "test_process", "test_pool", "test_group", *BY_WORKERS}
