"""Tests that are run many times: pytest's options for it, and the record of how often each test passed.

`tests/conftest.py` calls the functions that are named as pytest's hooks are; `tests/repeat.py` keeps the record.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from densevid.errors import InputError
from densevid.io import read_json, write_json

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "tests", "research", "benchmarks", "examples", "scripts")
NUMBER = re.compile(r"-?repetition(\d+)(?=\]$)")


def add_options(parser: pytest.Parser) -> None:
    """What `tests/repeat.py` gives to pytest, and pytest-xdist to its workers."""
    parser.addoption("--repeat", type=int, default=1, metavar="N", help="run every test N times")
    parser.addoption("--repeat-record", metavar="FILE", help="leave out the runs that this record has")


def repeat_test(metafunc: pytest.Metafunc) -> None:
    """Give a test that is repeated its number as its last parameter, so that its runs follow each other."""
    if (count := metafunc.config.getoption("repeat")) > 1:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(count), ids=lambda number: f"repetition{number}")


def leave_out_done_runs(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the runs that the record has."""
    if not (record := config.getoption("repeat_record")):
        return
    done = Record.read(Path(record)).runs
    wanted = {item: number_of(item.nodeid) >= done[name_of(item.nodeid)] for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not wanted[item]])
    items[:] = [item for item in items if wanted[item]]


def name_of(nodeid: str) -> str:
    """The name of a test, without the number of a run."""
    return NUMBER.sub("", nodeid).removesuffix("[]")


def number_of(nodeid: str) -> int:
    """The number of a run."""
    found = NUMBER.search(nodeid)
    return int(found[1]) if found else 0


@dataclass
class Record:
    """How often each test ran and passed, on which source, and beside how many busy loops."""

    tree: str
    load: int
    commit: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def empty(load: int) -> Record:
        """A record of this source on this machine."""
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        machine = {
            "processors": os.cpu_count(),
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
        }
        return Record(tree_hash(), load, commit, machine)

    @staticmethod
    def read(path: Path) -> Record:
        """A record that `write` made."""
        content = read_json(path)
        tests = content.pop("tests")
        columns = {name: Counter({test: row[name] for test, row in tests.items()}) for name in COLUMNS}
        return Record(**content, **columns)

    def write(self, path: Path) -> None:
        """Write it whole, under another name first."""
        tests = {test: {name: getattr(self, name)[test] for name in COLUMNS} for test in sorted(self.runs)}
        content = {"commit": self.commit, "tree": self.tree, "load": self.load, "machine": self.machine}
        write_json(path, {**content, "tests": tests})

    def require_same(self, other: Record) -> None:
        """Raise InputError unless runs of the one may be added to those of the other."""
        if self.tree != other.tree:
            raise InputError(f"the source is not that of commit {self.commit[:7]} any more: start a new record")
        if self.load != other.load:
            raise InputError(f"the record is of tests beside {self.load} busy loops, not {other.load}")

    def add(self, test: str, outcomes: set[str]) -> None:
        """Count a run; it passes if its setup, its call and its teardown do."""
        self.runs[test] += 1
        self.passed[test] += outcomes == {"passed"}
        self.skipped[test] += "skipped" in outcomes and "failed" not in outcomes

    def line(self, test: str) -> str:
        """How often a test passed."""
        skipped = f" ({self.skipped[test]} skipped)" if self.skipped[test] else ""
        return f"{self.passed[test]:4} of {self.runs[test]:4}  {test}{skipped}"

    @property
    def failures(self) -> list[str]:
        """The tests that did not pass every time."""
        return [test for test, runs in self.runs.items() if self.passed[test] + self.skipped[test] < runs]


COLUMNS = ("runs", "passed", "skipped")


def tree_hash(root: Path = ROOT) -> str:
    """A hash of all files that tests run or read: results of one tree say nothing about another."""
    found = hashlib.sha256()
    for path in sorted(file for folder in SOURCES for file in (root / folder).rglob("*") if file.is_file()):
        if "__pycache__" not in path.parts:
            found.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]
