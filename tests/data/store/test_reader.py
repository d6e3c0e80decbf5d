"""The store: what goes in comes out, whoever writes and whenever they are killed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from densevid.data.store.format import RECORD
from densevid.data.store.reader import FeatureStore, copy_features
from densevid.errors import InputError
from densevid.tracks import Clock, FeatureRecipe, FeatureTrack
from helpers.waiting import pause_at_random

STREAMS = (("appearance", 5), ("motion", 3))
RECIPE = FeatureRecipe({"name": "two-stream", "version": 1, "sampling": {"seconds": 0.5}, "weights": ["a", "b"]})


def made_track(number: int, steps: int | None = None, *, streams=STREAMS) -> FeatureTrack:
    """A track that any process can make again from its number."""
    generator = np.random.default_rng(number)
    steps = steps or 1 + number % 7
    values = generator.normal(size=(steps, sum(width for _, width in streams))).astype(np.float16)
    edges = np.cumsum(generator.uniform(0.1, 1, steps + 1))
    clock = Clock.from_edges(edges) if number % 2 else Clock.uniform(0.25 + number)
    return FeatureTrack(values, clock, streams, duration=None if number % 3 else 10.0 + number)


def assert_same(got: FeatureTrack, wanted: FeatureTrack) -> None:
    np.testing.assert_array_equal(got.values, wanted.values)
    steps = np.linspace(-1, len(wanted) + 1, 9)
    np.testing.assert_array_equal(got.seconds(steps), wanted.seconds(steps))
    assert (got.duration, got.streams) == (wanted.duration, wanted.streams)


def fill(path: Path, numbers: list[int]) -> FeatureStore:
    store = FeatureStore.create(path, STREAMS, recipe=RECIPE)
    for number in numbers:
        store.add(f"video {number}", made_track(number))
    store.refresh()
    return store


def test_tracks_are_read_as_they_were_written(tmp_path: Path) -> None:
    fill(tmp_path / "store", list(range(20)))
    store = FeatureStore.open(tmp_path / "store")
    assert store.videos() == sorted(f"video {number}" for number in range(20))
    assert len(store) == 20 and "video 3" in store and "video 20" not in store
    for number in range(20):
        track = store.track(f"video {number}")
        assert_same(track, made_track(number))
        assert track.values.dtype == np.float16 and track.recipe == RECIPE.id
        assert not track.values.flags.writeable
        extent = store.extent(f"video {number}")
        assert (extent.steps, extent.duration) == (len(track), track.duration)
    np.testing.assert_array_equal(track.stream("motion"), made_track(19).values[:, 5:])
    assert store.recipe == RECIPE and store.streams == STREAMS and store.verify() == []


@pytest.mark.parametrize("video", ["../../etc/passwd", "a/b", "日本 語", "-x'\"\\", "x" * 232, "."])
def test_an_id_is_never_part_of_a_path(tmp_path: Path, video: str) -> None:
    store = FeatureStore.create(tmp_path / "in" / "store", STREAMS)
    store.add(video, made_track(1))
    store.refresh()
    assert store.videos() == [video]
    assert_same(store.track(video), made_track(1))
    names = [file.name for file in tmp_path.rglob("*") if file.is_file()]
    assert sorted(Path(name).suffix for name in names) == [".data", ".index", ".toml"]


@pytest.mark.parametrize("video", ["", "x" * 233, "a\0b", "\ud800"])
def test_an_impossible_id_is_refused(tmp_path: Path, video: str) -> None:
    with pytest.raises(InputError, match="video id"):
        FeatureStore.create(tmp_path, STREAMS).add(video, made_track(1))


def test_the_newest_features_of_a_video_count(tmp_path: Path) -> None:
    store = fill(tmp_path, [1])
    with store.writer() as other:
        other.add("video 1", made_track(5))
    store.add("video 1", made_track(2))
    store.refresh()
    assert len(store) == 1
    assert_same(store.track("video 1"), made_track(2))


def test_values_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path / "half", (("a", 2),))
    large = FeatureTrack(np.array([[1.0, -70000.0]], np.float32), Clock.uniform(1), (("a", 2),))
    with pytest.raises(InputError, match=r"big: its value 70000 is too large for float16; store it as float32"):
        store.add("big", large)
    wide = FeatureStore.create(tmp_path / "single", (("a", 2),), dtype="float32")
    wide.add("big", large)
    wide.refresh()
    np.testing.assert_array_equal(wide.track("big").values, large.values)
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError, match="v: its features hold NaN or infinity"):
            wide.add("v", FeatureTrack(np.array([[bad, 0]], np.float32), Clock.uniform(1), (("a", 2),)))
    assert len(FeatureStore.open(tmp_path / "half")) == 0


def test_other_streams_and_recipes_are_refused(tmp_path: Path) -> None:
    store = fill(tmp_path, [])
    with pytest.raises(InputError, match="has streams"):
        store.add("v", made_track(1, streams=(("appearance", 5), ("flow", 3))))
    other = FeatureTrack(made_track(1).values, Clock.uniform(1), STREAMS, recipe="other-123")
    with pytest.raises(InputError, match="made with recipe other-123"):
        store.add("v", other)


def test_create_resumes_only_the_same_kind(tmp_path: Path) -> None:
    fill(tmp_path / "s", [1, 2])
    assert len(FeatureStore.create(tmp_path / "s", STREAMS, recipe=RECIPE, resume=True)) == 2
    with pytest.raises(InputError, match="already"):
        FeatureStore.create(tmp_path / "s", STREAMS, recipe=RECIPE)
    with pytest.raises(InputError, match="choose another folder"):
        FeatureStore.create(tmp_path / "s", STREAMS, recipe=None, resume=True)
    with pytest.raises(InputError, match="float16"):
        FeatureStore.create(tmp_path / "s", STREAMS, recipe=RECIPE, dtype="float32", resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".features.toml.x.part").touch()
    assert len(FeatureStore.create(tmp_path / "other", STREAMS)) == 0
    (tmp_path / "other" / "features.toml").unlink()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(InputError, match="not a feature store"):
        FeatureStore.create(tmp_path / "other", STREAMS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no line format"),
        ("format = 3", "has no line format"),
        ('format = "densevid-features"\nversion = 2', "store format 2, this densevid reads 1"),
        ('format = "densevid-features"\nversion = 1', "streams"),
        ('format = "densevid-features"\nversion = 1\nstreams = ["a"]\nwidths = []\ndtype = "float16"', "zip"),
        (
            'format = "densevid-features"\nversion = 1\nstreams = ["a"]\nwidths = [0]\ndtype = "float16"',
            "positive widths",
        ),
        ('format = "densevid-features"\nversion = 1\nstreams = ["a"]\nwidths = [2]\ndtype = "O"', "stored as float16"),
        ("= nonsense", "TOML"),
    ],
)
def test_a_bad_manifest_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "features.toml").write_text(text)
    with pytest.raises(InputError, match=reason):
        FeatureStore.open(tmp_path)


def test_no_store_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a feature store"):
        FeatureStore.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"video 9: no features in .*ids like 'video 1'"):
        fill(tmp_path / "s", [1]).track("video 9")


def test_verify_names_damaged_videos(tmp_path: Path) -> None:
    store = fill(tmp_path, list(range(6)))
    (data,) = tmp_path.glob("*.data")
    content = bytearray(data.read_bytes())
    content[int(store._records[store._row["video 3"]]["offset"]) + 1] ^= 4
    data.write_bytes(content)
    assert [line.split(":")[0] for line in FeatureStore.open(tmp_path).verify()] == ["video 3"]
    (index,) = tmp_path.glob("*.index")
    records = bytearray(index.read_bytes())
    records[2 * RECORD.itemsize + 240] ^= 1
    index.write_bytes(records)
    data.write_bytes(content[:-1])
    lost = FeatureStore.open(tmp_path)
    assert lost.videos() == ["video 0", "video 1", "video 3", "video 4"]
    problems = lost.verify()
    assert len(problems) == 3 and "1 records are damaged" in problems[0] and "beyond their data file" in problems[1]


@settings(max_examples=150, deadline=None)
@given(cut_index=st.integers(0, 12 * RECORD.itemsize), cut_data=st.integers(0, 4000), zeros=st.integers(0, 700))
def test_files_cut_anywhere_lose_videos_but_return_no_wrong_values(
    tmp_path_factory, cut_index, cut_data, zeros
) -> None:
    """After a power cut the files may be shorter, or end in zeros; each video is either whole or absent."""
    folder = tmp_path_factory.mktemp("cut")
    fill(folder, list(range(12)))
    (index,), (data,) = folder.glob("*.index"), folder.glob("*.data")
    kept = len(index.read_bytes()) - cut_index
    index.write_bytes(index.read_bytes()[:kept] + bytes(zeros))
    os.truncate(data, max(0, data.stat().st_size - cut_data))
    store = FeatureStore.open(folder)
    for video in store.videos():
        assert_same(store.track(video), made_track(int(video.split()[1])))
    if cut_data == 0:
        assert len(store) == max(0, kept) // RECORD.itemsize
    store.add("video 99", made_track(99))  # and the store can be gone on with
    assert_same(FeatureStore.open(folder).track("video 99"), made_track(99))


def add_share(store: FeatureStore, share: int, shares: int, total: int) -> None:
    for number in range(share, total, shares):
        store.add(f"video {number}", made_track(number))


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_many_processes_write_at_once(tmp_path: Path, start: str) -> None:
    store = fill(tmp_path, [1000])  # the parent writes too, before and after: a forked child must not share its files
    context = multiprocessing.get_context(start)
    workers = [context.Process(target=add_share, args=(store, share, 4, 200)) for share in range(4)]
    for worker in workers:
        worker.start()
    store.add("video 1001", made_track(1001))
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    store.refresh()
    assert len(store) == 202 and store.verify() == []
    for number in (*range(200), 1000, 1001):
        assert_same(store.track(f"video {number}"), made_track(number))
    assert len(list(tmp_path.glob("*.index"))) == 5


WRITE_UNTIL_KILLED = """
import sys
sys.path[:0] = sys.argv[2:]
from test_reader import FeatureStore, made_track
store = FeatureStore.open(sys.argv[1])
print("ready", flush=True)
for number in range(100000):
    if f"video {number}" not in store:
        store.add(f"video {number}", made_track(number, 300))
        print(number, flush=True)
