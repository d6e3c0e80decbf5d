"""Shows whether tests flake: repeats them, beside other work if wanted, and prints how often each passed.

    python -m tests.repeat --count 50 --load 2 [PATH...]    each test marked `timing`, 50 times
    python -m tests.repeat --suite --count 3 --load 2       the whole suite, three times

`make test-repeat` and `make test-busy` call it. It exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BUSY_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


class Results:
    """A pytest plugin that counts the runs of each test and those that passed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.runs: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._outcomes: list[str] = []  # of the parts of the run that goes on

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Setup, call and teardown of a run report one by one; a run passes if all three do."""
        test = re.sub(r"-?repetition\d+(?=\])", "", report.nodeid).replace("[]", "")
        self._outcomes.append(report.outcome)
        if report.when == "teardown":
            self.runs[test] += 1
            self.skipped[test] += "skipped" in self._outcomes
            self.passed[test] += set(self._outcomes) == {"passed"}
            self._outcomes = []
            if self.runs[test] == self.count:
                print(f"\n{self.line(test)}", flush=True)

    def line(self, test: str) -> str:
        """How often a test passed."""
        skipped = f" ({self.skipped[test]} skipped)" if self.skipped[test] else ""
        return f"{self.passed[test]:4} of {self.runs[test]:4}  {test}{skipped}"

    @property
    def failures(self) -> list[str]:
        """The tests that did not pass every time."""
        return [test for test, runs in self.runs.items() if self.passed[test] + self.skipped[test] < runs]


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


def repeat_tests(paths: list[str], count: int) -> bool:
    """Run each test marked `timing` many times in this process; print the counts; whether all passed."""
    results = Results(count)
    options = ["-m", "timing and not slow", "--repeat", str(count), "-p", "no:cacheprovider", "--tb=short"]
    options += ["-o", "addopts=-q --no-header --strict-markers --import-mode=importlib"]
    code = pytest.main([*options, *paths], plugins=[results])
    print(f"\n{sum(results.passed.values())} of {sum(results.runs.values())} runs passed")
    for test in results.failures:
        print(f"FAILED {results.line(test)}")
    return bool(results.runs) and not results.failures and code == pytest.ExitCode.OK


def repeat_suite(paths: list[str], count: int, processes: int) -> bool:
    """Run the whole suite many times, in new processes; print the results; whether all passed."""
    command = [sys.executable, "-m", "pytest", "-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    passed = 0
    for number in range(1, count + 1):
        began = time.monotonic()
        code = subprocess.run([*command, *paths]).returncode
        passed += code == 0
        result = "passed" if code == 0 else f"FAILED (exit code {code})"
        print(f"run {number} of {count}: {result} in {(time.monotonic() - began) / 60:.1f} min", flush=True)
    print(f"the suite passed {passed} of {count}")
    return passed == count


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="test files or folders, all by default")
    parser.add_argument("--count", type=int, default=50, help="how often each runs (%(default)s)")
    parser.add_argument("--load", type=int, default=0, help="how many busy loops run beside them (%(default)s)")
    parser.add_argument("--suite", action="store_true", help="repeat the whole suite instead of each test")
    parser.add_argument("--processes", type=int, default=2, help="of the suite (%(default)s)")
    given = parser.parse_args()
    with busy_loops(given.load):
        if given.suite:
            return 0 if repeat_suite(given.paths, given.count, given.processes) else 1
        return 0 if repeat_tests(given.paths, given.count) else 1


if __name__ == "__main__":
    sys.exit(main())
