"""What `densevid caption` remembers: features and events of a video, within limits, damaged or not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import densevid
from densevid.cli import main
from densevid.data.extraction import extract_many
from densevid.events import read_events
from densevid.pipeline.cache import Cache, CachedTrack, track_key
from densevid.tracks import Clock, FeatureTrack
from helpers.made_videos import constant, make_video
from helpers.ordinary_user import run_as_ordinary_user
from helpers.waiting import LIMIT_SECONDS


def test_a_second_run_decodes_nothing_and_says_the_same(video, fresh_cache, monkeypatch) -> None:
    assert main(["caption", str(video)]) == 0
    first = [*read_events(video.parent / "clip.densevid.json").values()]

    def fails(*args: object) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr("densevid.video.extract.VideoSteps", fails)
    renamed = video.rename(video.with_name("renamed.mp4"))
    assert main(["caption", str(renamed), "--format", "json"]) == 0
    assert [*read_events(video.parent / "renamed.densevid.json").values()] == first
    assert main(["caption", str(renamed), "--format", "json", "--dense"]) == 0, "other events of the same features"


def test_a_second_run_needs_no_torch(video, fresh_cache) -> None:
    assert main(["caption", str(video), "--format", "json"]) == 0
    code = f"import sys, densevid.cli as c; c.main(['caption', {str(video)!r}, '--format', 'json,vtt']); "
    code += "print([name for name in ('torch', 'onnxruntime') if name in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
    )
    assert shown.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"events": 3, "duration": 1, "warning": null}', b"\xff" * 40])
def test_a_damaged_cache_is_made_again(damage, video, fresh_cache) -> None:
    assert main(["caption", str(video), "--format", "json"]) == 0
    first = [*read_events(video.parent / "clip.densevid.json").values()]
    entries = [file for file in fresh_cache.rglob("*") if file.is_file()]
    assert sorted(entry.suffix for entry in entries) == [".json", ".onnx", ".safetensors"]
    for entry in entries:
        entry.unlink()  # the networks are links to those of other tests
        entry.write_bytes(damage)
    assert main(["caption", str(video), "--format", "json"]) == 0
    assert [*read_events(video.parent / "clip.densevid.json").values()] == first
    assert all(entry.read_bytes() != damage for entry in entries), "and kept again"


def test_a_network_that_was_cut_short_is_made_again(video, fresh_cache) -> None:
    assert main(["caption", str(video), "--format", "json"]) == 0
    (network,) = fresh_cache.glob("*.onnx")
    whole = network.read_bytes()
    network.unlink()
    network.write_bytes(whole[: len(whole) // 2])
    shutil.rmtree(fresh_cache / "events")
    shutil.rmtree(fresh_cache / "features")
    assert main(["caption", str(video), "--format", "json"]) == 0
    assert network.read_bytes() == whole


def test_the_cache_stays_under_its_limit(tmp_path, fresh_cache, monkeypatch) -> None:
    monkeypatch.setenv("DENSEVID_CACHE_BYTES", "40000")
    (tmp_path / "videos").mkdir()
    for number in range(3):
        make_video(tmp_path / "videos" / f"{number}.mp4", constant(3.0 + number))
    assert main(["caption", str(tmp_path / "videos"), "--format", "json"]) == 0
    kept = [file.stat().st_size for file in (fresh_cache / "features").iterdir()]
    assert 0 < sum(kept) <= 40000 and len(kept) < 3


def test_without_a_cache_nothing_is_kept(video, fresh_cache) -> None:
    before = set(fresh_cache.iterdir())
    assert main(["caption", str(video), "--no-cache", "--format", "json"]) == 0
    assert set(fresh_cache.iterdir()) - before <= {fresh_cache / file.name for file in fresh_cache.glob("*.onnx")}


@pytest.mark.parametrize("limit", ["4 GB", "-1", "1e9", "x"])
def test_a_cache_limit_that_is_no_number_is_refused_before_the_work(
    limit, video, fresh_cache, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("DENSEVID_CACHE_BYTES", limit)
    assert main(["caption", str(video), "--format", "json"]) == 2
    complaint = capsys.readouterr().err
    assert (
        complaint.startswith("densevid: DENSEVID_CACHE_BYTES must be a whole number of bytes")
        and complaint.count("\n") == 1
    )
    assert not (fresh_cache / "features").exists()


def test_a_cache_that_may_not_be_entered_is_not_needed(video, tmp_path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    done = run_as_ordinary_user(["caption", str(video), "--format", "json"], DENSEVID_CACHE=str(tmp_path / "locked"))
    assert (done.returncode, done.stderr) == (0, "")
    assert read_events(video.parent / "clip.densevid.json")["clip"]


def test_a_store_is_not_captioned_twice(video, tmp_path, fresh_cache, monkeypatch) -> None:
    extract_many([video], tmp_path / "store", backbone="appearance", workers=1)
    assert main(["caption", str(tmp_path / "store"), "--format", "json"]) == 0
    first = (tmp_path / "store-captions" / "clip.densevid.json").read_text()
    monkeypatch.setattr("densevid.inference.long_video.LongVideoCaptioner.captioned", None)
    assert main(["caption", str(tmp_path / "store"), "--format", "json"]) == 0
    assert (tmp_path / "store-captions" / "clip.densevid.json").read_text() == first


def test_a_track_without_a_stream_is_kept_apart_from_the_whole_one(tmp_path) -> None:
    cache = Cache(tmp_path)
    whole = FeatureTrack(np.ones((2, 3), np.float16), Clock.uniform(1.0), (("a", 1), ("b", 2)), "recipe")
    cache.keep_track("key", "recipe", CachedTrack(replace(whole, absent=("b",))))
    assert cache.track("key", "recipe") is None
    lacking = cache.track("key", "recipe", ("b",))
    assert lacking is not None and lacking.track.absent == ("b",)
    cache.keep_track("key", "recipe", CachedTrack(whole))
    found = cache.track("key", "recipe")
    assert found is not None and found.track.absent == ()
    assert track_key(lacking.track) != track_key(found.track)


def test_a_result_without_a_stream_has_a_line_about_it(video) -> None:
    track = densevid.extract(video, backbone="appearance")
    lacking = replace(track, absent=("appearance",))
    with pytest.warns(UserWarning, match="captioned without the stream appearance; see `densevid doctor`"):
        densevid.load().caption(lacking)