"""


def test_a_kill_at_any_moment_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    """Two writers at once are killed at random moments, again and again; all that they reported is there, and whole."""
    store = FeatureStore.create(tmp_path, STREAMS)
    here = Path(__file__).parent
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, *map(str, (tmp_path, here, here.parents[1]))]
    moments, reported = random.Random(0), set()
    for _ in range(4):
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        for writer in writers:
            reported.add(int(writer.stdout.readline()))  # it has begun to write
        for writer in writers:
            pause_at_random(moments.uniform(0.0, 0.1))
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            lines = writer.communicate()[0].splitlines(keepends=True)
            reported |= {int(line) for line in lines if line.endswith("\n")}
    store.refresh()
    assert reported and {f"video {number}" for number in reported} <= set(store.videos())
    assert store.verify() == []
    for video in store.videos():
        assert_same(store.track(video), made_track(int(video.split()[1]), 300))


def test_a_reader_sees_whole_videos_while_others_write(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path, STREAMS)
    worker = multiprocessing.get_context("spawn").Process(target=add_share, args=(store, 0, 1, 150))
    worker.start()
    while worker.is_alive():
        store.refresh()
        for video in store.videos()[-3:]:
            assert_same(store.track(video), made_track(int(video.split()[1])))
    worker.join()
    store.refresh()
    assert len(store) == 150


def test_a_full_disk_leaves_the_finished_videos_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from densevid.data.store import writer as store_writer

    store = fill(tmp_path, [1, 2])
    real = store_writer._write

    def half_of_it(file, content):
        real(file, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_writer, "_write", half_of_it)
    with pytest.raises(OSError, match="No space"):
        store.add("video 3", made_track(3))
    monkeypatch.setattr(store_writer, "_write", real)
    store.add("video 4", made_track(4))
    store.refresh()
    assert store.videos() == ["video 1", "video 2", "video 4"] and store.verify() == []


def test_videos_committed_in_batches_are_read_back(tmp_path: Path) -> None:
    store = fill(tmp_path, [])
    with store.writer(commit_every=3) as writer:
        for number in range(7):
            writer.add(f"video {number}", made_track(number))
        store.refresh()
        assert len(store) == 6
    store.refresh()
    assert len(store) == 7


def test_copying_changes_precision_and_packs(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", [1, 2])
    with source.writer() as other:
        other.add("video 3", made_track(3))
    source.refresh()
    target = FeatureStore.create(tmp_path / "b", STREAMS, recipe=RECIPE, dtype="float32")
    assert copy_features(source, target) == 3 and copy_features(source, target) == 0
    assert len(list((tmp_path / "b").glob("*.data"))) == 1
    for number in (1, 2, 3):
        assert target.track(f"video {number}").values.dtype == np.float32
        assert_same(target.track(f"video {number}"), made_track(number))


def test_a_store_travels_to_a_worker(tmp_path: Path) -> None:
    store = pickle.loads(pickle.dumps(fill(tmp_path, [1])))
    assert_same(store.track("video 1"), made_track(1))


def test_opening_a_store_and_naming_its_videos_reads_no_features(tmp_path: Path) -> None:
    """Start-up on a large store costs its index; the time itself is a benchmark (`benchmarks.startup`)."""
    fill(tmp_path, range(6))
    for path in tmp_path.glob("*.data"):
        size = path.stat().st_size
        path.write_bytes(bytes(size))  # features that could not be read
    opened = FeatureStore.open(tmp_path)
    assert len(opened) == 6 and set(opened.videos()) == {f"video {number}" for number in range(6)}
    with pytest.raises(InputError):
        opened.track("video 3")
