"""`tests/repeat.py`: how often each test passed is counted right, over processes and over runs that were stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.repetitions import ROOT, Record, name_of, number_of, tree_hash
from helpers.waiting import wait_until

CONFTEST = """
import pytest
from helpers.repetitions import add_options, leave_out_done_runs, repeat_test
def pytest_addoption(parser): add_options(parser)
@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc): repeat_test(metafunc)
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items): leave_out_done_runs(config, items)
"""
TESTS = """
import os
from pathlib import Path
import pytest
pytestmark = pytest.mark.timing
@pytest.fixture
def number(request): return request.getfixturevalue("repetition")
@pytest.fixture
def breaks(number):
    yield
    assert number != 2
def test_passes(): Path(__file__).with_name("passes").open("a").write(f"{os.getpid()}\\n")
@pytest.mark.parametrize("name", ["a", "b@c", "[]x"])
def test_has_names(name): pass
def test_fails_at_even_runs(number): assert number % 2
def test_fails_in_its_teardown(breaks): pass
def test_skips(): pytest.skip("nothing here")
def test_not_marked(): raise SystemExit
test_not_marked.pytestmark = []
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_made.py").write_text(TESTS)
    return tmp_path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.repeat", *words]


def repeat(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*map(str, words)), cwd=ROOT, capture_output=True, text=True)


def counts(results: Path, file: str = "test_made.py") -> dict[str, tuple[int, int, int]]:
    tests: dict[str, Any] = json.loads(results.read_text())["tests"]
    own = {name.rpartition("::")[2]: row for name, row in tests.items() if Path(name.partition("::")[0]).name == file}
    return {name: (row["passed"], row["skipped"], row["runs"]) for name, row in own.items()}


EXPECTED = {
    "test_passes": (4, 0, 4),
    "test_has_names[a]": (4, 0, 4),
    "test_has_names[b@c]": (4, 0, 4),
    "test_has_names[[]x]": (4, 0, 4),
    "test_fails_at_even_runs": (2, 0, 4),
    "test_fails_in_its_teardown": (3, 0, 4),
    "test_skips": (0, 4, 4),
    "test_not_marked": (0, 0, 4),
}


@pytest.mark.parametrize("processes", [1, 2])
def test_runs_that_pass_fail_and_skip_are_counted(folder: Path, processes: int) -> None:
    (folder / "test_other.py").write_text(TESTS)
    results = folder / "results.json"
    ended = repeat(folder, "--count", 4, "--processes", processes, "--results", results)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert counts(results, "test_made.py") == counts(results, "test_other.py") == EXPECTED
    assert "42 of 64 runs passed" in ended.stdout
    pids = (folder / "passes").read_text().split()
    assert len(pids) == 8 and len(set(pids)) == processes


def test_without_paths_the_tests_of_the_folder_run(folder: Path) -> None:
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    subprocess.run(command("--count", "2", "--results", "results.json"), cwd=folder, env=environment)
    assert counts(folder / "results.json")["test_passes"] == (2, 0, 2)


def test_a_run_that_is_stopped_goes_on_where_it_was(folder: Path) -> None:
    (folder / "test_made.py").write_text(
        "import pytest\nfrom pathlib import Path\nfrom helpers.waiting import wait_until\n"
        "pytestmark = pytest.mark.timing\nhere = Path(__file__).parent\n"
        "def test_first(): (here / 'first').open('a').write('x')\n"
        "def test_second(repetition):\n"
        "    (here / 'begun').touch()\n"
        "    assert repetition < 1 or wait_until((here / 'go').exists) is True\n"
    )
    words = command(str(folder), "--count", "3", "--results", str(results := folder / "results.json"))
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_until((folder / "begun").exists, process)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 1
    done = counts(results)
    assert done["test_first"] == (3, 0, 3) and done.get("test_second", (0, 0, 0))[2] < 3
    (folder / "go").touch()
    assert repeat(folder, "--count", 3, "--results", results).returncode == 2, "it is not overwritten"
    assert repeat(folder, "--count", 3, "--results", results, "--resume").returncode == 0
    assert counts(results) == {"test_first": (3, 0, 3), "test_second": (3, 0, 3)}
    assert (folder / "first").read_text() == "xxx"
    assert repeat(folder, "--count", 3, "--results", results, "--resume").returncode == 0, "nothing is left to do"
    assert repeat(folder, "--count", 4, "--results", results, "--resume").returncode == 0
    assert counts(results)["test_first"] == (4, 0, 4) and (folder / "first").read_text() == "xxxx"
    other = repeat(folder, "--results", results, "--resume", "--load", 1)
    assert other.returncode == 2 and "beside 0 busy loops, not 1" in other.stderr


def test_busy_loops_end_with_the_process_that_started_them(folder: Path) -> None:
    (folder / "test_made.py").write_text(
        "import os, pytest\nfrom pathlib import Path\nfrom helpers.waiting import wait_until\n"
        "pytestmark = pytest.mark.timing\n"
        "def test_it():\n    Path(__file__).with_name('begun').touch()\n    wait_until(lambda: False)\n"
    )
    process = subprocess.Popen(command(str(folder), "--load", "2"), cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_until((folder / "begun").exists, process)
    children = [
        int(pid) for task in Path(f"/proc/{process.pid}/task").glob("*/children") for pid in task.read_text().split()
    ]
    assert len(children) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def test_a_record_is_read_as_it_was_written_and_belongs_to_one_tree(tmp_path: Path) -> None:
    record = Record("tree", 2, "commit", {"processors": 2})
    record.add("one", {"passed"})
    record.add("one", {"passed", "failed"})
    record.add("two", {"skipped", "passed"})
    record.write(tmp_path / "record.json")
    assert Record.read(tmp_path / "record.json") == record
    assert record.failures == ["one"] and record.line("one") == "   1 of    2  one"
    record.require_same(Record("tree", 2))
    with pytest.raises(ValueError, match="commit commit any more"):
        record.require_same(Record("another", 2))


def test_the_tree_is_another_after_any_change_to_the_source(tmp_path: Path) -> None:
    (tmp_path / "src" / "__pycache__").mkdir(parents=True)
    (tmp_path / "src" / "a.py").write_text("a")
    first = tree_hash(tmp_path)
    (tmp_path / "src" / "__pycache__" / "a.pyc").write_text("compiled")
    assert tree_hash(tmp_path) == first
    (tmp_path / "src" / "a.py").rename(tmp_path / "src" / "b.py")
    second = tree_hash(tmp_path)
    (tmp_path / "src" / "b.py").write_text("b")
    assert len({first, second, tree_hash(tmp_path)}) == 3


@pytest.mark.parametrize(
    ("nodeid", "name", "number"),
    [
        ("tests/a.py::test_x[repetition7]", "tests/a.py::test_x", 7),
        ("tests/a.py::test_x[a-b-repetition12]", "tests/a.py::test_x[a-b]", 12),
        ("tests/a.py::test_x[[]-repetition3]", "tests/a.py::test_x[[]]", 3),
        ("tests/a.py::test_x[b@c]", "tests/a.py::test_x[b@c]", 0),
    ],
)
def test_the_name_of_a_test_is_that_of_all_its_runs(nodeid: str, name: str, number: int) -> None:
    assert (name_of(nodeid), number_of(nodeid)) == (name, number)
