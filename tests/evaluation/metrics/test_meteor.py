"""METEOR as a service: engines agree, answers are kept, damage costs time but never a wrong number."""

from __future__ import annotations

import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from densevid.errors import InputError
from densevid.evaluation.java import LineProcess, MeteorJar
from densevid.evaluation.metrics import meteor, meteor_worker
from densevid.evaluation.metrics.meteor_cache import StatisticsCache

PAIRS: list[meteor.Pair] = [
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
    monkeypatch.setattr("densevid.evaluation.metrics.meteor_cache.cache_folder", lambda: tmp_path)
    return tmp_path


def test_the_jar_and_native_agree() -> None:
    native, java = (meteor.statistics(PAIRS, engine=engine, cache=False) for engine in ("native", "java"))
    np.testing.assert_array_equal(native, java)
    assert meteor.segment_scores(native)[1] == 1.0
    assert meteor.segment_scores(native)[2] == meteor.segment_scores(native)[3] == 0.0


def test_workers_give_what_this_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(meteor.BATCH, "native", 40)
    here = meteor.native_meteor.statistics(PAIRS)
    with meteor.opened(cache=False) as engine:
        np.testing.assert_array_equal(engine.statistics(PAIRS), here)
        assert all(isinstance(process, meteor_worker.MeteorWorker) for process in engine._started)
        assert engine._started


def test_a_dead_worker_is_one_line() -> None:
    worker = meteor_worker.MeteorWorker()
    worker.close()
    with pytest.raises((InputError, ValueError)):
        worker.statistics(PAIRS)
    stopped = LineProcess("METEOR's jar", "-version")
    with pytest.raises(InputError, match="stopped after 0 of 1 answers"):
        stopped.ask(["SCORE ||| a ||| b"])
    stopped.close()


def test_the_jar_that_answers_nonsense_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    jar = MeteorJar()
    monkeypatch.setattr(jar, "ask", lambda lines, heard: ["Error: specify Meteor stats"] * len(lines))
    with pytest.raises(InputError, match="instead of 23 numbers"):
        jar.statistics(PAIRS[:1])
    jar.close()


def test_an_unknown_engine_is_one_line() -> None:
    with pytest.raises(InputError, match="choose from native, java"):
        meteor.Meteor("perl")


def test_each_distinct_pair_is_asked_once(folder: Path) -> None:
    with meteor.opened() as engine:
        engine.begin(PAIRS[:3])
        table = engine.statistics(PAIRS + PAIRS)
        assert engine.asked == len({meteor._as_sent(pair) for pair in PAIRS})
    with meteor.opened() as again:
        np.testing.assert_array_equal(again.statistics(PAIRS), table[: len(PAIRS)])
        assert again.asked == 0
    with meteor.opened(cache=False) as fresh:
        fresh.statistics(PAIRS)
        assert fresh.asked > 0


def test_engines_do_not_share_answers(folder: Path) -> None:
    first, second = StatisticsCache("jar"), StatisticsCache("native")
    first.write(PAIRS[:1], np.ones((1, 23)))
    assert list(first.read(PAIRS)) == PAIRS[:1]
    assert second.read(PAIRS) == {}


def test_a_damaged_row_is_asked_again(folder: Path) -> None:
    cache = StatisticsCache("jar")
    cache.write(PAIRS[:3], np.arange(69.0).reshape(3, 23))
    with sqlite3.connect(cache.path) as database:
        ((key, value),) = database.execute("SELECT key, value FROM statistics LIMIT 1").fetchall()
        database.execute("UPDATE statistics SET value = ? WHERE key = ?", (value[:5] + b"\xff" + value[6:], key))
    assert len(StatisticsCache("jar").read(PAIRS)) == 2


def test_a_damaged_file_is_put_aside(folder: Path) -> None:
    (folder / "meteor.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.warns(UserWarning, match="put aside"):
        assert StatisticsCache("jar").read(PAIRS) == {}
    cache = StatisticsCache("jar")
    cache.write(PAIRS[:1], np.ones((1, 23)))
    assert len(cache.read(PAIRS)) == 1


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = StatisticsCache("jar", tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match="is not used"):
        cache.write(PAIRS[:1], np.ones((1, 23)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        cache.write(PAIRS[:1], np.ones((1, 23)))
        assert cache.read(PAIRS) == {}


def test_many_writers_at_once(folder: Path) -> None:
    def write(number: int) -> None:
        StatisticsCache("jar").write([(f"hypothesis {number}", ("r",))], np.full((1, 23), float(number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    found = StatisticsCache("jar").read([(f"hypothesis {number}", ("r",)) for number in range(40)])
    assert sorted(row[0] for row in found.values()) == [float(number) for number in range(40)]
