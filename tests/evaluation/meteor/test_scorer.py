"""METEOR as a service: results are kept, damage costs time but never a wrong number."""

from __future__ import annotations

import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.evaluation.meteor import scorer as scorer_module
from densevid.evaluation.meteor.cache import StatisticsCache
from densevid.evaluation.meteor.scorer import MeteorScorer
from densevid.evaluation.meteor.statistics import Pair, as_read_by_jar, statistics
from densevid.evaluation.meteor.worker import MeteorWorker

pytest.importorskip("pycocoevalcap")

PAIRS: list[Pair] = [
    ("a man is walking", ("the man walks",)),
    ("a man is walking", ("a man is walking",)),
    ("", ("the man walks",)),
    ("a dog", ("",)),
    ("two dogs run", ("a cat", "dogs are running", "two dogs run quickly")),
    ("a ||| man", ("the man",)),
    ("a man", ("a ||| man walks",)),
    ("7\xa01/2 metres", ("7\xa01/2 meters",)),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("densevid.evaluation.meteor.cache.cache_folder", lambda: tmp_path)
    return tmp_path


@pytest.mark.timing
def test_worker_processes_give_what_this_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer_module, "LETTERS_PER_BATCH", 40)
    with MeteorScorer(cache=False) as scorer:
        np.testing.assert_array_equal(scorer.statistics(PAIRS), statistics(PAIRS))
        assert scorer._workers


@pytest.mark.timing
def test_a_dead_worker_is_one_line() -> None:
    worker = MeteorWorker()
    worker._process.kill()
    with pytest.raises(InputError, match="METEOR stopped: exit code"):
        worker.statistics(PAIRS)
    worker.close()
    with pytest.raises(InputError, match="METEOR stopped"):
        worker.statistics(PAIRS)


def test_each_distinct_pair_is_computed_once(folder: Path) -> None:
    with MeteorScorer() as scorer:
        scorer.submit(PAIRS[:3])
        table = scorer.statistics(PAIRS + PAIRS)
        assert scorer.computed == len({as_read_by_jar(pair) for pair in PAIRS})
    with MeteorScorer() as again:
        np.testing.assert_array_equal(again.statistics(PAIRS), table[: len(PAIRS)])
        assert again.computed == 0
    with MeteorScorer(cache=False) as fresh:
        fresh.statistics(PAIRS)
        assert fresh.computed > 0


def test_versions_do_not_share_results(folder: Path) -> None:
    first, second = StatisticsCache("old"), StatisticsCache("new")
    first.write(PAIRS[:1], np.ones((1, 23)))
    assert list(first.read(PAIRS)) == PAIRS[:1]
    assert second.read(PAIRS) == {}


def test_a_damaged_row_is_computed_again(folder: Path) -> None:
    cache = StatisticsCache("key")
    cache.write(PAIRS[:3], np.arange(69.0).reshape(3, 23))
    with sqlite3.connect(cache.path) as database:
        ((key, value),) = database.execute("SELECT key, value FROM statistics LIMIT 1").fetchall()
        database.execute("UPDATE statistics SET value = ? WHERE key = ?", (value[:5] + b"\xff" + value[6:], key))
    assert len(StatisticsCache("key").read(PAIRS)) == 2


def test_a_damaged_file_is_put_aside(folder: Path) -> None:
    (folder / "meteor.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.warns(UserWarning, match="put aside"):
        assert StatisticsCache("key").read(PAIRS) == {}
    cache = StatisticsCache("key")
    cache.write(PAIRS[:1], np.ones((1, 23)))
    assert len(cache.read(PAIRS)) == 1


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = StatisticsCache("key", tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match="is not used"):
        cache.write(PAIRS[:1], np.ones((1, 23)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # warned once
        cache.write(PAIRS[:1], np.ones((1, 23)))
        assert cache.read(PAIRS) == {}


def test_many_writers_at_once(folder: Path) -> None:
    def write(number: int) -> None:
        StatisticsCache("key").write([(f"hypothesis {number}", ("r",))], np.full((1, 23), float(number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    found = StatisticsCache("key").read([(f"hypothesis {number}", ("r",)) for number in range(40)])
    assert sorted(row[0] for row in found.values()) == [float(number) for number in range(40)]
