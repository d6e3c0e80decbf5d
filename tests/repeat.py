"""Shows whether tests flake: repeats them, beside other work if wanted, and prints how often each passed.

    python -m tests.repeat --count 50 --load 2 [PATH...]    each test marked `timing`, 50 times
    python -m tests.repeat --suite --count 3 --load 2       the whole suite, three times

`--processes N` runs N files at a time. `--results FILE` keeps the counts as JSON; with `--resume` a run that was
stopped goes on where it was, if the source is still the same. `make test-repeat` and `make test-busy` call this module.
It exits with 1 if anything failed or the source changed meanwhile, and with 2 if a record cannot be used.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from densevid.errors import InputError, run_main
from tests.helpers.repetitions import ROOT, Record, name_of, tree_hash

SECONDS_BETWEEN_WRITES = 5.0
SUITE = "the whole suite"
BUSY_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


class Results:
    """A pytest plugin that counts the runs of each test, and keeps the counts in a file if there is one."""

    def __init__(self, record: Record, count: int, file: Path | None = None) -> None:
        self.record, self.count, self.file = record, count, file
        self._outcomes: defaultdict[str, set[str]] = defaultdict(set)  # of runs that go on, by their ids
        self._written = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Setup, call and teardown of a run report one by one, those of several processes mixed."""
        self._outcomes[report.nodeid].add(report.outcome)
        if report.when in ("setup", "call"):
            return
        test = name_of(report.nodeid)  # here it is at its end; a process that died reports once, and nothing else
        self.record.add(test, self._outcomes.pop(report.nodeid))
        if self.record.runs[test] == self.count:
            print(f"\n{self.record.line(test)}", flush=True)
        if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Write the record, if it has a file."""
        self._written = time.monotonic()
        if self.file:
            self.record.write(self.file)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes compute all the while; they end with the block, or with this process."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def repeat_tests(paths: list[str], count: int, processes: int, results: Results) -> bool:
    """Run each test marked `timing` until it ran so many times; print the counts; whether all passed."""
    record = results.record
    options = ["-c", str(ROOT / "pyproject.toml"), "-m", "timing and not slow", "-p", "no:cacheprovider", "--tb=short"]
    options += ["-o", "addopts=-q --no-header --strict-markers --import-mode=importlib", "--repeat", str(count)]
    if processes > 1:
        options += ["-n", str(processes), "--dist", "loadfile"]  # what a file's tests share is made once
    with tempfile.TemporaryDirectory() as folder:
        record.write(done := Path(folder) / "done.json")
        try:
            # With "=": a file that stands alone is read as a path, next to which pytest looks for the conftest.
            code = pytest.main([*options, f"--repeat-record={done}", *paths], plugins=[results])
        finally:
            results.write()
    print(f"\n{sum(record.passed.values())} of {sum(record.runs.values())} runs passed")
    for test in record.failures:
        print(f"FAILED {record.line(test)}")
    ended = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)  # none: all were done before
    return ended and bool(record.runs) and not record.failures


def repeat_suite(paths: list[str], count: int, processes: int, results: Results) -> bool:
    """Run the whole suite, in new processes, until it ran so many times; print the counts; whether all passed."""
    record = results.record
    command = [sys.executable, "-m", "pytest", "-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    while (number := record.runs[SUITE] + 1) <= count:
        began = time.monotonic()
        code = subprocess.run([*command, *paths], cwd=ROOT).returncode
        record.add(SUITE, {"failed" if code else "passed"})
        results.write()
        result = f"FAILED (exit code {code})" if code else "passed"
        print(f"run {number} of {count}: {result} in {(time.monotonic() - began) / 60:.1f} min", flush=True)
    print(record.line(SUITE).strip())
    return not record.failures


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="test files or folders, all by default")
    parser.add_argument("--count", type=int, default=50, help="how often each runs (%(default)s)")
    parser.add_argument("--load", type=int, default=0, help="how many busy loops run beside them (%(default)s)")
    parser.add_argument("--suite", action="store_true", help="repeat the whole suite instead of each test")
    parser.add_argument("--processes", type=int, default=1, help="how many files run at a time (%(default)s)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep the counts in this file")
    parser.add_argument("--resume", action="store_true", help="go on with the counts in that file")
    given = parser.parse_args()
    record = Record.empty(given.load)
    if given.resume and given.results and given.results.exists():
        before = Record.read(given.results)
        before.require_same(record)
        record = before
    elif given.results and given.results.exists():
        raise InputError(f"{given.results} exists: give --resume to add to it, or another name")
    repeat = repeat_suite if given.suite else repeat_tests
    with busy_loops(given.load):
        passed = repeat(given.paths, given.count, given.processes, Results(record, given.count, given.results))
    if (now := tree_hash()) != record.tree:
        print(f"the source changed meanwhile ({record.tree} to {now}): these results are of no single tree")
        return 1
    return 0 if passed else 1


if __name__ == "__main__":
    run_main(main)
